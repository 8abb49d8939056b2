"""
Which operations of a float network become quantized ones, and how they treat scales.

Everything that computes becomes quantized where `graph` has a quantized form of it, unless
`graph.precision = "f32"` on the operation says otherwise. What only moves elements follows
its surroundings.
"""

from math import prod

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from ceras_ir.analysis.ranges import network_values
from ceras_ir.dialects import graph

PRECISION, FLOAT = "graph.precision", "f32"
"""Attribute of an operation and its value for one that stays float."""

MAX_TAPS, MAX_COMPUTED_TAPS = 1 << 22, 1 << 16
"""Products per accumulator that a convolution with constant or computed weights may have."""


def is_alias(op: Operation | Block) -> bool:
    """Whether the result is the one operand with its elements in other places."""
    return isinstance(op, graph.ReshapeOp | graph.TransposeOp) or (
        isinstance(op, graph.ResizeOp) and op.function is graph.Resize.NEAREST
    )


def keeps_scale(op: Operation | Block) -> bool:
    """Whether operands and result must have one scale, because elements are only moved."""
    return (
        is_alias(op)
        or isinstance(op, graph.ConcatOp)
        or (isinstance(op, graph.Pool2dOp) and op.function is graph.Pool.MAX)
    )


def computes(op: Operation) -> bool:
    """Whether `op` has a quantized form that rescales its result."""
    match op:
        case graph.LinearOperation() | graph.BinaryOp() if not _clips(op.activation):
            return False
        case graph.LinearOperation():
            # A computed bias would have to come at the scale of the accumulator.
            if op.bias is not None and not isinstance(op.bias.owner, graph.ConstantOp):
                return False
            # With more products no scale of the weights would keep the accumulator in 32 bits.
            constant = isinstance(op.weights.owner, graph.ConstantOp)
            taps = prod(graph.shape_of(op.weights)[1:])
            return taps < (MAX_TAPS if constant else MAX_COMPUTED_TAPS)
        case graph.Pool2dOp():
            return op.function is graph.Pool.AVERAGE
        case graph.UnaryOp() | graph.BinaryOp():
            return True
        case _:
            return False


def _clips(activation: graph.FunctionAttr | None) -> bool:
    """Whether a clamp range can stand for the activation; see `split-activation`."""
    return activation is None or activation.clip_range is not None


def data_operands(op: Operation) -> list[SSAValue]:
    """The operands that are quantized like activations: all but constant weights and biases."""
    if not isinstance(op, graph.LinearOperation):
        return list(op.operands)
    values = [op.input]
    if not isinstance(op.weights.owner, graph.ConstantOp):
        values.append(op.weights)
    if op.residual is not None:
        values.append(op.residual)
    return values


def quantized_operations(main: FuncOp) -> dict[Operation, None]:
    """
    The operations of a float network that become quantized, in order: those that compute,
    and those that move elements which come from a quantized operation or go to one.
    """
    ops = [op for op in main.body.block.ops if op.attributes.get(PRECISION) != StringAttr(FLOAT)]
    chosen = {op: None for op in ops if computes(op)}
    movers = [op for op in ops if keeps_scale(op)]
    count = -1
    while count != len(chosen):
        count = len(chosen)
        # Once with and once against the order carries the choice along a whole chain.
        for op in (*movers, *reversed(movers)):
            readers = (use.operation for use in op.results[0].uses)
            if any(v.owner in chosen for v in op.operands) or any(r in chosen for r in readers):
                chosen[op] = None
    return {op: None for op in ops if op in chosen}


def is_quantized(main: FuncOp) -> bool:
    """Whether some value of the network is quantized already."""
    return any(
        isinstance(value.type, TensorType) and graph.quantized_element(value) is not None
        for value in network_values(main.body.block)
    )
