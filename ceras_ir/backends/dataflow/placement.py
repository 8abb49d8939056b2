"""The circuit as placement sees it: rules without times, because it works beside the CPU."""

from xdsl.ir import Operation

from ceras_ir.backends.dataflow.rules import DATAFLOW, why_not
from ceras_ir.targets.accelerator import Accelerator


class Blocks(Accelerator):
    """One block for every layer that the rules admit."""

    device = DATAFLOW

    def why_not(self, op: Operation) -> str | None:
        return why_not(op)
