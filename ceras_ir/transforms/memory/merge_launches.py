"""Start launches together between which the host has nothing to do."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.passes import ModulePass

from ceras_ir.dialects.mem import CONTINUES, LaunchOp
from ceras_ir.network.function import main_function
from ceras_ir.transforms.memory.analysis.liveness import steps
from ceras_ir.transforms.memory.analysis.starts import is_host_work


@dataclass(frozen=True)
class MergeLaunchesPass(ModulePass):
    """
    Give `mem.continues` to every launch that follows another with no work of the host's between.
    No other launch has it then. A target may make one program of such launches.

    Values have their places already (`allocate-blocks`), as a view is work where it is a copy.

    Exact: launches keep their order; it only says that the host does not look in between.
    """

    name = "merge-launches"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        follows = False
        for step in steps(main_function(op)):
            if isinstance(step, LaunchOp):
                step.attributes.pop(CONTINUES, None)
                if follows:
                    step.attributes[CONTINUES] = UnitAttr()
                follows = True
            elif is_host_work(step):
                follows = False
