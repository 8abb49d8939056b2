"""`ceras-opt -t vta`: the instruction streams of all launches as text."""

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from ceras_ir.backends.vta.board import load_board
from ceras_ir.backends.vta.disassembler import disassemble_program
from ceras_ir.backends.vta.hardware import DEFAULT_BOARD_NAME
from ceras_ir.backends.vta.launches import lower_launches


@dataclass(frozen=True)
class VtaText(Target):
    """One `.vtas` text per launch of a module with placed memory, for `board`."""

    name = "vta"

    board: str = DEFAULT_BOARD_NAME

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        for index, launch in enumerate(lower_launches(module, load_board(self.board))):
            output.write(f"; launch {index} ({launch.name})\n")
            output.write(disassemble_program(launch.program))
