"""Implement `ceras-lsp`, the language server that editors start."""

import logging
import os
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from io import BufferedReader, FileIO

from ceras_ir.command.exit_status import run_tool
from ceras_ir.command.tool_parser import ToolParser
from ceras_ir.pipeline.context import add_plugins, load_context, load_universe, plugins
from ceras_ir.support.diagnostics import InputError, UsageError
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
        epilog="Exit status: 0 closed by the editor, 1 a message is too long, 2 wrong usage.",
    )
    add_plugins(parser.add_argument_group("plugins"))
    return parser


MAX_LINE_BYTES, MAX_MESSAGE_BYTES = 1 << 13, 1 << 28
"""The largest header line and the largest message of an editor."""


class MessageInput(BufferedReader):
    """
    The standard input of the language server. It raises an `InputError` for messages that are too
    large for memory.
    """

    def __init__(self) -> None:
        super().__init__(FileIO(0, closefd=False))

    def readline(self, size: int | None = -1, /) -> bytes:
        """Return a header line; raise an `InputError` if it is too long."""
        line = super().readline(MAX_LINE_BYTES)
        if len(line) == MAX_LINE_BYTES:
            raise InputError(f"a header of a message has more than {MAX_LINE_BYTES:,} bytes")
        return line

    def read(self, size: int | None = -1, /) -> bytes:
        """
        Return a message of `size` bytes, or fewer at the end of the input. Raise an `InputError` if
        `size` is too large.
        """
        if size is None or not 0 <= size <= MAX_MESSAGE_BYTES:
            raise InputError(
                f"a message has {size:,} bytes, where {MAX_MESSAGE_BYTES:,} are possible: open a "
                "smaller file"
            )
        return super().read(size)


def _serve(argv: Sequence[str]) -> int:
    with plugins(argv):
        make_parser().read(argv)
        if find_spec("pygls") is None:
            raise UsageError(f"needs pygls: {install_command('editor')}")
        from ceras_ir.workbench.lsp.server import make_server

        # pygls sends errors to the editor, and also logs them with tracebacks.
        logging.getLogger("pygls").setLevel(logging.CRITICAL)
        universe = load_universe()
        server = make_server(version(DISTRIBUTION), universe, load_context(universe))
        # The server closes the stream.
        with os.fdopen(os.dup(1), "wb") as output:
            server.start_io(MessageInput(), output)
    return 0
