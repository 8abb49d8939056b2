"""Two-stage tiling as one step."""

from dataclasses import dataclass

from xdsl.passes import ModulePass

from ceras_ir.backends.vta.hardware import DEFAULT_BOARD_NAME
from ceras_ir.backends.vta.passes.expand_tiles import ExpandTilesPass
from ceras_ir.backends.vta.passes.schedule_tiles import Schedule, ScheduleTilesPass
from ceras_ir.backends.vta.schedule.tiling import Convolution
from ceras_ir.transforms.pipeline import PipelinePass


@dataclass(frozen=True)
class TilePass(PipelinePass):
    """Run `schedule-tiles` with these options, then `expand-tiles`."""

    name = "tile"

    schedule: Schedule = "auto"
    """See `schedule-tiles`."""
    mblock: int | None = None
    """See `schedule-tiles`."""
    kblock: int | None = None
    """See `schedule-tiles`."""
    nblock: int | None = None
    """See `schedule-tiles`."""
    board: str = DEFAULT_BOARD_NAME
    """See `schedule-tiles`."""
    convolution: Convolution = "auto"
    """See `schedule-tiles`."""
    jobs: int = 1
    """See `schedule-tiles`."""

    def passes(self) -> tuple[ModulePass, ...]:
        blocks = (self.mblock, self.kblock, self.nblock)
        return (
            ScheduleTilesPass(self.schedule, *blocks, self.board, self.convolution, self.jobs),
            ExpandTilesPass(self.board),
        )
