"""Target systolic: convolutions and matrix products on an 8x8 array, the rest in C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.targets import (
    MEMORY,
    PLACED,
    Accelerator,
    Arithmetic,
    Emission,
    Manifest,
    Stage,
    Target,
    by_convention,
    option,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ceras_ir.targets import Compiled
    from ceras_ir.targets.execution import Sample


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
    def check_board(cls, name: str) -> None:
        from ceras_systolic.board import load_board

        load_board(name)

    @classmethod
    def accelerator(cls, board: str | None, jobs: int = 1) -> Accelerator:
        from ceras_systolic.rules import SystolicArray

        return SystolicArray(board)

    def lower(self) -> list[Stage]:
        from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass
        from ceras_ir.transforms.placement.place import PlacePass
        from ceras_systolic.package import ALIGNMENT
        from ceras_systolic.tile_for_array import TileForArrayPass

        return [
            Stage(PLACED, (PlacePass(self.name, self.board),)),
            Stage("tiled graph", (TileForArrayPass(self.board),)),
            # The array sees nothing but the arena: ends of the network are in it too.
            Stage(MEMORY, (AllocateBlocksPass(alignment=ALIGNMENT, io=True),)),
        ]

    def emit(self, module: ModuleOp, title: str, sample: Callable[[], Sample]) -> Emission:
        from ceras_systolic.board import load_board
        from ceras_systolic.package import emit_array

        return emit_array(module, load_board(self.board))

    def open(self, folder: Path, manifest: Manifest) -> Compiled:
        from ceras_systolic.package import open_array

        return open_array(folder, manifest)
