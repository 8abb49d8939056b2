"""
Which operations of a float network become quantized ones, and how they treat scales.

Everything that computes becomes quantized where its operation has a quantized form, unless
`graph.precision = "f32"` on the operation says otherwise. What only moves elements follows
its surroundings.
"""

from collections.abc import Callable, Iterator, Sequence
from math import inf

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue, Use

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import GraphOperation, is_plain
from ceras_ir.network.storage import network_values, stays_float

SNAPPED = "graph.snapped"
"""Attribute of a function whose inside `snap-scales` made float again, to be quantized."""


def is_alias(op: Operation | Block) -> bool:
    """Whether the result has elements of the one operand, in other places, and zeros."""
    return isinstance(op, GraphOperation) and op.is_alias


def keeps_scale(op: Operation | Block) -> bool:
    """Whether operands and result must have one scale, because elements are only moved."""
    return isinstance(op, GraphOperation) and op.keeps_scale


def joins(op: Operation) -> bool:
    """Whether elements of several operands are moved, each of which can be rescaled before."""
    return keeps_scale(op) and len(data_operands(op)) > 1


def computes(op: Operation) -> bool:
    """Whether `op` has a quantized form that rescales its result."""
    return isinstance(op, GraphOperation) and op.rescales


def uses_behind_moves(value: SSAValue, *, joined: bool) -> Iterator[Use]:
    """
    The uses of a value, and of what only moves it instead of its own: of what joins it with others
    too, if `joined`.
    """
    left, seen = [value], {value}
    while left:
        for use in left.pop().uses:
            op = use.operation
            if not keeps_scale(op) or (joins(op) and not joined):
                yield use
            elif op.results[0] not in seen:
                seen.add(op.results[0])
                left.append(op.results[0])


def is_copy(op: Operation) -> bool:
    """Whether an operation is there to store its operand in another way, a clip without bounds."""
    return isinstance(op, graph.UnaryOp) and op.function.clip_range == (-inf, inf)


def data_operands(op: Operation) -> Sequence[SSAValue]:
    """The operands that are quantized like activations: all but constant weights and biases."""
    return op.data_operands if isinstance(op, GraphOperation) else op.operands


def quantized_operations(main: FuncOp) -> dict[Operation, None]:
    """
    The operations of a float network that become quantized, in order: those that compute,
    and those that move elements which come from a quantized operation or go to one.
    """
    ops = [op for op in main.body.block.ops if not stays_float(op)]
    chosen = {op: None for op in ops if computes(op)}
    movers = [op for op in ops if keeps_scale(op)]
    count = -1
    while count != len(chosen):
        count = len(chosen)
        # Once with and once against the order carries the choice along a whole chain.
        for op in (*movers, *reversed(movers)):
            readers = (use.operation for use in op.results[0].uses)
            moved = data_operands(op)
            if any(v.owner in chosen for v in moved) or any(r in chosen for r in readers):
                chosen[op] = None
    return {op: None for op in ops if op in chosen}


def stored_in_integers(main: FuncOp) -> Callable[[SSAValue], bool]:
    """Whether a value of a float network becomes integers: some operation makes or reads it so."""
    chosen = quantized_operations(main)
    return lambda v: v.owner in chosen or any(use.operation in chosen for use in v.uses)


def quantized_layers(main: FuncOp) -> list[graph.LinearOperation]:
    """Those of them that are convolutions and matrix products."""
    return [op for op in quantized_operations(main) if isinstance(op, graph.LinearOperation)]


def observed_values(main: FuncOp) -> list[SSAValue]:
    """
    The values of the network that need a range: arguments and results of operations, but for
    constants, which are known, and for values that are another one in another order, as that one
    is stored.
    """
    return [
        value
        for value in network_values(main.body.block)
        if isinstance(value.type, TensorType)
        and not is_plain(value)
        and not isinstance(value.owner, graph.ConstantOp)
        and not _is_stored_as_operand(value.owner)
    ]


def _is_stored_as_operand(op: Operation | Block) -> bool:
    return isinstance(op, GraphOperation) and op.is_alias and not stays_float(op)


def behind_layers(main: FuncOp) -> set[SSAValue]:
    """What layers make, and what is made of that."""
    found: set[SSAValue] = set()
    for op in main.body.block.ops:
        if isinstance(op, graph.LinearOperation) or not found.isdisjoint(op.operands):
            found.update(op.results)
    return found


def is_quantized(main: FuncOp) -> bool:
    """
    Whether some value of the network is quantized already, arguments and results of one whose
    scales were snapped apart.
    """
    return SNAPPED not in main.attributes and any(
        isinstance(value.type, TensorType) and graph.quantized_element(value) is not None
        for value in network_values(main.body.block)
    )
