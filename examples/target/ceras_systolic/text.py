"""`ceras-opt -t systolic`: the streams of a module at the last level, to look at and to test."""

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from ceras_systolic.board import load_board
from ceras_systolic.program import ArrayProgram


@dataclass(frozen=True)
class SystolicText(Target):
    """One instruction a line; `board` must be the one that the tiles were chosen for."""

    name = "systolic"

    board: str | None = None

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(ArrayProgram.of(module, load_board(self.board)).text())
