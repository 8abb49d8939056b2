"""Choose the schedules of contractions by running them."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.backends.vta.hardware import DEFAULT_BOARD_NAME
from ceras_ir.backends.vta.passes.expand_tiles import ExpandTilesPass
from ceras_ir.backends.vta.passes.schedule_tiles import ScheduleTilesPass
from ceras_ir.backends.vta.schedule.tiling import Convolution
from ceras_ir.support.remarks import remark


@dataclass(frozen=True)
class TuneTilesPass(ModulePass):
    """
    Give `tile.conv2d` operations the schedules with which they take the fewest cycles when they are
    run, of those that the cost model likes best. Where all together take no fewer than with the
    model's choice, none gets one, and `schedule-tiles` goes on. Changes no value: a schedule is a
    promise about order only.
    """

    name = "tune-tiles"

    board: str = DEFAULT_BOARD_NAME
    """The board: a name or VTA's .json file."""
    convolution: Convolution = "auto"
    """See `schedule-tiles`."""
    merged: bool = True
    """Whether layers will share streams, as the timed simulator then has them."""
    runner: str | None = None
    """
    What runs each layer, with places for {config}, {dram}, {insns} and {out}, and prints the cycles
    as its last line; the timed simulator if there is none.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from ceras_ir.backends.vta.passes.tuning import Tuner

        tiling = (
            ScheduleTilesPass(board=self.board, convolution=self.convolution),
            ExpandTilesPass(self.board),
        )
        found = Tuner(
            *(op, self.board, self.convolution, tiling), merged=self.merged, runner=self.runner
        ).tuned()
        for contraction, schedule in found.schedules:
            contraction.schedule = schedule
        remark(f"{self.name}: note: {found.line()}")
