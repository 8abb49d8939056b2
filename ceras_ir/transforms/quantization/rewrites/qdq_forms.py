"""
The quantized operation for a float one between `graph.dequantize` and `graph.quantize`.

Sums of products are exact in 32 bits; one requantization, a multiplier and a shift, takes them
to the scale of the result. Where scales are so alike that ties are common (averages, sums, one
scale to another) they go to even, as ONNX rounds; sums of products round half up, as accelerators
do. Where all scales are powers of two and nothing has a zero point, everything is a shift that
rounds half up: so are the networks of `quantize`, and what `-t onnx` made of one comes back as it
was. Against the three float operations the result differs by what their float32 rounding and that
tie make: at most one unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    IntAttr,
    IntegerAttr,
    i32,
    i64,
)
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.elementwise import QUANTIZED_BINARIES
from ceras_ir.dialects.graph.linear import MAX_RESIDUAL_SHIFT
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.network.integer import quantize
from ceras_ir.transforms.quantization.analysis.fixed_point import fixed_point, rescaling_by
from ceras_ir.transforms.quantization.analysis.qdq import exponent_of, only_shifts
from ceras_ir.transforms.quantization.analysis.rescaling import rescaling
from ceras_ir.transforms.quantization.rewrites.qdq_functions import function_form
from ceras_ir.transforms.quantization.rewrites.quantized_forms import average_rescaling
from ceras_ir.transforms.rebuilding import rebuild_linear, with_operands

SAME_SCALE = 2.0**-20
"""Relative; a bias at the accumulator's scale but for rounding of the scale itself is kept."""
SAME_ADDENDS = 2.0**-22
"""Relative; addends whose scales differ by less are at one scale, for `check-scales` too."""
ADDEND_BITS, ADDEND_SHIFT = 29, 31
"""Addends times their multipliers stay below 2^29, and the sum is shifted by 31 at most."""
ADDEND_ERROR = 0.5
"""How far multipliers may move a sum, in units of the result; rounding it moves it as far."""


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
        case graph.UnaryOp() if op.channel_exponents is None:
            return _unary(op, target)
        case graph.LinearOperation():
            return _linear(op, target)
        case graph.BinaryOp():
            made = function_form(op, target)
            return _binary(op, target) if made is None else [made]
        case graph.Pool2dOp() if op.function is graph.Pool.AVERAGE:
            return _average(op, target)
        case _:
            return None


def stored(value: SSAValue) -> SSAValue | None:
    """The integers, stored with one scale, that the float `value` is made of."""
    owner = value.owner
    if not isinstance(owner, graph.DequantizeOp):
        return None
    element = graph.stored_element(owner.input)
    return None if element.is_per_axis else owner.input


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
    source, clamp = graph.stored_element(value), clamp_of(activation, target)
    if clamp is None or source.is_per_axis:
        return None
    if only_shifts((source, target)):
        requant = rescaling(exponent_of(source), exponent_of(target), clamp)
    else:
        factors = [source.scale / target.scale]
        requant = rescaling_by(factors, target.zero_point, clamp, Rounding.HALF_EVEN)
    return [graph.RequantizeOp(value, target, requant)]


def _unary(op: graph.UnaryOp, target: UniformType) -> list[GraphOperation] | None:
    if op.function.clip_range is not None:
        value = stored(op.input)
        return None if value is None else _rescaled(value, target, op.function)
    made = function_form(op, target)
    return None if made is None else [made]


def _linear(op: graph.LinearOperation, target: UniformType) -> list[GraphOperation] | None:
    input, clamp = stored(op.input), clamp_of(op.activation, target)
    weights = op.weights.owner
    if input is None or clamp is None or not isinstance(weights, graph.DequantizeOp):
        return None
    if not isinstance(weights.input.owner, graph.ConstantOp):
        return None  # Kernels unpack integer weights at compile time; computed ones stay float.
    kind = graph.stored_element(weights.input)
    # Scales of another dimension than the outputs' cannot be taken out of the sum.
    if (isinstance(kind.axis, IntAttr) and kind.axis.data != 0) or kind.storage.width.data != 8:
        return None
    source = graph.stored_element(input)
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
    shift = 0
    if op.residual is not None:
        found = _residual_shift(op.residual, scales)
        if found is None:
            return None
        shift = found
    factors: list[float] = (scales / target.scale).tolist()
    quantized = rebuild_linear(
        op,
        {
            "activation": None,
            "requant": rescaling_by(factors, target.zero_point, clamp),
            "residual_shift": None if op.residual is None else IntegerAttr(shift, i64),
        },
        input=input,
        weights=weights.input,
        bias=bias,
        residual=None if op.residual is None else stored(op.residual),
        element=target,
    )
    return [*new, quantized]


def _residual_shift(residual: SSAValue, scales: NDArray[np.float64]) -> int | None:
    """The left shift that brings a residual to the accumulator's scales; None if there is none."""
    value = stored(residual)
    if value is None or graph.stored_element(value).storage.width.data > 16:
        return None
    mantissas, exponents = np.frexp(graph.stored_element(value).scale / scales)
    shift = int(exponents[0]) - 1
    aligned = bool((mantissas == 0.5).all() and (exponents == exponents[0]).all())
    return shift if aligned and 0 <= shift <= MAX_RESIDUAL_SHIFT else None


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
    sides = graph.stored_element(lhs), graph.stored_element(rhs)
    if any(side.storage.width.data > 16 for side in sides):
        return None
    point, multipliers, shifts = target.zero_point, (1, 1), (0, 0)
    if op.function not in QUANTIZED_BINARIES:
        return None
    if only_shifts((*sides, target)):
        shifted = _shifted_binary(op, lhs, rhs, target, clamp)
        if shifted is not None:
            return [shifted]
    match op.function:
        case graph.Binary.MUL:
            factor = sides[0].scale * sides[1].scale / target.scale
            requant = rescaling_by([factor], point, clamp, Rounding.HALF_EVEN)
        case graph.Binary.ADD | graph.Binary.SUB:
            factors = [side.scale / target.scale for side in sides]
            found, shift = addend_multipliers(sides, target)
            multipliers, rounding = (found[0], found[1]), Rounding.HALF_EVEN
            apart = abs(factors[0] * found[1] / (factors[1] * found[0]) - 1.0)
            if apart > SAME_ADDENDS and found == (1, 1):
                return None  # So small that the multipliers do not tell them apart.
            off = [abs(m / 2**shift - f) for m, f in zip(found, factors, strict=True)]
            if sum(d * side.reach for d, side in zip(off, sides, strict=True)) > ADDEND_ERROR:
                return None  # Too far from the factors, the lesser one or one beyond all bits.
            if apart <= SAME_ADDENDS and all(m & (m - 1) == 0 for m in found):
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


def addend_multipliers(
    sides: Sequence[UniformType], target: UniformType
) -> tuple[tuple[int, ...], int]:
    """What two addends are multiplied by, and the shift of their sum."""
    largest = max(side.reach for side in sides)
    bits = min(ADDEND_BITS - largest.bit_length(), graph.BinaryOp.MAX_SHIFT)
    return fixed_point([side.scale / target.scale for side in sides], bits, ADDEND_SHIFT)


def _shifted_binary(
    op: graph.BinaryOp, lhs: SSAValue, rhs: SSAValue, target: UniformType, clamp: tuple[int, int]
) -> graph.BinaryOp | None:
    """With shifts alone, half up; None where the operands are too far apart for them."""
    left, right = exponent_of(graph.stored_element(lhs)), exponent_of(graph.stored_element(rhs))
    shifts, source = (0, 0), left + right
    if op.function is not graph.Binary.MUL:
        source = min(left, right)
        shifts = left - source, right - source
    if max(shifts) > graph.BinaryOp.MAX_SHIFT:
        return None
    requant = rescaling(source, exponent_of(target), clamp)
    return graph.BinaryOp(
        op.function, lhs, rhs, result_element=target, shifts=shifts, requant=requant
    )


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
    if input is None or graph.stored_element(input).storage.width.data > 16:
        return None
    source, shifts = graph.stored_element(input), only_shifts((graph.stored_element(input), target))
    if not shifts and _has_lost_ties(op, source.scale / target.scale):
        return None
    new = with_operands(op, [input], target)
    rounding = Rounding.HALF_UP if shifts else Rounding.HALF_EVEN
    new.properties["requant"] = average_rescaling(op, input, target, rounding)
    return [new]
