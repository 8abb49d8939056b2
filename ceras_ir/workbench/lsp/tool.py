"""Implement `ceras-lsp`, the language server that editors start."""

import os
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec

from ceras_ir.command.exit_status import run_tool
from ceras_ir.command.tool_parser import ToolParser
from ceras_ir.pipeline.context import add_plugins, load_context, load_universe, plugins
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.extensions import DISTRIBUTION
from ceras_ir.support.extras import install_command


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-lsp", _serve, argv)


def make_parser() -> ToolParser:
    """Return the parser of `ceras-lsp`."""
    parser = ToolParser(
        "ceras-lsp",
        description="Serve an editor over stdin and stdout: errors, descriptions of operations "
        "and passes, definitions of values, completion, and a code lens that executes a network "
        "at any level. Needs the extra `editor`.",
        epilog="Exit status: 0 closed by the editor, 2 wrong usage.",
    )
    add_plugins(parser.add_argument_group("plugins"))
    return parser


def _serve(argv: Sequence[str]) -> int:
    with plugins(argv):
        make_parser().read(argv)
        if find_spec("pygls") is None:
            raise UsageError(f"needs pygls: {install_command('editor')}")
        from ceras_ir.workbench.lsp.server import make_server

        universe = load_universe()
        server = make_server(version(DISTRIBUTION), universe, load_context(universe))
        # The server closes the stream.
        with os.fdopen(os.dup(1), "wb") as output:
            server.start_io(stdout=output)
    return 0
