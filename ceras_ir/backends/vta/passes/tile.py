"""Two-stage tiling as one step."""

from dataclasses import dataclass

from xdsl.passes import ModulePass

from ceras_ir.backends.vta.analysis.tiling import Convolution
from ceras_ir.backends.vta.passes.expand_tiles import ExpandTilesPass
from ceras_ir.backends.vta.passes.schedule_tiles import Schedule, ScheduleTilesPass
from ceras_ir.transforms.pipeline import PipelinePass


@dataclass(frozen=True)
class TilePass(PipelinePass):
    """`schedule-tiles` with the options given here, then `expand-tiles`."""

    name = "tile"

    schedule: Schedule = "auto"
    mblock: int | None = None
    kblock: int | None = None
    nblock: int | None = None
    board: str = "zcu102"
    convolution: Convolution = "auto"
    jobs: int = 1

    def passes(self) -> tuple[ModulePass, ...]:
        blocks = (self.mblock, self.kblock, self.nblock)
        return (
            ScheduleTilesPass(self.schedule, *blocks, self.board, self.convolution, self.jobs),
            ExpandTilesPass(self.board),
        )
