"""
From a file to a module: `.mlir` text, or a model through the frontend for its extension.

Parsed operations get the place they were read from as their location unless the text gives
one, so that later errors can name a line. Whatever the text does wrong is a `SourceError`.
"""

import os
import re
import sys
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

from xdsl.context import Context
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    AnyFloat,
    ComplexType,
    FileLineColLoc,
    IndexType,
    IntAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Operation
from xdsl.parser import AttrParser, Parser
from xdsl.parser.generic_parser import ParserState
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input, Span, Token
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind, StringLiteral

from ceras_ir.command.exit_status import from_parse_error
from ceras_ir.pipeline.printing import ELIDED
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.suggestions import did_you_mean

if TYPE_CHECKING:
    from ceras_ir.frontends.onnx import Observer

MAX_NESTING = 64
"""Regions deeper than this are refused, so that no recursion over the IR can run out of stack."""

STDIN = "<stdin>"

Element: TypeAlias = AnyFloat | IntegerType | IndexType | ComplexType
"""What a literal of a tensor can be an element of."""

MALFORMED = (VerifyException, ValueError, OverflowError)
"""What operations and attributes raise when they are built from parts that they refuse."""


class LinearLexer(MLIRLexer):
    """
    The lexer of xDSL, with two changes: a string literal that is not closed takes linear time, and
    escaped bytes that are UTF-8 are text, as xDSL prints names that are not ASCII.
    """

    # The same literals; `++` and `*+` do not try again with less.
    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')

    def _lex_string_literal(self, start_pos: int) -> MLIRToken:
        token = super()._lex_string_literal(start_pos)
        if token.kind != MLIRTokenKind.BYTES_LIT:
            return token
        try:
            StringLiteral.from_span(token.span).bytes_contents.decode()
        except UnicodeDecodeError:
            return token
        return Token(MLIRTokenKind.STRING_LIT, token.span)


class LocatingParser(Parser):
    """xDSL's parser, which also records where each operation starts, and reads all floats."""

    def __init__(self, ctx: Context, text: str, file: str):
        super().__init__(ctx, "", file)
        self._parser_state = ParserState(LinearLexer(Input(text, file)))
        self._file = StringAttr(file)
        self._line_starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        self.open_operations = list[int]()
        """Where the operations that are being parsed start, outermost first."""

    def parse_operation(self) -> Operation:
        start = self.pos
        self.open_operations.append(start)
        if len(self.open_operations) > MAX_NESTING:
            self.raise_error(f"operations are nested more than {MAX_NESTING} deep")
        op = super().parse_operation()
        self.open_operations.pop()
        if op.location is UNKNOWN_LOC:
            line = bisect_right(self._line_starts, start)
            column = start - self._line_starts[line - 1] + 1
            op.location = FileLineColLoc(self._file, IntAttr(line), IntAttr(column))
        return op

    def _get_op_by_name(self, name: str) -> type[Operation]:
        stack = self._parser_state.dialect_stack
        if found := self.ctx.get_optional_op(name, dialect_stack=stack):
            return found
        dialect = self.ctx.get_optional_dialect(name.partition(".")[0])
        way_out = "; --load-dialect-plugin=F.py loads a dialect of yours"
        if dialect is not None:
            way_out = did_you_mean(name, (op.name for op in dialect.operations))
        # The parser stands behind the name, which may be in quotation marks.
        end = len(self._parser_state.lexer.input.content[: self.pos].rstrip().rstrip('"'))
        message = f"Operation {name} is not registered{way_out}"
        self.raise_error(message, end - len(name), end)

    def _parse_tensor_literal_element(self):
        element = super()._parse_tensor_literal_element()
        as_written = element.to_type

        def to_type(parser: AttrParser, type: Element) -> int | float | tuple[float, float]:
            if isinstance(type, AnyFloat):
                bits = element.to_int(parser).to_bytes(type.compile_time_size, "little")
                return next(type.iter_unpack(bits))
            return as_written(parser, type)

        # Infinities and NaN are printed as their bits, which xDSL takes for an integer.
        if element.span.text[:2] in ("0x", "0X"):
            element.to_type = to_type
        return element

    def _parse_dialect_resource_handle(
        self, dialect_name: str, interface: OpAsmDialectInterface
    ) -> str:
        # xDSL renames a key that an earlier file of this process has used.
        if self._current_token.text == ELIDED:
            return self.parse_identifier()
        return super()._parse_dialect_resource_handle(dialect_name, interface)


def parse_text(ctx: Context, text: str, file: str) -> ModuleOp:
    """The module that `text` spells; `file` is what diagnostics call it."""
    if not text.strip():
        return ModuleOp([])
    parser = None
    try:
        parser = LocatingParser(ctx, text, file)
        return parser.parse_module()
    except ParseError as error:
        raise from_parse_error(error) from None
    except RecursionError:
        message = "attributes or types are nested too deeply"
    except MALFORMED as error:
        message = str(error).strip() or "malformed operation"
    except Exception as error:
        if type(error) is not Exception:
            raise
        # xDSL's memref operations raise nothing more exact for a wrong number of indices.
        message = str(error)
    start = parser.open_operations[-1] if parser and parser.open_operations else 0
    raise from_parse_error(ParseError(Span(start, start + 1, Input(text, file)), message))


def read_text(path: str) -> str:
    """The text of the file at `path`, or of the standard input for `-`."""
    if path == "-":
        data = sys.stdin.buffer.read()
    else:
        with open(path, "rb") as file:
            data = file.read()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"not UTF-8 text (byte 0x{data[error.start]:02x} at offset {error.start})"
        if path == "-":
            message += "; an ONNX model is read from a file alone"
        raise InputError(message, display_name(path)) from None


def display_name(path: str) -> str:
    """How diagnostics call the input at `path`."""
    return STDIN if path == "-" else path


def is_model(path: str) -> bool:
    """Whether `path` is read by a frontend rather than as IR text."""
    return os.path.splitext(path)[1].lower() == ".onnx"


def check_ending(path: str) -> None:
    """Refuse a file that is neither a model nor IR text by its name, nor the standard input."""
    if not is_model(path) and not path.endswith(".mlir") and path != "-":
        raise InputError(
            "expected a model ending in .onnx or IR text ending in .mlir, or - for IR text on the "
            "standard input",
            path,
        )


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
    The module in the file at `path`: IR text (`-` for the standard input) or an ONNX model,
    whose symbolic batch dimension becomes `batch`, whose inputs in `shapes` have those, and whose
    inputs in `values` are those numbers.
    """
    if is_model(path):
        from ceras_ir.frontends.onnx import import_file

        with open(path, "rb"):  # a missing file is reported before onnx is imported
            return import_file(path, batch=batch, shapes=shapes, values=values, observe=observe)
    return parse_text(ctx, read_text(path), display_name(path))
