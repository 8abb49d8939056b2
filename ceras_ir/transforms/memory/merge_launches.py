"""Start launches together between which the host has nothing to do."""

from dataclasses import dataclass

from xdsl.dialects.builtin import UnitAttr
from xdsl.dialects.func import FuncOp

from ceras_ir.dialects.mem import CONTINUES, LaunchOp
from ceras_ir.transforms.memory.analysis.liveness import steps
from ceras_ir.transforms.memory.analysis.starts import is_host_work
from ceras_ir.transforms.network_pass import NetworkPass


@dataclass(frozen=True)
class MergeLaunchesPass(NetworkPass):
    """
    Give `mem.continues` to every launch that follows another with no work of the host's between.
    No other launch has it then. A target may make one program of such launches.

    Values have their places already (`allocate-blocks`), as a view is work where it is a copy.

    Exact: launches keep their order; it only says that the host does not look in between.
    """

    name = "merge-launches"

    def change(self, main: FuncOp) -> None:
        follows = False
        for step in steps(main):
            if isinstance(step, LaunchOp):
                step.attributes.pop(CONTINUES, None)
                if follows:
                    step.attributes[CONTINUES] = UnitAttr()
                follows = True
            elif is_host_work(step):
                follows = False
