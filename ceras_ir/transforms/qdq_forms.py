"""
The quantized operation for a float one between `graph.dequantize` and `graph.quantize`.

Sums of products are exact in 32 bits; one requantization, a multiplier and a shift, takes them
to the scale of the result. Where scales are so alike that ties are common (averages, sums, one
scale to another) they go to even, as ONNX rounds; sums of products round half up, as accelerators
do. Against the three float operations the result differs by what their float32 rounding and that
tie make: at most one unit.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, IntAttr, TensorType, i8, i32
from xdsl.ir import SSAValue

from ceras_ir.analysis.fixed_point import fixed_point, rescaling_by
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.interpreters.float_functions import apply_function
from ceras_ir.interpreters.integer import dequantize, quantize
from ceras_ir.transforms.rebuilding import rebuild_linear, with_operands

SAME_SCALE = 2.0**-20
"""Relative; a bias at the accumulator's scale but for rounding of the scale itself is kept."""
ADDEND_BITS, ADDEND_SHIFT = 29, 31
"""Addends times their multipliers stay below 2^29, and the sum is shifted by 31 at most."""


def qdq_form(op: GraphOperation, target: UniformType) -> list[GraphOperation] | None:
    """
    The operations that compute `quantize(op(dequantize(...)))`, the last one its result; None
    where there is no such form and the numbers stay float.
    """
    if target.is_per_axis:
        return None
    match op:
        case graph.DequantizeOp():
            return _rescaled(op.input, target, None)
        case graph.UnaryOp():
            return _unary(op, target)
        case graph.LinearOperation():
            return _linear(op, target)
        case graph.BinaryOp():
            return _binary(op, target)
        case graph.Pool2dOp() if op.function is graph.Pool.AVERAGE:
            return _average(op, target)
        case _:
            return None


def stored(value: SSAValue) -> SSAValue | None:
    """The integers, stored with one scale, that the float `value` is made of."""
    owner = value.owner
    if not isinstance(owner, graph.DequantizeOp):
        return None
    element = graph.quantized_element(owner.input)
    assert element is not None
    return None if element.is_per_axis else owner.input


def element_type(value: SSAValue) -> UniformType:
    element = graph.quantized_element(value)
    assert element is not None
    return element


def clamp_of(activation: graph.FunctionAttr | None, target: UniformType) -> tuple[int, int] | None:
    """What stored results an activation leaves: its bounds as `graph.quantize` stores them."""
    if activation is None:
        return target.low, target.high
    if activation.clip_range is None:
        return None
    low, high = quantize(np.array(activation.clip_range, np.float32), target)
    return int(low), int(high)


def _rescaled(
    value: SSAValue, target: UniformType, activation: graph.FunctionAttr | None
) -> list[GraphOperation] | None:
    source, clamp = element_type(value), clamp_of(activation, target)
    if clamp is None or source.is_per_axis:
        return None
    factors = [source.scale / target.scale]
    requant = rescaling_by(factors, target.zero_point, clamp, Rounding.HALF_EVEN)
    return [graph.RequantizeOp(value, target, requant)]


def _unary(op: graph.UnaryOp, target: UniformType) -> list[GraphOperation] | None:
    value = stored(op.input)
    if value is None:
        return None
    if op.function.clip_range is not None:
        return _rescaled(value, target, op.function)
    source = element_type(value)
    if any(t.storage != i8 for t in (source, target)):
        return None
    return [graph.LookupOp(value, function_table(op.function, source, target), target)]


def function_table(
    function: graph.FunctionAttr, source: UniformType, target: UniformType
) -> DenseIntOrFPElementsAttr:
    """`quantize(function(dequantize(i)))` for i from -128 to 127, bit for bit."""
    # A function may overflow far outside what the network computes; infinity saturates.
    with np.errstate(all="ignore"):
        values = apply_function(function, dequantize(np.arange(-128, 128), source))
    table = quantize(values.astype(np.float32), target).astype(np.int8)
    return DenseIntOrFPElementsAttr(TensorType(i8, [256]), BytesAttr(table.tobytes()))


def _linear(op: graph.LinearOperation, target: UniformType) -> list[GraphOperation] | None:
    input, clamp = stored(op.input), clamp_of(op.activation, target)
    weights = op.weights.owner
    if input is None or clamp is None or op.residual is not None:
        return None
    if not isinstance(weights, graph.DequantizeOp):
        return None
    kind = element_type(weights.input)
    # Scales of another dimension than the outputs' cannot be taken out of the sum.
    if (isinstance(kind.axis, IntAttr) and kind.axis.data != 0) or kind.storage.width.data != 8:
        return None
    source = element_type(input)
    if source.storage.width.data > 16:
        return None
    scales = np.array([source.scale * s.data for s in kind.scales])
    new: list[GraphOperation] = []
    bias = None
    if op.bias is not None:
        constant = _bias(op.bias, scales, kind.is_per_axis)
        if constant is None:
            return None
        new.append(constant)
        bias = constant.result
    factors: list[float] = (scales / target.scale).tolist()
    quantized = rebuild_linear(
        op,
        input,
        weights.input,
        bias,
        None,
        graph.type_with_element(op.result, target),
        {"activation": None, "requant": rescaling_by(factors, target.zero_point, clamp)},
    )
    return [*new, quantized]


def _bias(
    bias: SSAValue, scales: NDArray[np.float64], is_per_axis: bool
) -> graph.ConstantOp | None:
    """A constant bias in 32 bits at the accumulator's scales; None where it does not fit."""
    owner = bias.owner
    integers: NDArray[np.float64] | None = None
    constant = owner
    if isinstance(owner, graph.DequantizeOp):
        constant = owner.input.owner
    if not isinstance(constant, graph.ConstantOp):
        return None
    array = constant.array()
    kind = graph.quantized_element(constant.result)
    if kind is None:
        integers = np.rint(array.astype(np.float64) / scales)
    else:
        own = np.array([s.data for s in kind.scales])
        points = np.array([z.data for z in kind.zero_points])
        integers = array.astype(np.float64) - points
        if (np.abs(own - scales) > SAME_SCALE * scales).any():
            integers = np.rint(integers * own / scales)
    if np.abs(integers).max(initial=0) >= 2.0**31:
        return None
    axis = 0 if is_per_axis else None
    element = UniformType(scales.tolist(), storage=i32, axis=axis)
    return graph.ConstantOp.from_array(
        np.broadcast_to(integers, graph.shape_of(bias)).astype(np.int32),
        element,
        location=constant.location,
    )


def _binary(op: graph.BinaryOp, target: UniformType) -> list[GraphOperation] | None:
    lhs, rhs, clamp = stored(op.lhs), stored(op.rhs), clamp_of(op.activation, target)
    if lhs is None or rhs is None or clamp is None:
        return None
    sides = element_type(lhs), element_type(rhs)
    if any(side.storage.width.data > 16 for side in sides):
        return None
    point, multipliers, shifts = target.zero_point, (1, 1), (0, 0)
    match op.function:
        case graph.Binary.MUL:
            factor = sides[0].scale * sides[1].scale / target.scale
            requant = rescaling_by([factor], point, clamp, Rounding.HALF_EVEN)
        case graph.Binary.ADD | graph.Binary.SUB:
            largest = max(max(s.high - s.zero_point, s.zero_point - s.low) for s in sides)
            bits = min(ADDEND_BITS - largest.bit_length(), graph.BinaryOp.MAX_SHIFT)
            factors = [side.scale / target.scale for side in sides]
            found, shift = fixed_point(factors, bits, ADDEND_SHIFT)
            multipliers, rounding = (found[0], found[1]), Rounding.HALF_EVEN
            if all(m & (m - 1) == 0 for m in found):
                # Shifts, which accelerators have where there is no zero point either.
                shifts = found[0].bit_length() - 1, found[1].bit_length() - 1
                multipliers = (1, 1)
                if not any((point, *(side.zero_point for side in sides))):
                    rounding = Rounding.HALF_UP
            requant = RequantAttr(
                shift, rounding=rounding, zero_point=point, low=clamp[0], high=clamp[1]
            )
        case _:
            return None
    return [
        graph.BinaryOp(
            op.function,
            lhs,
            rhs,
            result_element=target,
            shifts=shifts,
            multipliers=multipliers,
            requant=requant,
        )
    ]


def _has_lost_ties(op: graph.Pool2dOp, ratio: float) -> bool:
    """
    Whether sums half way between two results are common but reciprocals would miss them: the
    result has the scale of the input, and some window an even number of elements. Only powers of
    two have a reciprocal in binary; and those of partial windows come from that of a full one.
    """
    size = prod(op.kernel.get_values())
    if size & (size - 1) == 0 or abs(ratio - 1.0) > SAME_SCALE:
        return False
    return size % 2 == 0 or (any(op.padding.get_values()) and not op.includes_padding)


def _average(op: graph.Pool2dOp, target: UniformType) -> list[GraphOperation] | None:
    input = stored(op.input)
    if input is None or element_type(input).storage.width.data > 16:
        return None
    if _has_lost_ties(op, element_type(input).scale / target.scale):
        return None
    plain = graph.reciprocal_requant(prod(op.kernel.get_values()), input, target.scale)
    new = with_operands(op, [input], target)
    new.properties["requant"] = RequantAttr(
        plain.shift.data,
        multiplier=plain.multiplier.data,
        rounding=Rounding.HALF_EVEN,
        zero_point=target.zero_point,
        low=target.low,
        high=target.high,
    )
    return [new]
