"""
Answer the requests of an editor about IR text, through the language server protocol of pygls.

1. Diagnostics: the errors of parser and verifier, for each part of the text.
2. Descriptions: the docstring of an operation, attribute, type or pass.
3. Definitions and uses of values: found by regular expressions, so that the text need not parse.
4. Execution of the network at any level, with a synthetic input.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from urllib.parse import unquote

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.universe import Universe

from ceras_ir.command.exit_status import Diagnostic, SourceError
from ceras_ir.data.sample_stream import synthetic_samples
from ceras_ir.data.samples import Array
from ceras_ir.dialects.mem import arena_of
from ceras_ir.interpreters.network import run, run_in_arena
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.parsing import parse_text, parts_of
from ceras_ir.pipeline.verification import find_invalid
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.options import docstring


def diagnose(ctx: Context, text: str, file: str) -> list[Diagnostic]:
    """Return all errors in IR text, each with the position if it is known."""
    found: list[Diagnostic] = []
    for part in parts_of(text):
        try:
            found += find_invalid(parse_text(ctx, part, file))
        except InputError as error:
            found += (_at_use(each, part) for each in diagnostics_of(error, file))
    return found


UNDEFINED = re.compile(r"values used but not defined: \[(%[\w$.-]+)")


def _at_use(found: Diagnostic, text: str) -> Diagnostic:
    # The parser reports an undefined value at the end; move the error to the use.
    if (match := UNDEFINED.match(found.message)) is None:
        return found
    for number, line in enumerate(text.split("\n"), 1):
        if (use := re.search(rf"{re.escape(match[1])}(?![\w$.-])", line)) is not None:
            return replace(found, line=number, column=use.start() + 1)
    return found


def diagnostics_of(error: InputError, file: str) -> list[Diagnostic]:
    """
    Convert `error` to diagnostics of an editor. An error without position is shown at the beginning
    of `file`.
    """
    if isinstance(error, SourceError):
        return list(error.diagnostics)
    return [Diagnostic("\n".join(error.lines(file)), file)]


def valid_part(ctx: Context, text: str, file: str, line: int) -> ModuleOp:
    """
    Parse and verify the part of `text` that contains `line` (from 0); lines `// -----` separate
    parts. Raise an `InputError` if it is invalid.
    """
    chosen = ""
    for part in parts_of(text):
        chosen = part
        if part.count("\n") >= line:
            break
    module = parse_text(ctx, chosen, file)
    if found := find_invalid(module):
        raise SourceError(found)
    return module


def explanation(ctx: Context, universe: Universe, text: str) -> str | None:
    """
    Return the docstring of the operation, type, attribute or pass with the name `text`, as
    Markdown, or `None`.
    """
    kind = "operation"
    found: type | None = ctx.get_optional_op(text)
    if found is None and text[:1] in "!#":
        kind = "type" if text[0] == "!" else "attribute"
        lookup = ctx.get_optional_type if kind == "type" else ctx.get_optional_attr
        found = lookup(text[1:])
    if found is None and text.removeprefix("--") in universe.all_passes:
        kind, found = "pass", universe.all_passes[text.removeprefix("--")]()
    if found is None:
        return None
    return f"**{text}** ({kind})\n\n{docstring(found) or 'It has no description.'}"


def operation_names(universe: Universe, prefix: str) -> Iterator[str]:
    """
    Yield the operations of the dialect at the start of `prefix`, such as `graph.`, for completion.
    """
    name, dot, _ = prefix.partition(".")
    if dot and name in universe.all_dialects:
        for op in universe.all_dialects[name]().operations:
            yield op.name


WORD = re.compile(
    r"%[\w$.-]+(?:\#\d+)?|@[\w$.-]+|\^[\w$.-]+|[!#]?[A-Za-z_][\w$-]*(?:\.[A-Za-z_][\w$-]*)*"
)
"""A value, a symbol, a block, or the name of an operation, type or attribute."""

FUNCTION_LINE = re.compile(r"^\s*(?:func\.func|\"func\.func\")")
STRING_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*')


@dataclass(frozen=True)
class Word:
    """The characters [start, end) of a line that form a word. Lines and characters count from 0."""

    text: str
    line: int
    start: int
    end: int


def word_at(text: str, line: int, column: int) -> Word | None:
    """
    Return the word that contains the position, or is directly before it; `None` if there is no
    word. `line` and `column` count from 0.
    """
    lines = text.split("\n")
    if not 0 <= line < len(lines):
        return None
    for match in WORD.finditer(lines[line]):
        if match.start() <= column <= match.end():
            return Word(match[0], line, match.start(), match.end())
    return None


def definition(text: str, word: Word) -> Word | None:
    """
    Return the place in `text` that defines the value, block or symbol `word`, or `None`. For a
    value, it is the nearest definition above.
    """
    lines = [_blanked(each) for each in text.split("\n")]
    name, _, _ = word.text.partition("#")
    if name.startswith("@"):
        pattern = re.compile(
            rf"(?:func\.func|module)\s+(?:private\s+|public\s+)?({re.escape(name)})\b"
        )
        return _first(pattern, text.split("\n"), range(len(lines)))
    if name.startswith("^"):
        pattern = re.compile(rf"^\s*({re.escape(name)})\b[^,)]*[:(]")
        return _first(pattern, lines, range(len(lines)))
    if not name.startswith("%"):
        return None
    start, end = _function_around(lines, word.line)
    result = re.compile(rf"(?:^|,|\bfor\b)\s*({re.escape(name)})(?::\d+)?\s*(?=[,=])(?=[^()]*=)")
    argument = re.compile(rf"[(,]\s*({re.escape(name)})\s*:\s")
    for at in (*range(word.line, start - 1, -1), *range(word.line + 1, end)):
        for pattern in (result, argument):
            if (found := _first(pattern, lines, range(at, at + 1))) is not None:
                return found
    return None


def uses(text: str, word: Word) -> Iterator[Word]:
    """Yield all occurrences of the value `word` in the function that contains it."""
    lines = [_blanked(each) for each in text.split("\n")]
    name, _, _ = word.text.partition("#")
    start, end = _function_around(lines, word.line)
    for at in range(start, end):
        for match in WORD.finditer(lines[at]):
            if match[0].partition("#")[0] == name:
                yield Word(match[0], at, match.start(), match.end())


def functions(text: str) -> Iterator[int]:
    """
    Yield the numbers, from 0, of the lines at which a function named `main` begins. The editor
    offers to run it.
    """
    for number, line in enumerate(text.split("\n")):
        if FUNCTION_LINE.match(line) and re.search(r"@main\b|sym_name\s*=\s*\"main\"", line):
            yield number


def _blanked(line: str) -> str:
    # Replace strings and comments by spaces.
    return STRING_OR_COMMENT.sub(lambda match: " " * len(match[0]), line)


def _function_around(lines: list[str], line: int) -> tuple[int, int]:
    # The lines [start, end) from the begin of the function to the begin of the next.
    begins = [i for i, each in enumerate(lines) if FUNCTION_LINE.match(each) or "// -----" in each]
    start = max((i for i in begins if i <= line), default=0)
    return start, min((i for i in begins if i > line), default=len(lines))


def _first(pattern: re.Pattern[str], lines: list[str], numbers: range) -> Word | None:
    for number in numbers:
        if (match := pattern.search(lines[number])) is not None:
            return Word(match[1], number, match.start(1), match.end(1))
    return None


SEED = 0


def run_level(module: ModuleOp) -> str:
    """
    Run the network of `module`, at any level, on a synthetic input. Return a text with a line for
    each output.
    """
    main = main_function(module)
    (sample,) = synthetic_samples(main, 1, SEED)
    start = perf_counter()
    runner = run_in_arena if arena_of(main) is not None else run
    outputs = runner(module, sample)
    milliseconds = 1000 * (perf_counter() - start)
    lines = [f"{name}: {_summary(array)}" for name, array in outputs.items()]
    lines.append(f"synthetic input (seed {SEED}), interpreted in {milliseconds:.0f} ms")
    return "\n".join(lines)


def _summary(array: Array) -> str:
    shape = "x".join(map(str, array.shape)) or "scalar"
    if not array.size:
        return f"{array.dtype}[{shape}], empty"
    reals = array.astype(float)
    low, high, mean = float(reals.min()), float(reals.max()), float(reals.mean())
    return f"{array.dtype}[{shape}] in [{low:.6g}, {high:.6g}], mean {mean:.6g}"


RUN = "ceras.runLevel"
"""The command of the code lens above each network."""


def make_server(version: str, universe: Universe, ctx: Context) -> LanguageServer:
    """Return a language server for IR text in the dialects of `ctx`."""
    server = LanguageServer("ceras-lsp", version, types.TextDocumentSyncKind.Full)

    def opened_text(uri: str) -> str:
        # Files that the editor has not opened are not read: they can be devices, or missing.
        document = server.workspace.text_documents.get(unquote(uri))
        return "" if document is None else document.source

    def path_of(uri: str) -> str:
        return server.workspace.get_text_document(uri).path

    def publish(uri: str) -> None:
        text = opened_text(uri)
        lines = text.split("\n")
        found = [_diagnostic(d, lines) for d in diagnose(ctx, text, path_of(uri))]
        server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found))

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        publish(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        publish(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        empty = types.PublishDiagnosticsParams(params.text_document.uri, [])
        server.text_document_publish_diagnostics(empty)

    def word(uri: str, place: types.Position) -> tuple[str, Word | None]:
        text = opened_text(uri)
        return text, word_at(text, place.line, place.character)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        text, found = word(params.text_document.uri, params.position)
        if found is None:
            return None
        shown = explanation(ctx, universe, found.text)
        if shown is None and (defined := definition(text, found)) is not None:
            shown = f"```mlir\n{text.split(chr(10))[defined.line].strip()}\n```"
        if shown is None:
            return None
        content = types.MarkupContent(types.MarkupKind.Markdown, shown)
        return types.Hover(content, _range(found))

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def define(params: types.DefinitionParams) -> types.Location | None:
        text, found = word(params.text_document.uri, params.position)
        defined = None if found is None else definition(text, found)
        if defined is None:
            return None
        return types.Location(params.text_document.uri, _range(defined))

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    def refer(params: types.ReferenceParams) -> list[types.Location]:
        text, found = word(params.text_document.uri, params.position)
        if found is None or not found.text.startswith("%"):
            return []
        return [types.Location(params.text_document.uri, _range(w)) for w in uses(text, found)]

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(["."]))
    def complete(params: types.CompletionParams) -> list[types.CompletionItem]:
        _, found = word(params.text_document.uri, params.position)
        names = operation_names(universe, found.text if found else _dialect(params))
        kind = types.CompletionItemKind.Function
        return [types.CompletionItem(name.partition(".")[2], kind=kind) for name in names]

    def _dialect(params: types.CompletionParams) -> str:
        # The dialect before a dot that was just typed.
        text, place = params.text_document.uri, params.position
        before = word(text, types.Position(place.line, max(place.character - 1, 0)))[1]
        return f"{before.text}." if before else ""

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS)
    def lenses(params: types.CodeLensParams) -> list[types.CodeLens]:
        uri = params.text_document.uri
        text = opened_text(uri)
        return [
            types.CodeLens(
                types.Range(types.Position(line, 0), types.Position(line, 0)),
                types.Command("run level", RUN, arguments=[uri, line]),
            )
            for line in functions(text)
        ]

    @server.command(RUN)
    def run(uri: str, line: int) -> str:
        kind = types.MessageType.Info
        try:
            message = run_level(valid_part(ctx, opened_text(uri), path_of(uri), line))
        except InputError as error:
            kind, message = types.MessageType.Error, "\n".join(error.lines(path_of(uri)))
        server.window_show_message(types.ShowMessageParams(kind, message))
        return message

    return server


def _diagnostic(found: Diagnostic, lines: list[str]) -> types.Diagnostic:
    line = min(max((found.line or 1) - 1, 0), max(len(lines) - 1, 0))
    start = max((found.column or 1) - 1, 0)
    word = word_at("\n".join(lines), line, start)
    end = word.end if word is not None and word.start == start else start + 1
    place = types.Range(types.Position(line, start), types.Position(line, end))
    severity = types.DiagnosticSeverity.Error
    return types.Diagnostic(place, found.message, severity=severity, source="ceras")


def _range(word: Word) -> types.Range:
    return types.Range(types.Position(word.line, word.start), types.Position(word.line, word.end))
