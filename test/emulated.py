"""Compile a network for a board, and run the program on the emulated core."""

from pathlib import Path

from firmware import write_files
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.emulator import EmulatedModel
from ceras_ir.backends.c.machines import Board, COptions, load_machine
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function


def emulated(
    module: ModuleOp, options: COptions, board: str, folder: Path, level: str
) -> EmulatedModel:
    """Return the program of the placed network `module`, compiled with the flag `level`."""
    main, machine = main_function(module), load_machine(board)
    assert isinstance(machine, Board)
    (folder / "model").mkdir()
    files = [a for a in emit(module, options) if a.path.startswith("model")]
    sources = write_files(files, folder / "model")
    ends = network_inputs(main), network_outputs(main)
    return EmulatedModel(sources, *ends, machine, folder, flags=(level,))
