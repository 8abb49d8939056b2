"""Define target systolic: convolutions and matrix products on an array, the rest in C."""

from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.targets import (
    MEMORY,
    PLACED,
    Accelerator,
    Arithmetic,
    Compiled,
    Emission,
    Manifest,
    Stage,
    Target,
    by_convention,
    option,
)
from ceras_systolic.board import Board, load_board


@dataclass(frozen=True)
class SystolicTarget(Target):
    """An output-stationary systolic array, and the C of the host around it."""

    name = "systolic"
    arithmetic = Arithmetic(floats=False, multipliers=False, channel_shifts=False, widths=(8,))
    passes = by_convention("ceras_systolic", "tile-for-array")
    text = "ceras_systolic.package:SystolicText"

    board: str | None = option(
        None,
        "memories and rates of an array, to place by modelled time: a built-in name or a .toml "
        "file; without one, edge, and all that the rules admit is on the array",
        metavar="NAME|FILE",
    )

    @classmethod
    def board_types(cls) -> tuple[type, ...]:
        return (Board,)

    @classmethod
    def check_board(cls, name: str) -> None:
        load_board(name)

    @classmethod
    def accelerator(cls, board: str | None, jobs: int = 1) -> Accelerator:
        from ceras_systolic.rules import SystolicArray

        return SystolicArray(board)

    def lower(self) -> list[Stage]:
        from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass
        from ceras_ir.transforms.placement import PlacePass
        from ceras_systolic.tile_for_array import TileForArrayPass

        return [
            Stage(PLACED, (PlacePass(self.name, self.board),)),
            Stage("tiled graph", (TileForArrayPass(self.board),)),
            # The array accesses only the arena, so it also holds graph inputs and outputs.
            Stage(MEMORY, (AllocateBlocksPass(io=True),)),
        ]

    def emit(self, module: ModuleOp, title: str) -> Emission:
        from ceras_systolic.package import emit_array

        return emit_array(module, load_board(self.board))

    def open(self, folder: Path, manifest: Manifest) -> Compiled:
        from ceras_systolic.package import open_array

        return open_array(folder, manifest)
