"""
The nnet format: a network as one binary file that an engine runs without a decision.

`emit` writes it, `reader.read` reads and checks it without sharing code with the writer,
`dump.dump` prints it, `rules.why_not` says what the FPGA cannot run, and `runner` executes it
in the C++ engine of `runtime/`. The format is specified in `docs/nnet-format.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ceras_ir.command.entry_point import Command

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ceras_ir.network.artefacts import Artefact

command = Command(
    "ceras-nnet", "look into nnet files: dump, check, diff", "ceras_ir.backends.nnet.tool"
)


def emit(module: ModuleOp) -> list[Artefact]:
    """The files of a network whose values have places in memory: `model.nnet`."""
    from ceras_ir.backends.nnet.writer import emit

    return emit(module)
