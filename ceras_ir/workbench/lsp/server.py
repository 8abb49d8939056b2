"""Connect the answers about IR text to the language server protocol, with pygls."""

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from xdsl.context import Context
from xdsl.universe import Universe

from ceras_ir.command.exit_status import Diagnostic
from ceras_ir.support.diagnostics import InputError
from ceras_ir.workbench.lsp.answers import (
    Word,
    definition,
    diagnose,
    explanation,
    functions,
    operation_names,
    run_level,
    uses,
    valid_part,
    word_at,
)

RUN = "ceras.runLevel"
"""The command of the code lens above each network."""


def make_server(version: str, universe: Universe, ctx: Context) -> LanguageServer:
    """Return a server for texts in the dialects of `ctx`."""
    server = LanguageServer("ceras-lsp", version, types.TextDocumentSyncKind.Full)

    def publish(uri: str) -> None:
        document = server.workspace.get_text_document(uri)
        lines = document.source.split("\n")
        found = [_diagnostic(d, lines) for d in diagnose(ctx, document.source, document.path)]
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
        text = server.workspace.get_text_document(uri).source
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
        text = server.workspace.get_text_document(uri).source
        return [
            types.CodeLens(
                types.Range(types.Position(line, 0), types.Position(line, 0)),
                types.Command("run level", RUN, arguments=[uri, line]),
            )
            for line in functions(text)
        ]

    @server.command(RUN)
    def run(uri: str, line: int) -> str:
        document = server.workspace.get_text_document(uri)
        kind = types.MessageType.Info
        try:
            message = run_level(valid_part(ctx, document.source, document.path, line))
        except InputError as error:
            kind, message = types.MessageType.Error, "\n".join(error.lines(document.path))
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
