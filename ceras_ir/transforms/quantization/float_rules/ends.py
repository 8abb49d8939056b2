"""Rules of `keep-in-float`: operations before the first and after the last sum of products."""

from dataclasses import dataclass

from xdsl.dialects.builtin import f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.network.function import states_of
from ceras_ir.network.quantizable import is_alias, keeps_scale
from ceras_ir.network.storage import keep_in_float
from ceras_ir.support.diagnostics import node_names
from ceras_ir.transforms.float_network_pass import FloatNetworkPass
from ceras_ir.transforms.quantization.options import ExceptionOptions
from ceras_ir.transforms.quantization.set_precision import is_named

SUMS = (graph.LinearOperation, graph.RecurrenceOp, graph.Pool2dOp, graph.ResizeOp)
"""What does the work of a network; what follows the last of them is its tail."""

FOLLOWS = "follows the last sum of products"


@dataclass(frozen=True)
class TailRule(ExceptionOptions, FloatNetworkPass):
    """
    Keep in float the operations after the last convolution, product, pooling or resize on each path
    to a result: sigmoids of scores, decoding of boxes, concatenations of outputs.

    Users read these values. Their ranges differ by orders of magnitude, and they are less than a
    thousandth of the work. Operations that only move elements follow their surroundings. Networks
    without such sums are unchanged. Changes no value.
    """

    name = "tail"

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
                keep_in_float(inner, FOLLOWS)


def _joins_phases(op: Operation) -> bool:
    """Whether an operation only joins what `split-phases` made of one layer: moving bytes."""
    return isinstance(op, graph.ConcatOp) and all(
        isinstance(value.owner, graph.Conv2dOp) and value.owner.location == op.location
        for value in op.inputs
    )


PREPARES = "prepares inputs for the first sum of products"


@dataclass(frozen=True)
class HeadRule(ExceptionOptions, FloatNetworkPass):
    """
    Keep in float the operations on inputs before the first convolution, product, pooling or resize:
    normalization by constants or by statistics of the input, features, angles of positions, and
    operations that join several of them.

    Callers pass floats with ranges that differ by orders of magnitude between features and samples.
    A single scale of int8 would lose the small values before the network normalizes them.
    Operations that only move elements of a single value follow their surroundings. The rule does
    not include reads of constants by computed indices, such as embeddings, operations that no sum
    uses, and operations that depend on states. Changes no value.
    """

    name = "head"

    def change(self, main: FuncOp) -> None:
        head = _head(main)
        read = set[Operation]()
        for inner in reversed(list(main.body.block.ops)):
            readers = {use.operation for result in inner.results for use in result.uses}
            if not any(isinstance(reader, SUMS) or reader in read for reader in readers):
                continue
            read.add(inner)
            named = is_named(node_names(inner), self.besides)
            if inner in head and graph.element_of(inner.results[0]) == f32 and not named:
                keep_in_float(inner, PREPARES)


def _head(main: FuncOp) -> set[Operation]:
    """
    The operations that compute from inputs, constants, and what such operations made, and those
    that join several of these.
    """
    kept = {state.argument for state in states_of(main)}
    sources: dict[SSAValue, set[SSAValue]] = {}
    sources.update({value: {value} for value in main.body.block.args if value not in kept})
    head: set[Operation] = set()
    for op in main.body.block.ops:
        if isinstance(op, (*SUMS, graph.ConstantOp)) or not isinstance(op, graph.GraphOperation):
            continue
        computed = [v for v in op.operands if not isinstance(v.owner, graph.ConstantOp)]
        if not computed or not all(value in sources for value in computed):
            continue
        if isinstance(op, graph.TakeOp) and isinstance(op.input.owner, graph.ConstantOp):
            continue
        moved = set[SSAValue]().union(*(sources[value] for value in computed))
        if keeps_scale(op) and len(moved) == 1:
            sources[op.results[0]] = moved
            continue
        head.add(op)
        sources.update({result: {result} for result in op.results})
    return head
