"""
Read a module from a file: `.mlir` text, or a model through the frontend for its extension.

The location of a parsed operation is the place in the text, unless the text specifies it, so that
later errors can name a line. All errors in the text are a `SourceError`. A file with several
independent modules, as in tests, has lines of `// -----` between them. For caches and other
processes, a network is written as bytes.
"""

import io
import os
import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, NoReturn

from xdsl.context import Context
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    AnyDenseElement,
    AnyFloat,
    Builtin,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    IntAttr,
    ModuleOp,
    RankedStructure,
    StringAttr,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation
from xdsl.parser import AttrParser, Parser, ParserState
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input, Span, Token
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind, StringLiteral

from ceras_ir.command.exit_status import from_parse_error
from ceras_ir.frontends.formats import (
    TEXT,
    ending_of,
    extension_importer,
    is_model,
    model_endings,
    text_of,
)
from ceras_ir.network.lengths import UpTo
from ceras_ir.pipeline.context import load_context, load_universe
from ceras_ir.pipeline.printing import ELIDED, print_module
from ceras_ir.pipeline.verification import verify_module
from ceras_ir.support.diagnostics import (
    InputError,
    UnsupportedError,
    UsageError,
    did_you_mean,
    missing_file_remedy,
    remark,
)
from ceras_ir.support.user_files import read_bytes, regular

if TYPE_CHECKING:
    from ceras_ir.frontends.onnx import Observer


CALL = "func.call"
"""The operation that is inlined before a network is compiled."""

MAX_NESTING = 64
"""The depth of regions above which text is refused, to protect the stack."""

MAX_MNEMONIC = 200
"""The number of characters in which the results and the name of an operation are searched."""

STDIN = "<stdin>"

COMMENT = re.compile(r"//[^\n]*")

STRING = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')
"""The string literals of xDSL; `++` and `*+` do not backtrack."""

STRING_START = re.compile(r'(?:\s++|//[^\n]*+)*+@?+"', re.ASCII)
"""The text up to the quotation mark, if the next token is a string or a quoted symbol."""

HEX_ELEMENT = re.compile(r'(?<![\w"])0[xX]')
ELEMENT = re.compile(r"(?:-\s*)?\w[\w.+-]*")

UNKNOWN_OPERATION = re.compile(r"Operation (\S+) is not registered")
"""The message of xDSL, to which a remedy is added."""

LOCATION_ALIAS = re.compile(r"^#\w+ = loc\(.*\)$", re.MULTILINE)
"""The definition of an alias of a location. mlir-opt prints definitions also after the module."""

LOCATION_RANGE = re.compile(r'(?<=")(:\d{1,9}:\d{1,9})( to \d{0,9}:\d{1,9})(?=[\s)\],])')
"""A range of a file as a location, of which xDSL parses only the start."""

MALFORMED = (VerifyException, ValueError, OverflowError)
"""The exceptions of operations and attributes for invalid parts."""


class LinearLexer(MLIRLexer):
    """
    The lexer of xDSL with two changes. A string literal without an end is refused in linear time.
    Escaped bytes that are UTF-8 are text, because xDSL prints names that are not ASCII in this
    form.
    """

    def lex(self) -> MLIRToken:
        text = self.input.content
        found = STRING_START.match(text, self.pos)
        if found is None:
            return super().lex()
        start = found.end() - 1
        # The search of xDSL needs exponential time for a literal without an end.
        literal = STRING.match(text, start)
        if literal is None:
            message = "End of file reached before closing string literal."
            raise ParseError(Span(start, start + 1, self.input), message)
        if found[0].endswith('@"'):
            return super().lex()
        self.pos = literal.end()
        span = StringLiteral(start, self.pos, self.input)
        try:
            if "\\" in span.text:
                span.bytes_contents.decode()
        except UnicodeDecodeError:
            return Token(MLIRTokenKind.BYTES_LIT, span)
        return Token(MLIRTokenKind.STRING_LIT, span)


class LocatingParser(Parser):
    """
    The parser of xDSL with two changes. It records the line and column of each operation as the
    location, and it accepts infinities and NaN in constants.
    """

    def __init__(self, ctx: Context, text: str, file: str):
        super().__init__(ctx, "", file)
        text = LOCATION_RANGE.sub(_without_end, text)
        defined = _location_aliases(ctx, text, file)
        if defined:
            text = LOCATION_ALIAS.sub(_blank, text)
        # The constructor of the base class accepts a lexer.
        AttrParser.__init__(self, ParserState(LinearLexer(Input(text, file))), ctx)
        self.attribute_aliases |= defined
        # xDSL renames the key of a resource that an earlier file of the process used.
        self.dialect_resources.add((Builtin.name, ELIDED))
        self._file = StringAttr(file)
        self._line_starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        self.open_operations = list[int]()
        """The starts of the operations that are being parsed, outermost first."""

    def parse_operation(self) -> Operation:
        start = self.pos
        self.open_operations.append(start)
        if len(self.open_operations) > MAX_NESTING:
            self.raise_error(f"operations are nested more than {MAX_NESTING} deep")
        try:
            op = super().parse_operation()
        except ParseError as error:
            if unknown := UNKNOWN_OPERATION.fullmatch(error.msg):
                self._refuse(unknown[1])
            raise
        self.open_operations.pop()
        if op.location is UNKNOWN_LOC:
            line = bisect_right(self._line_starts, start)
            column = start - self._line_starts[line - 1] + 1
            op.location = FileLineColLoc(self._file, IntAttr(line), IntAttr(column))
        return op

    def open_operation(self) -> tuple[int, str]:
        """
        Return the line and the name of the innermost operation that is being parsed, for error
        messages.
        """
        start = self.open_operations[-1] if self.open_operations else 0
        found = MNEMONIC.match(self._text(start, start + MAX_MNEMONIC))
        return bisect_right(self._line_starts, start), found[1] if found else ""

    def form_of_operation(self) -> str:
        """
        Return the declared assembly format of the operation at this position, for error messages.
        Return "" if it declares none.
        """
        name = self.open_operation()[1]
        dialect = self.ctx.get_optional_dialect(name.partition(".")[0])
        for op in () if dialect is None else dialect.operations:
            if op.name == name and issubclass(op, IRDLOperation):
                form = op.get_irdl_definition().assembly_format or ""
                for part, shown in FORMAT_WORDS.items():
                    form = form.replace(part, shown)
                return f"{name} {form}" if form else ""
        return ""

    def _refuse(self, name: str) -> NoReturn:
        dialect_name = name.partition(".")[0]
        dialect = self.ctx.get_optional_dialect(dialect_name)
        way_out = "; --load-dialect-plugin=F.py loads a dialect from a file"
        if extension_importer(ending := f".{dialect_name}{TEXT}") is not None:
            way_out = f"; text of this dialect is imported from a file with the ending {ending}"
        elif dialect is not None:
            way_out = did_you_mean(name, (op.name for op in dialect.operations))
        # The position of the parser is after the name, which may be quoted.
        end = len(self._text(0, self.pos).rstrip().rstrip('"'))
        message = f"Operation {name} is not registered{way_out}"
        self.raise_error(message, end - len(name), end)

    def _text(self, start: int, end: int) -> str:
        text = self.lexer.input.content[start:end]
        assert isinstance(text, str)
        return text

    def parse_dense_int_or_fp_elements_attr(
        self, type: RankedStructure[AnyDenseElement] | None
    ) -> DenseIntOrFPElementsAttr:
        start = self.pos
        parsed = super().parse_dense_int_or_fp_elements_attr(type)
        element = parsed.get_element_type()
        # The elements are a string of bytes.
        if not isinstance(element, AnyFloat) or self._text(start, start + 2) == '<"':
            return parsed
        literal = self._text(start, self.pos)
        if not HEX_ELEMENT.search(literal):
            return parsed
        # Infinities and NaN are printed as bits, which xDSL parses as integers.
        numbers = ELEMENT.findall(COMMENT.sub("", literal).partition(">")[0])
        size, data = element.compile_time_size, bytearray(parsed.data.data)
        for i, number in enumerate(numbers):
            if HEX_ELEMENT.match(number):
                bits = int(number, 16).to_bytes(size, "little")
                data[i * size : (i + 1) * size] = element.pack(tuple(element.iter_unpack(bits)))
        if len(numbers) == 1:
            data = data[:size] * len(parsed)
        return DenseIntOrFPElementsAttr(parsed.type, BytesAttr(bytes(data)))


def _location_aliases(ctx: Context, text: str, file: str) -> dict[str, Attribute]:
    """
    Return the location that each alias such as `#loc1` defines, by name. The definition of an alias
    may use aliases of earlier lines.
    """
    if LOCATION_ALIAS.search(text) is None:
        return {}
    lines = (line if LOCATION_ALIAS.fullmatch(line) else "" for line in text.split("\n"))
    parser = Parser(ctx, "\n".join([*lines, "builtin.module {}"]), file)
    parser.parse_module()
    return parser.attribute_aliases


def _without_end(found: re.Match[str]) -> str:
    return found[1] + " " * len(found[2])


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


def parse_text(ctx: Context, text: str, file: str) -> ModuleOp:
    """
    Parse a module. `file` is the name of the text in locations and diagnostics. Each error in the
    text raises a `SourceError`.
    """
    if not text.strip():
        return ModuleOp([])
    parser = None
    try:
        parser = LocatingParser(ctx, text, file)
        return parser.parse_module()
    except ParseError as error:
        raise from_parse_error(_clarified(error, parser)) from None
    except RecursionError:
        message = "attributes or types are nested too deeply"
    except MALFORMED as error:
        message = _with_form(str(error).strip() or "malformed operation", parser)
    except Exception as error:
        if type(error) is not Exception:
            raise
        # The memref operations of xDSL raise this for a wrong number of indices.
        message = str(error)
    start = parser.open_operations[-1] if parser and parser.open_operations else 0
    raise from_parse_error(ParseError(Span(start, start + 1, Input(text, file)), message))


WRONG_TYPE = re.compile(r"(?P<found>.+) should be of base attribute (?P<kind>\S+)")
"""The message of xDSL about an attribute or type of another kind."""

MNEMONIC = re.compile(r"(?:%[^=]*=\s*)?(\w+(?:\.\w+)+)")
"""The start of an operation in the custom form, with the name."""

FORMAT_WORDS = {
    "`": "",
    "attr-dict": "{attributes}",
    "functional-type(operands, results)": "(operand types) -> (result types)",
}
"""Parts of an assembly format, as messages show them."""


def _clarified(error: ParseError, parser: LocatingParser | None) -> ParseError:
    """
    Return `error` with a message that explains how to correct the text, if the message of xDSL does
    not.
    """
    message = error.msg
    if parser is None:
        return error
    if message.strip() == "in block definition":
        # The innermost operation with an open region.
        line, name = parser.open_operation()
        of = f" of '{name}'" if name else ""
        message = (
            f"expected an operation, a block label such as ^bb0, or '}}' that closes the "
            f"'{{'{of} at line {line}"
        )
    elif message == "Could not parse entire input!":
        message = "expected the end of the text: a '{' is missing before this place, or remove it"
    elif message.startswith(("Expected", "'<' expected")):
        message = _with_form(message, parser)
    return error if message == error.msg else ParseError(error.span, message)


def _with_form(message: str, parser: LocatingParser | None) -> str:
    if found := WRONG_TYPE.fullmatch(message):
        message = f"expected a type or attribute of kind '{found['kind']}', got {found['found']}"
    if parser is None or not (form := parser.form_of_operation()):
        return message
    return f"{message}; the form is: {form}"


def read_text(path: str) -> str:
    """Return the text of the file at `path`, or of the standard input for `-`."""
    data = sys.stdin.buffer.read() if path == "-" else read_bytes(path)
    try:
        return text_of(data, display_name(path))
    except InputError as error:
        if path != "-":
            raise
        raise InputError(f"{error}; give an ONNX model as a file", error.file) from None


def display_name(path: str) -> str:
    """Return the name of the input at `path` for diagnostics: `<stdin>` for `-`."""
    return STDIN if path == "-" else path


def check_ending(path: str) -> None:
    """
    Raise `InputError` unless the name ends like a model or IR text (`.mlir`), or is `-` for stdin.
    For the formats of other frameworks, the message has the command that converts the file.
    """
    if is_model(path) or path.endswith(".mlir") or path == "-":
        return
    stem, ending = os.path.splitext(path)
    remedy = EXPORTS.get(ending.lower())
    expected = (
        f"expected a model ending in {' or '.join(model_endings())} or IR text ending in .mlir, or "
        "- for IR text on the standard input"
    )
    if os.path.isdir(path):
        raise InputError(f"a folder, {expected}", path)
    if remedy is None and not os.path.exists(path):
        what = "file" if ending else "file or folder"
        raise InputError(f"{expected}; no such {what}{missing_file_remedy(path)}", path)
    export = "" if remedy is None else f"; {remedy.format(path=path, onnx=f'{stem}.onnx')}"
    raise InputError(f"{expected}{export}", path)


_PYTORCH = (
    "export the network from PyTorch: torch.onnx.export(network.eval(), (example_input,), '{onnx}')"
)
_TENSORFLOW = (
    "convert it: pip install tf2onnx; python -m tf2onnx.convert {option} {{path}} --output {{onnx}}"
)
_KERAS = (
    "export it: python -c \"import keras; keras.saving.load_model('{path}').export('{onnx}', "
    "format='onnx')\""
)
_SKLEARN = "convert the estimator: pip install skl2onnx; skl2onnx.to_onnx(estimator, example_input)"
EXPORTS = {
    **dict.fromkeys((".pt", ".pth", ".ckpt", ".safetensors", ".bin"), _PYTORCH),
    ".tflite": _TENSORFLOW.format(option="--tflite"),
    **dict.fromkeys((".h5", ".keras"), _KERAS),
    ".pb": _TENSORFLOW.format(option="--graphdef"),
    **dict.fromkeys((".pkl", ".joblib"), _SKLEARN),
}
"""The conversion to ONNX of files of other frameworks, by the ending of their names."""


def load_module(
    ctx: Context,
    path: str,
    *,
    batch: int = 1,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Sequence[float]] | None = None,
    observe: "Observer | None" = None,
) -> ModuleOp:
    """
    Read the module in the file at `path`: IR text (`-` for the standard input) or a model. In a
    model, the symbolic batch dimension becomes `batch`, inputs in `shapes` get these shapes, and
    inputs in `values` become constants. `observe` is a callback that follows the import of an ONNX
    file; other files do not call it.
    """
    if (importer := extension_importer(ending_of(path))) is not None:
        regular(path)  # A missing file is reported before packages are imported.
        for name, shape in (shapes or {}).items():
            if up_to := [n for n in shape if isinstance(n, UpTo)]:
                message = f"the maximum {up_to[0]} of a value inside the network is for ONNX models"
                raise UsageError(f"--shape {name}: {message}; give the shape of an input")
        return importer(path, batch=batch, shapes=shapes, values=values)
    if is_model(path):
        regular(path)  # A missing file is reported before onnx is imported.
        from ceras_ir.frontends.onnx import import_file

        return import_file(path, batch=batch, shapes=shapes, values=values, observe=observe)
    return parse_text(ctx, read_text(path), display_name(path))


SPLIT_MARKER = re.compile(r"^// -----[ \t\r]*$", re.MULTILINE)


def parts_of(text: str) -> Iterator[str]:
    """
    Split a file with several modules, which are separated by lines `// -----`. Each part begins
    with as many empty lines as lines precede it in the file, so that line numbers match the file.
    """
    start = 0
    for marker in [*SPLIT_MARKER.finditer(text), None]:
        end = marker.start() if marker else len(text)
        yield "\n" * text.count("\n", 0, start) + text[start:end]
        start = marker.end() if marker else end


def read_network(
    path: str,
    *,
    batch: int = 1,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Sequence[float]] | None = None,
    states: Mapping[str, str] | None = None,
    observe: "Observer | None" = None,
) -> ModuleOp:
    """
    Read and verify the network of a model or of IR text (`-` for the standard input); calls of
    functions are inlined. For `batch`, `shapes` and `values` see `load_module`. `states` maps an
    input to the output of the previous call that it receives. `observe` follows the import of an
    ONNX file, before transposes are eliminated.
    """
    check_ending(path)
    ctx = load_context(None if is_model(path) else load_universe())
    module = load_module(ctx, path, batch=batch, shapes=shapes, values=values, observe=observe)
    if not is_model(path):
        _refuse_imported_dialects(module, path)
    verify_module(module)
    if any(op.name == CALL for op in module.walk()):
        from ceras_ir.transforms.graph.inline import InlinePass

        InlinePass().apply(ctx, module)
    return prepared(module, values=values, states=states)


def _refuse_imported_dialects(module: ModuleOp, path: str) -> None:
    """Refuse operations that an extension imports from files with another ending."""
    names = {op.name.partition(".")[0] for op in module.walk()}
    for name in sorted(names - {"builtin", "func", "graph"}):
        if extension_importer(ending := f".{name}{TEXT}") is not None:
            message = (
                f"unsupported operations of {name} in this text; they are imported from a file "
                f"with the ending {ending}: rename it"
            )
            raise UnsupportedError(message, display_name(path))


def prepared(
    module: ModuleOp,
    *,
    values: Mapping[str, Sequence[float]] | None = None,
    states: Mapping[str, str] | None = None,
) -> ModuleOp:
    """
    Declare `states` (input name -> name of the output of the previous call) in an imported network,
    and return it. Print a warning if `values` fixed all inputs.
    """
    if values:
        from ceras_ir.network.function import input_names, main_function

        if not input_names(main_function(module)):
            fixed = ", ".join(f"'{name}'" for name in values)
            remark(
                f"warning: --set fixes all inputs of the network ({fixed}), so the outputs are "
                "constants: remove --set for inputs that vary"
            )
    if states:
        from ceras_ir.network.function import declare_states

        declare_states(module, states)
    return module


_CARRIED_FILE = "carried network"


@dataclass(frozen=True)
class TextCarrier:
    """
    Converts networks to bytes of IR text and back, for caches and other processes. Names of layers
    are kept.
    """

    def pack(self, module: ModuleOp) -> bytes:
        stream = io.StringIO()
        print_module(module, stream, debuginfo=True)
        return stream.getvalue().encode()

    def unpack(self, data: bytes) -> ModuleOp:
        module = parse_text(load_context(load_universe()), data.decode(), _CARRIED_FILE)
        for op in module.walk():
            # A value without a place in the model has no place here.
            if (
                isinstance(op.location, FileLineColLoc)
                and op.location.filename.data == _CARRIED_FILE
            ):
                op.location = UNKNOWN_LOC
        return module
