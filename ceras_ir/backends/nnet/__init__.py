"""
Target nnet stores a network in a binary file for a C++ engine, which may use an FPGA.

`emit` writes the file. `reader.read` loads and checks it; reader and writer share no code. `dump`
prints it. `rules.why_not` returns why the FPGA cannot execute an operation. `engine` builds the C++
engine in `runtime/` and executes networks. `docs/nnet-format.md` specifies the format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ceras_ir.command.entry_point import LOOK, Command

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ceras_ir.network.artefacts import Artefact

command = Command(
    "ceras-nnet", "dump, check and compare nnet files", "ceras_ir.backends.nnet.tool", LOOK
)


def emit(module: ModuleOp) -> list[Artefact]:
    """
    Return the file `model.nnet` of the network in `module`. Memory planning must have assigned an
    address to each value.
    """
    from ceras_ir.backends.nnet.writer import emit

    return emit(module)
