"""`ceras-run --vta-stream`: the time of a stream from a file, and its effect on a DRAM image."""

import argparse
from pathlib import Path

from ceras_ir.support.diagnostics import InputError, UsageError


def run_stream(arguments: argparse.Namespace) -> None:
    """
    Print what the stream costs; with `--inputs` and `--outputs`, run it on that image too; with
    `--check`, refuse one that is not proven good; with `--relies`, say what it relies on instead.
    """
    from ceras_ir.backends.vta.addresses import parse_address, parse_pointers
    from ceras_ir.backends.vta.board import load_board
    from ceras_ir.backends.vta.hardware import DEFAULT_BOARD_NAME
    from ceras_ir.backends.vta.reliance import MOST_COUNTED, reliance, trial
    from ceras_ir.backends.vta.stream_file import StreamFile, read_pieces, summary
    from ceras_ir.command.exit_status import Diagnostic, SourceError
    from ceras_ir.command.named_file import naming

    _check_usage(arguments)
    board = load_board(getattr(arguments, "board", DEFAULT_BOARD_NAME))
    base = 0 if arguments.dram_base is None else parse_address(arguments.dram_base, "--dram-base")
    pointers = None if arguments.pointers is None else parse_pointers(arguments.pointers)
    with naming(arguments.vta_stream):
        stream = StreamFile.read(Path(arguments.vta_stream), board).placed(base, pointers, board)
        cost = stream.cost(board)
    dram = None
    if arguments.inputs is not None:
        dram = read_pieces(arguments.inputs, base)
        if "@" in arguments.inputs:
            dram = stream.grown(dram, board)
    if arguments.check and (findings := stream.check(dram, board)):
        raise SourceError([Diagnostic(str(f), arguments.vta_stream) for f in findings])
    lines = [summary(cost)]
    if arguments.relies:
        lines += ["relies on", *reliance(stream.check(dram, board, MOST_COUNTED))]
    if dram is not None:
        with naming(arguments.vta_stream):
            if arguments.relies:
                lines += ["tried with", *trial(stream.instructions, dram, board)]
            stream.run(dram, board, zeroed=arguments.zeroed)
        try:
            Path(arguments.outputs).write_bytes(dram.tobytes())
        except OSError as error:
            raise InputError(f"cannot write: {error.strerror}", arguments.outputs) from None
    print("\n".join(lines))


def _check_usage(arguments: argparse.Namespace) -> None:
    if arguments.model is not None or arguments.target is not None:
        raise UsageError("--vta-stream runs a stream alone: leave out model and --target")
    if (arguments.inputs is None) != (arguments.outputs is None):
        raise UsageError("--vta-stream takes --inputs and --outputs together, as DRAM images")
    wanted = next((f for f in ("check", "relies") if getattr(arguments, f)), None)
    if wanted and arguments.inputs is None and not arguments.vta_stream.endswith(".vtas"):
        raise UsageError(
            f"--{wanted} of a raw stream needs --inputs: micro-ops are in the DRAM image"
        )
    if arguments.check and arguments.relies:
        raise UsageError("--check refuses what --relies tells: give one of them")
