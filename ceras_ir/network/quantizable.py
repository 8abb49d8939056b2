"""
Which operations of a float network become quantized ones, and how they treat scales.

Everything that computes becomes quantized where `graph` has a quantized form of it, unless
`graph.precision = "f32"` on the operation says otherwise. What only moves elements follows
its surroundings.
"""

from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.elementwise import QUANTIZED_BINARIES
from ceras_ir.network.precision import stays_float
from ceras_ir.network.ranges import network_values

SNAPPED = "graph.snapped"
"""Attribute of a function whose inside `snap-scales` made float again, to be quantized."""

MAX_TAPS, MAX_COMPUTED_TAPS = 1 << 22, 1 << 16
"""Products per accumulator that a convolution with constant or computed weights may have."""


def is_plain(value: SSAValue) -> bool:
    """Whether a value has plain integers, which have no scale."""
    return graph.is_tensor(value.type) and graph.is_integer(value.type.element_type)


def is_alias(op: Operation | Block) -> bool:
    """Whether the result has elements of the one operand, in other places, and zeros."""
    match op:
        case graph.ReshapeOp() | graph.TransposeOp() | graph.SliceOp() | graph.GatherOp():
            return not is_plain(op.input)
        case graph.PadOp():
            # A zero is stored as the zero point at any scale; other numbers may not be.
            zero = op.function is not graph.Pad.CONSTANT or op.stored_value == 0
            return zero and not is_plain(op.input)
        case graph.ResizeOp():
            return op.function is graph.Resize.NEAREST
        case _:
            return False


def keeps_scale(op: Operation | Block) -> bool:
    """Whether operands and result must have one scale, because elements are only moved."""
    match op:
        case graph.ConcatOp():
            return not is_plain(op.result)
        case graph.Pool2dOp():
            return op.function is graph.Pool.MAX
        case graph.ReduceOp():
            return op.function in (graph.Reduce.MAX, graph.Reduce.MIN) and not is_plain(op.input)
        case _:
            return is_alias(op)


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
        case graph.BinaryOp():
            return op.function in QUANTIZED_BINARIES and not is_plain(op.result)
        case graph.UnaryOp():
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
    ops = [op for op in main.body.block.ops if not stays_float(op)]
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


def observed_values(main: FuncOp) -> list[SSAValue]:
    """
    The values of the network that need a range: arguments and results of operations, but for
    constants, which are known, and for values that are another one in another order.
    """
    return [
        value
        for value in network_values(main.body.block)
        if isinstance(value.type, TensorType)
        and not is_plain(value)
        and not isinstance(value.owner, graph.ConstantOp)
        and not is_alias(value.owner)
    ]


def is_quantized(main: FuncOp) -> bool:
    """
    Whether some value of the network is quantized already, arguments and results of one whose
    scales were snapped apart.
    """
    return SNAPPED not in main.attributes and any(
        isinstance(value.type, TensorType) and graph.quantized_element(value) is not None
        for value in network_values(main.body.block)
    )
