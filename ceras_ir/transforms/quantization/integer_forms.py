"""
The integer operation for a float one, from how operands and result are stored, and nothing else.

`quantize-graph` chose these types, `fold-qdq` found them around the operation. Products are summed
exactly in 32 bits and rounded half up, as accelerators do; what adds few numbers, or none, is
rounded as `rescaling` says. Against the float operation on the same stored numbers the result is
off by that one rounding, and by what fixed point does to factors that are no powers of two.

The first part is softmax and normalization of rows on stored integers.
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

# Softmax and normalization of rows on stored integers: their tables and constants.

VANISHES = (EXP_TABLE_BITS + 1) * 0.6931472
"""From here on an exponential is below half a unit of the table."""


def row_form(
    op: graph.SoftmaxOp | graph.NormalizeOp, input: SSAValue, target: UniformType
) -> list[graph.GraphOperation] | None:
    """
    Constants and the operation on a stored `input`; None where steps are no powers of two, or so
    fine that a table would be too long.
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
    entries = max(ceil(VANISHES / source.scale) + 1, 2)
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
    # As fine as 16 and 32 bits hold, and no finer than a shift of the result leaves.
    room = [(float(np.abs(scale).max()), 15), (float(np.abs(bias).max()), 31 + FRACTION_BITS)]
    step = max(ceil(log2(max(most, 2.0**-60) * (1 + 2.0**-14))) - bits for most, bits in room)
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
"""Relative; a bias at the accumulator's scale but for rounding of the scale itself is kept."""
SAME_ADDENDS = 2.0**-22
"""Relative; addends whose scales differ by less are at one scale, for `check-scales` too."""
ADDEND_BITS, ADDEND_SHIFT = 29, 31
"""Addends times their multipliers stay below 2^29, and the sum is shifted by 31 at most."""
ADDEND_ERROR = 0.5
"""How far multipliers may move a sum, in units of the result; rounding it moves it as far."""
POOL_OCTAVES = 30
"""
How far apart the scales of an average may be; further ones give the same: averages of up to
2^12 elements are all rounded to zero, or all saturated, in 16 bits too.
"""


def integer_form(
    op: GraphOperation, operands: Sequence[SSAValue], target: UniformType
) -> list[GraphOperation] | None:
    """
    What computes `op`, whose operands are stored as `operands`, with a result of `target`; the
    last has the result. None where no integers do. A constant bias may still be float.
    """
    made = _made(op, operands, target)
    for new in made or ():
        if not isinstance(new, graph.ConstantOp):
            new.location = op.location
            drop_statistics(new)
    return made


def _made(
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
            return row_form(op, operands[0], target)
        case graph.BinaryOp():
            new = _binary(op, operands[0], operands[1], target)
        case graph.Pool2dOp() if op.function is graph.Pool.AVERAGE:
            new = _average(op, operands[0], target)
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
        return None  # No shift is so long: all numbers would be rounded to zero.
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
    The left shifts that bring a residual to the accumulator's scales, one for each of these; None
    if there are none.
    """
    mantissas, exponents = np.frexp(graph.stored_element(residual).scale / scales)
    shifts = (exponents - 1).tolist()
    aligned = bool((mantissas == 0.5).all()) and 0 <= min(shifts) <= max(shifts)
    return tuple(shifts) if aligned and max(shifts) <= MAX_RESIDUAL_SHIFT else None


def accumulator_element(input: SSAValue, weights: SSAValue) -> UniformType:
    """The type of sums of products, with a scale for each row of weights that has one."""
    factors = graph.stored_element(weights)
    scales = [graph.scale_of(input) * s.data for s in factors.scales]
    return UniformType(scales, storage=i32, axis=0 if factors.is_per_axis else None)


def bias_in_accumulators(bias: SSAValue, accumulator: UniformType) -> NDArray[np.float64]:
    """A constant bias, float or stored, in units of the accumulator, which may be fractions."""
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
    A constant bias in 32 bits at the accumulator's scales, rounded half to even; None where it does
    not fit, because it is never clipped.
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
        shifts, multipliers, requant = _multiplied(sides, target, clamp)
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
    """The left shifts that bring addends to the finer one's scale; None if they are too far."""
    finer = min(lhs.scale, rhs.scale)
    shifts = round(np.log2(lhs.scale / finer)), round(np.log2(rhs.scale / finer))
    return shifts if max(shifts) <= graph.BinaryOp.MAX_SHIFT else None


def _multiplied(
    sides: tuple[UniformType, UniformType], target: UniformType, clamp: tuple[int, int]
) -> tuple[tuple[int, int], tuple[int, int], RequantAttr | None]:
    """Shifts, multipliers and the rescaling of addends of any scales, which may be none."""
    (left, right), shift = addend_multipliers(sides, target)
    shifts, multipliers, rounding = (0, 0), (left, right), Rounding.HALF_EVEN
    factors = [side.scale / target.scale for side in sides]
    apart = abs(factors[0] * right / (factors[1] * left) - 1.0)
    off = [abs(m / 2**shift - f) for m, f in zip(multipliers, factors, strict=True)]
    # So small that the multipliers do not tell them apart; or too far from the factors, the
    # lesser one or one beyond all bits.
    alike = apart > SAME_ADDENDS and multipliers == (1, 1)
    if alike or sum(d * side.reach for d, side in zip(off, sides, strict=True)) > ADDEND_ERROR:
        return shifts, multipliers, None
    if apart <= SAME_ADDENDS and left.bit_count() == right.bit_count() == 1:
        # Shifts, which accelerators have where there is no zero point either.
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
    """What two addends are multiplied by, and the shift of their sum."""
    largest = max(side.reach for side in sides)
    bits = min(ADDEND_BITS - largest.bit_length(), graph.BinaryOp.MAX_SHIFT)
    return fixed_point([side.scale / target.scale for side in sides], bits, ADDEND_SHIFT)


def _average(op: graph.Pool2dOp, input: SSAValue, target: UniformType) -> GraphOperation:
    """Division by the size of the window, from one scale to another."""
    element, size = graph.stored_element(input), prod(op.kernel.get_values())
    nearest = max(target.scale, ldexp(element.scale, -POOL_OCTAVES))
    bounded = min(nearest, ldexp(element.scale, POOL_OCTAVES))
    reciprocal = graph.reciprocal_requant(size, input, bounded)
    factor, shift = reciprocal.multiplier.data, reciprocal.shift.data
    log2 = factor.bit_length() - 1
    if not any(op.padding.get_values()) and factor == 1 << log2 and 0 <= shift - log2 <= MAX_RIGHT:
        # Every window is full, so that the factor is the same for all, and a shift does it.
        factor, shift = 1, shift - log2
    new = with_operands(op, [input], target)
    new.properties["requant"] = RequantAttr(
        shift,
        multiplier=factor,
        rounding=rounding_of((element, target)),
        zero_point=target.zero_point,
        low=target.low,
        high=target.high,
    )
    return new
