"""
Derive the integer operation of a float operation from the storage of operands and result.

`quantize-graph` chooses these types; `fold-qdq` finds them around the operation. Sums of products
are exact in 32 bits and rounded half up, as in accelerators. Other operations are rounded as
specified by `rescaling`. On the same stored operands, the result differs from the float operation
by this rounding, and by the fixed-point error of factors that are not powers of two.
"""

from collections.abc import Sequence
from math import ceil, frexp, ldexp, log2, prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import i16, i32
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.elementwise import QUANTIZED_BINARIES
from ceras_ir.dialects.graph.linear import MAX_RESIDUAL_SHIFT
from ceras_ir.dialects.graph.normalization import (
    EXP_TABLE_BITS,
    FRACTION_BITS,
    MIN_EPSILON,
    RECIPROCAL_BITS,
    deviation_shift,
)
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.network.storage import NARROW, drop_statistics
from ceras_ir.transforms.quantization.analysis.function_forms import (
    ENTRIES,
    Form,
    form_of,
    shift_bends,
)
from ceras_ir.transforms.quantization.analysis.rescaling import (
    MAX_RIGHT,
    MAX_SHIFT,
    clamp_of,
    fixed_point,
    has_powers,
    rescaling,
    rescaling_by,
    rounding_of,
    table,
)
from ceras_ir.transforms.rebuilding import rebuild_linear, with_operands

MIN_VANISHING = (EXP_TABLE_BITS + 1) * 0.6931472
"""The distance from the maximum at which an exponential is below half a unit of the table."""


def reduction_form(
    op: graph.SoftmaxOp | graph.NormalizeOp, input: SSAValue, target: UniformType
) -> list[graph.GraphOperation] | None:
    """
    Return the constants and the integer operation that compute softmax or a normalization of the
    stored `input`, with the result of type `target` last. Return `None` if scales are not powers of
    two, or are so small that a table would be too long.
    """
    if isinstance(op, graph.SoftmaxOp):
        return _softmax(op, input, target)
    return _normalized(op, input, target)


def _exponent(scale: float) -> int | None:
    mantissa, exponent = frexp(scale)
    return exponent - 1 if mantissa == 0.5 else None


def _row_requant(shift: int, target: UniformType) -> RequantAttr:
    return RequantAttr(shift, zero_point=target.zero_point, low=target.low, high=target.high)


def _softmax(
    op: graph.SoftmaxOp, input: SSAValue, target: UniformType
) -> list[graph.GraphOperation] | None:
    source, exponent = graph.stored_element(input), _exponent(target.scale)
    entries = max(ceil(MIN_VANISHING / source.scale) + 1, 2)
    entries = min(entries, 1 << source.storage.width.data)
    if exponent is None or not 1 <= RECIPROCAL_BITS + exponent <= RECIPROCAL_BITS:
        return None
    if entries > graph.IntegerSoftmaxOp.MAX_TABLE:
        return None
    real = np.exp(-np.arange(entries) * source.scale)
    table = graph.ConstantOp.from_array(
        np.rint(real * 2.0**EXP_TABLE_BITS).astype(np.int32),
        UniformType(2.0**-EXP_TABLE_BITS, storage=i32),
        location=op.location,
    )
    requant = _row_requant(RECIPROCAL_BITS + exponent, target)
    axis = op.axis.value.data
    return [table, graph.IntegerSoftmaxOp(input, table.result, axis, target, requant)]


def _normalized(
    op: graph.NormalizeOp, input: SSAValue, target: UniformType
) -> list[graph.GraphOperation] | None:
    source, exponent = graph.stored_element(input), _exponent(target.scale)
    scale = graph.constant_array(op.scale)
    bias = np.zeros(1) if op.bias is None else graph.constant_array(op.bias)
    if exponent is None or scale is None or bias is None:
        return None
    n = graph.shape_of(input)[-1]
    scale = scale.astype(np.float64)
    bias = np.broadcast_to(bias.astype(np.float64), scale.shape)
    # Choose the finest step for 16 and 32 bits that the shift of the result allows.
    limits = [(float(np.abs(scale).max()), 15), (float(np.abs(bias).max()), 31 + FRACTION_BITS)]
    step = max(ceil(log2(max(peak, 2.0**-60) * (1 + 2.0**-14))) - bits for peak, bits in limits)
    step = min(
        max(step, exponent + FRACTION_BITS - RequantAttr.MAX_SHIFT), exponent + FRACTION_BITS
    )
    stored = np.rint(np.ldexp(scale, -step)), np.rint(np.ldexp(bias, FRACTION_BITS - step))
    if np.abs(stored[0]).max() > 32767 or np.abs(stored[1]).max() >= 2.0**31:
        return None
    up = deviation_shift(input, centred=op.is_centred)
    unit = (n if op.is_centred else 1) * 2.0**up / source.scale
    epsilon = op.epsilon.value.data * n * unit * unit
    constants = [
        graph.ConstantOp.from_array(array.astype(kind), element, location=op.location)
        for array, kind, element in (
            (stored[0], np.int16, UniformType(2.0**step, storage=i16)),
            (stored[1], np.int32, UniformType(2.0 ** (step - FRACTION_BITS), storage=i32)),
        )
    ]
    new = graph.IntegerNormalizeOp(
        input,
        constants[0].result,
        constants[1].result,
        epsilon=round(min(max(epsilon, MIN_EPSILON), 2.0**62)),
        centred=op.is_centred,
        element=target,
        requant=_row_requant(exponent + FRACTION_BITS - step, target),
    )
    return [*constants, new]


SAME_SCALE = 2.0**-20
"""The relative tolerance within which a bias has the scale of the accumulator and is kept."""
SAME_ADDENDS = 2.0**-22
"""The relative tolerance within which addends have the same scale, as in `check-scales`."""
ADDEND_BITS, ADDEND_SHIFT = 29, 31
"""Products of addends and multipliers are below 2^29, and the sum is shifted by at most 31."""
MAX_ADDEND_ERROR = 0.5
"""The maximum error of a sum by multipliers, in units of the result, as by rounding."""
MAX_POOL_OCTAVES = 30
"""
The maximum octaves between operand and result of an average. With more, averages of up to 2^12
elements are all zero or all saturated, also in 16 bits.
"""


def integer_form(
    op: GraphOperation, operands: Sequence[SSAValue], target: UniformType
) -> list[GraphOperation] | None:
    """
    Return the operations that compute `op` in integers on the stored `operands`; the last operation
    computes the result of type `target`. Return `None` if there is no integer form. A constant bias
    among the operands may still be float.
    """
    operations = _form(op, operands, target)
    for new in operations or ():
        if not isinstance(new, graph.ConstantOp):
            new.location = op.location
            drop_statistics(new)
    return operations


def _form(
    op: GraphOperation, operands: Sequence[SSAValue], target: UniformType
) -> list[GraphOperation] | None:
    new: GraphOperation | None
    match op:
        case graph.DequantizeOp():
            new = _rescaled(operands[0], target, None)
        case graph.UnaryOp():
            new = _function(op, operands[0], target)
        case graph.LinearOperation():
            return _linear(op, operands, target)
        case graph.SoftmaxOp() | graph.NormalizeOp():
            return reduction_form(op, operands[0], target)
        case graph.BinaryOp():
            new = _binary(op, operands[0], operands[1], target)
        case graph.Pool2dOp() if op.function is graph.Pool.AVERAGE:
            new = with_operands(op, [operands[0]], target)
            new.properties["requant"] = average_requant(op, operands[0], target)
        case _:
            new = op.quantized(operands, target)
    return None if new is None else [new]


def _rescaled(
    value: SSAValue, target: UniformType, activation: graph.FunctionAttr | None
) -> GraphOperation | None:
    source, clamp = graph.stored_element(value), clamp_of(activation, target)
    if clamp is None:
        return None
    requant = rescaling(source.scale / target.scale, (source,), target, clamp)
    return graph.RequantizeOp(value, target, requant)


def _function(op: graph.UnaryOp, input: SSAValue, target: UniformType) -> GraphOperation | None:
    if op.function.clip_range is not None:
        return _rescaled(input, target, op.function)
    source, form = graph.stored_element(input), form_of(op)
    if source.storage.width.data == NARROW:
        return table(op.function, input, target, 256, op.channel_exponents)
    if form is Form.TABLE16:
        return table(op.function, input, target, ENTRIES, op.channel_exponents)
    if form is not Form.SHIFTS:
        return None
    requant = rescaling(source.scale / target.scale, (source,), target, (target.low, target.high))
    return graph.ShiftSwishOp(input, shift_bends(op, source.scale), target, requant)


def _linear(
    op: graph.LinearOperation, operands: Sequence[SSAValue], target: UniformType
) -> list[GraphOperation] | None:
    input, weights, *rest = operands
    source, kind = graph.stored_element(input), graph.stored_element(weights)
    if (clamp := clamp_of(op.activation, target)) is None:
        return None
    scales = np.array([source.scale * s.data for s in kind.scales])
    bias = None
    if op.bias is not None and (bias := stored_bias(rest.pop(0), input, weights)) is None:
        return None
    residual, shifts = (rest[0], residual_shifts(rest[0], scales)) if rest else (None, (0,))
    if shifts is None:
        return None
    factors: list[float] = (scales / target.scale).tolist()
    if max(factors) < 2.0**-MAX_SHIFT:
        return None  # All results would be zero, and no shift is long enough.
    quantized = rebuild_linear(
        op,
        {
            "activation": None,
            "requant": rescaling_by(factors, target.zero_point, clamp),
            "residual_shift": None if residual is None else graph.shifts_of_channels(shifts),
        },
        input=input,
        weights=weights,
        bias=None if bias is None else bias.result,
        residual=residual,
        element=target,
    )
    return [quantized] if bias is None else [bias, quantized]


def residual_shifts(residual: SSAValue, scales: NDArray[np.float64]) -> tuple[int, ...] | None:
    """
    Return the left shifts that convert the stored residual to the scales of the accumulator
    `scales`, a shift for each. Return `None` if a factor is not a power of two, would shift right,
    or is too large.
    """
    mantissas, exponents = np.frexp(graph.stored_element(residual).scale / scales)
    shifts = (exponents - 1).tolist()
    aligned = bool((mantissas == 0.5).all()) and 0 <= min(shifts) <= max(shifts)
    return tuple(shifts) if aligned and max(shifts) <= MAX_RESIDUAL_SHIFT else None


def accumulator_element(input: SSAValue, weights: SSAValue) -> UniformType:
    """
    Return the type of the accumulator of a layer in 32 bits: the scale is the product of the scales
    of input and weights, for each output channel if the weights have a scale per channel.
    """
    factors = graph.stored_element(weights)
    scales = [graph.scale_of(input) * s.data for s in factors.scales]
    return UniformType(scales, storage=i32, axis=0 if factors.is_per_axis else None)


def bias_in_accumulators(bias: SSAValue, accumulator: UniformType) -> NDArray[np.float64]:
    """
    Return a constant bias, which may be float or stored in integers, in units of the accumulator,
    without rounding.
    """
    scales = np.array([s.data for s in accumulator.scales])
    array, kind = graph.known_array(bias).astype(np.float64), graph.quantized_element(bias)
    if kind is None:
        return array / scales
    own = np.array([s.data for s in kind.scales])
    array -= np.array([z.data for z in kind.zero_points])
    is_same = (np.abs(own - scales) <= SAME_SCALE * scales).all()
    return array if is_same else array * own / scales


def stored_bias(bias: SSAValue, input: SSAValue, weights: SSAValue) -> graph.ConstantOp | None:
    """
    Return a constant bias as 32-bit integers at the scale of the accumulator, rounded half to even.
    Return `None` if it does not fit, because a bias is never clipped.
    """
    accumulator = accumulator_element(input, weights)
    integers = np.rint(bias_in_accumulators(bias, accumulator))
    if np.abs(integers).max(initial=0) >= 2.0**31:
        return None
    assert isinstance(bias.owner, Operation)
    return graph.ConstantOp.from_array(
        np.broadcast_to(integers, graph.shape_of(bias)).astype(np.int32),
        accumulator,
        location=bias.owner.location,
    )


def _binary(
    op: graph.BinaryOp, lhs: SSAValue, rhs: SSAValue, target: UniformType
) -> GraphOperation | None:
    sides = graph.stored_element(lhs), graph.stored_element(rhs)
    clamp = clamp_of(op.activation, target)
    if clamp is None or op.function not in QUANTIZED_BINARIES:
        return None
    shifts, multipliers = (0, 0), (1, 1)
    if op.function is graph.Binary.MUL:
        factor = sides[0].scale * sides[1].scale / target.scale
        requant: RequantAttr | None = rescaling(factor, sides, target, clamp)
    elif (aligned := _alignment(*sides)) is not None and has_powers((*sides, target)):
        shifts = aligned
        unit = min(side.scale for side in sides)
        requant = rescaling(unit / target.scale, sides, target, clamp)
    else:
        shifts, multipliers, requant = _rescaled_addends(sides, target, clamp)
    if requant is None:
        return None
    return graph.BinaryOp(
        op.function,
        lhs,
        rhs,
        result_element=target,
        shifts=shifts,
        multipliers=multipliers,
        requant=requant,
    )


def _alignment(lhs: UniformType, rhs: UniformType) -> tuple[int, int] | None:
    """
    Return the left shifts that convert two addends to the smaller of both scales, or `None` if a
    shift would be too large.
    """
    finer = min(lhs.scale, rhs.scale)
    shifts = round(np.log2(lhs.scale / finer)), round(np.log2(rhs.scale / finer))
    return shifts if max(shifts) <= graph.BinaryOp.MAX_SHIFT else None


def _rescaled_addends(
    sides: tuple[UniformType, UniformType], target: UniformType, clamp: tuple[int, int]
) -> tuple[tuple[int, int], tuple[int, int], RequantAttr | None]:
    """
    Return the left shifts, the multipliers and the requantization with which two stored addends
    with any scales are added. The requantization is `None` if the error would be too large. `sides`
    are the types of the addends, and `clamp` the lowest and the highest stored integer.
    """
    (left, right), shift = addend_multipliers(sides, target)
    shifts, multipliers, rounding = (0, 0), (left, right), Rounding.HALF_EVEN
    factors = [side.scale / target.scale for side in sides]
    difference = abs(factors[0] * right / (factors[1] * left) - 1.0)
    errors = [abs(m / 2**shift - f) for m, f in zip(multipliers, factors, strict=True)]
    error = sum(e * side.reach for e, side in zip(errors, sides, strict=True))
    # Multipliers of 1 hide a difference of small factors, and other factors may exceed all bits.
    is_hidden = difference > SAME_ADDENDS and multipliers == (1, 1)
    if is_hidden or error > MAX_ADDEND_ERROR:
        return shifts, multipliers, None
    if difference <= SAME_ADDENDS and left.bit_count() == right.bit_count() == 1:
        # Use shifts. Accelerators have them if there is no zero point.
        shifts, multipliers = (left.bit_length() - 1, right.bit_length() - 1), (1, 1)
        if not any(element.zero_point for element in (*sides, target)):
            rounding = Rounding.HALF_UP
    low, high = clamp
    point = target.zero_point
    return (
        shifts,
        multipliers,
        RequantAttr(shift, rounding=rounding, zero_point=point, low=low, high=high),
    )


def addend_multipliers(
    sides: Sequence[UniformType], target: UniformType
) -> tuple[tuple[int, ...], int]:
    """
    Return an integer multiplier for each addend, and a right shift of the sum, that convert addends
    of the types `sides` to the scale of `target`.
    """
    largest = max(side.reach for side in sides)
    bits = min(ADDEND_BITS - largest.bit_length(), graph.BinaryOp.MAX_SHIFT)
    return fixed_point([side.scale / target.scale for side in sides], bits, ADDEND_SHIFT)


def average_requant(op: graph.Pool2dOp, input: SSAValue, target: UniformType) -> RequantAttr:
    """Return the division by the size of the window, and the change of scale, of an average."""
    element, size = graph.stored_element(input), prod(op.kernel.get_values())
    nearest = max(target.scale, ldexp(element.scale, -MAX_POOL_OCTAVES))
    bounded = min(nearest, ldexp(element.scale, MAX_POOL_OCTAVES))
    reciprocal = graph.reciprocal_requant(size, input, bounded)
    factor, shift = reciprocal.multiplier.data, reciprocal.shift.data
    log2 = factor.bit_length() - 1
    if not any(op.padding.get_values()) and factor == 1 << log2 and 0 <= shift - log2 <= MAX_RIGHT:
        # All windows are full and have the same factor, which is a power of two.
        factor, shift = 1, shift - log2
    return RequantAttr(
        shift,
        multiplier=factor,
        rounding=rounding_of((element, target)),
        zero_point=target.zero_point,
        low=target.low,
        high=target.high,
    )
