"""Keep what a detector puts side by side at the end on scales of its own."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ceras_ir.dialects import graph
from ceras_ir.network.function import main_function
from ceras_ir.network.precision import FLOAT, PRECISION, stays_float
from ceras_ir.network.quantizable import is_quantized

SUMS = (graph.LinearOperation, graph.Pool2dOp, graph.ResizeOp)
"""What does the work of a network; what comes after the last of them is its head."""


@dataclass(frozen=True)
class KeepHeadsApartPass(ModulePass):
    """
    A concatenation stores all its operands at one scale, which ruins scores in [0, 1] beside boxes
    in [0, 416]. Where exponents differ, and from there to the network's results nothing is summed
    any more, write `graph.precision = "f32"` on the concatenation and all that follows:
    its operands are made real numbers first, each from its own scale.

    Runs on `graph.exponent`. Changes no value.
    """

    name = "keep-heads-apart"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if is_quantized(main):
            return
        for concat in main.body.block.ops:
            if not isinstance(concat, graph.ConcatOp) or stays_float(concat):
                continue
            if not graph.is_plain(concat.result) and _differ(concat):
                tail = _tail(concat)
                for follower in tail or ():
                    follower.attributes[PRECISION] = StringAttr(FLOAT)


def _differ(concat: graph.ConcatOp) -> bool:
    from ceras_ir.network.ranges import exponent
    from ceras_ir.transforms.quantization.analysis.scale_classes import is_constant, source_of

    sources = (source_of(value) for value in concat.inputs if not is_constant(value))
    return len({exponent(source) for source in sources}) > 1


def _tail(op: Operation) -> dict[Operation, None] | None:
    """`op` and all that depends on it; None if something of that is summed."""
    found: dict[Operation, None] = {op: None}
    waiting = [op]
    while waiting:
        for use in waiting.pop().results[0].uses:
            reader = use.operation
            if isinstance(reader, SUMS):
                return None
            if reader not in found and not isinstance(reader, ReturnOp):
                found[reader] = None
                waiting.append(reader)
    return found
