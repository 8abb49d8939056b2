"""`ceras-run --vta-stream`: the time of a stream from a file, and its effect on a DRAM image."""

import argparse
from pathlib import Path

from ceras_ir.support.diagnostics import InputError, UsageError


def run_stream(arguments: argparse.Namespace) -> None:
    """
    Print what the stream costs; with `--inputs` and `--outputs`, run it on that image too; with
    `--check`, refuse one that is not proven good.
    """
    from ceras_ir.backends.vta.board import load_board
    from ceras_ir.backends.vta.emit import DEFAULT_BOARD_NAME
    from ceras_ir.backends.vta.stream_file import StreamFile, read_image, summary
    from ceras_ir.command.exit_status import Diagnostic, SourceError
    from ceras_ir.command.named_file import naming

    if arguments.model is not None or arguments.target is not None:
        raise UsageError("--vta-stream runs a stream alone: leave out model and --target")
    if (arguments.inputs is None) != (arguments.outputs is None):
        raise UsageError("--vta-stream takes --inputs and --outputs together, as DRAM images")
    if arguments.check and arguments.inputs is None and not arguments.vta_stream.endswith(".vtas"):
        raise UsageError("--check of a raw stream needs --inputs: micro-ops are in the DRAM image")
    board = load_board(getattr(arguments, "board", DEFAULT_BOARD_NAME))
    with naming(arguments.vta_stream):
        stream = StreamFile.read(Path(arguments.vta_stream), board)
        cost = stream.cost(board)
    dram = None if arguments.inputs is None else read_image(Path(arguments.inputs))
    if arguments.check and (findings := stream.check(dram, board)):
        raise SourceError([Diagnostic(str(f), arguments.vta_stream) for f in findings])
    if dram is not None:
        with naming(arguments.vta_stream):
            stream.run(dram, board)
        try:
            Path(arguments.outputs).write_bytes(dram.tobytes())
        except OSError as error:
            raise InputError(f"cannot write: {error.strerror}", arguments.outputs) from None
    print(summary(cost))
