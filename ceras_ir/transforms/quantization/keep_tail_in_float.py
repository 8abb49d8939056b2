"""Keep what follows the last sum of products in float."""

from dataclasses import dataclass

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation

from ceras_ir.dialects import graph
from ceras_ir.network.precision import keep_in_float
from ceras_ir.network.quantizable import is_alias
from ceras_ir.network.states import states_of
from ceras_ir.support.diagnostics import node_names
from ceras_ir.transforms.float_network_pass import FloatNetworkPass
from ceras_ir.transforms.quantization.set_precision import is_named

SUMS = (graph.LinearOperation, graph.RecurrenceOp, graph.Pool2dOp, graph.ResizeOp)
"""What does the work of a network; what follows the last of them is its tail."""

REASON = "follows the last sum of products"


@dataclass(frozen=True)
class KeepTailInFloatPass(FloatNetworkPass):
    """
    Keep in float the operations behind the last convolution, product, pooling or resize on every
    way to a result. They get `graph.precision = "f32"`: sigmoids of scores, decoding of boxes,
    concatenations of heads.

    These values are for the user, their ranges differ by orders of magnitude, and they are less
    than a thousandth of the work. Operations that only move elements follow their surroundings.
    Networks without such sums stay as they are. Changes no value.
    """

    name = "keep-tail-in-float"

    besides: tuple[str, ...] = ()
    """Layers to leave out, by the names and patterns of `set-precision`."""

    def change(self, main: FuncOp) -> None:
        # What the next call reads has sums of products behind it.
        kept = {state.result for state in states_of(main)}
        after: set[Operation] = set()
        for inner in main.body.block.ops:
            if any(v.owner in after or isinstance(v.owner, SUMS) for v in inner.operands):
                after.add(inner)
        tail: set[Operation] = set()
        for inner in reversed(list(main.body.block.ops)):
            readers = {use.operation for result in inner.results for use in result.uses}
            ends = all(isinstance(reader, ReturnOp) or reader in tail for reader in readers)
            ends = ends and kept.isdisjoint(inner.results)
            if inner not in after or isinstance(inner, (*SUMS, ReturnOp)) or not ends:
                continue
            tail.add(inner)
            moves = is_alias(inner) or _joins_phases(inner)
            if not moves and not is_named(node_names(inner), self.besides):
                keep_in_float(inner, REASON)


def _joins_phases(op: Operation) -> bool:
    """Whether an operation only joins what `split-phases` made of one layer: moving bytes."""
    return isinstance(op, graph.ConcatOp) and all(
        isinstance(value.owner, graph.Conv2dOp) and value.owner.location == op.location
        for value in op.inputs
    )
