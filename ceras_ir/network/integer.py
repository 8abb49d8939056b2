"""
Compute the integer arithmetic of quantized operations: rounding, shift, clamp, and power-of-two
scales.

At exponent e, a real x is stored as `clamp(round(x / 2**e), low, high)`. The exponent with the
smallest squared error is chosen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import frexp, ldexp
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntAttr

from ceras_ir.dialects.graph.constant import numpy_dtype
from ceras_ir.dialects.quant import BYTE_BITS, MULTIPLIER_BITS, RequantAttr, Rounding, UniformType

Integers = NDArray[np.int64]
Number = TypeVar("Number", bound=np.generic)


def round_shift(value: Integers, shift: int, mode: Rounding) -> Integers:
    """
    Return `value / 2**shift` as integers, rounded by `mode`. A mode that rounds twice is not
    permitted.
    """
    if shift == 0:
        return value
    half = np.int64(1) << np.int64(shift - 1)
    floor = value >> shift
    assert mode is not Rounding.DOUBLE_ROUND  # It depends on the multiplier, see `requantize`.
    match mode:
        case Rounding.FLOOR:
            return floor
        case Rounding.HALF_UP:
            return (value + half) >> shift
        case Rounding.HALF_AWAY:
            return np.where(value >= 0, (value + half) >> shift, -((half - value) >> shift))
        case Rounding.HALF_EVEN:
            rest = value - (floor << shift)
            up = (rest > half) | ((rest == half) & ((floor & 1) == 1))
            return floor + up


def requantize(
    accumulator: NDArray[np.generic], requant: RequantAttr, element: UniformType
) -> NDArray[np.generic]:
    """
    Convert an integer accumulator to stored integers of the type `element`: multiply, shift right
    and round, add the zero point, clamp. `requant` has the parameters. Multipliers per channel
    apply to the last axis.
    """
    # Multipliers per output channel broadcast along the last dimension.
    multipliers, shifts = (np.array(values, np.int64) for values in requant.factors)
    factor = multipliers if multipliers.size > 1 else multipliers[0]  # A scalar keeps the shape.
    product = accumulator.astype(np.int64) * factor
    distance = shifts if shifts.size > 1 else shifts[0]
    if requant.mode is Rounding.DOUBLE_ROUND:
        rounded = _rounded_twice(product, distance)
    elif requant.is_normalized:
        rounded = (product + (np.int64(1) << distance - 1)) >> distance
    else:
        rounded = round_shift(product, requant.shift.data, requant.mode)
    stored = rounded + requant.zero_point.data
    return np.clip(stored, requant.low.data, requant.high.data).astype(numpy_dtype(element))


def _rounded_twice(product: Integers, shift: Integers) -> Integers:
    """
    Return `product / 2**shift` as `Rounding.DOUBLE_ROUND` does: shift by at most 31 bits and round
    half up, then shift by the rest and round half away from zero.
    """
    first = np.minimum(shift, MULTIPLIER_BITS)
    rest = shift - first
    high = (product + (np.int64(1) << first - 1)) >> first
    half = np.int64(1) << np.maximum(rest - 1, 0)
    return np.where(rest > 0, (high + half - (high < 0)) >> rest, high)


def high_product(a: Integers, b: Integers | int) -> Integers:
    """
    Return `a * b / 2**31`, rounded half up: the product of fixed-point numbers in units of 2^-31.
    """
    return (a * b + (1 << 30)) >> 31


RECIPROCAL_OFFSET, RECIPROCAL_SLOPE = 1515870810, -1010580540
"""48/17 and -32/17 in units of 2^-29: the first approximation of a reciprocal."""


def newton_reciprocal(half: Integers) -> Integers:
    """
    Return `1 / half` in units of 2^-29, for `half` from 1/2 to 1 in units of 2^-31. Three steps of
    Newton's method start at `48/17 - 32/17 * half`.
    """
    x = RECIPROCAL_OFFSET + high_product(half, RECIPROCAL_SLOPE)
    for _ in range(3):
        x = x + (high_product(x, (1 << 29) - high_product(half, x)) << 2)
    return x


def _along_axis(values: NDArray[Number], element: UniformType, rank: int) -> NDArray[Number]:
    if not isinstance(element.axis, IntAttr):
        return values.reshape(())
    axis = element.axis.data
    return values.reshape([-1 if i == axis else 1 for i in range(rank)])


def zero_points(element: UniformType, rank: int) -> Integers:
    """
    Return the zero points of `element` in a shape that broadcasts to tensors of `rank` axes: [C, 1,
    1] for a scale per index of the first of three axes, [] for a single scale.
    """
    points = np.array([point.data for point in element.zero_points], np.int64)
    return _along_axis(points, element, rank)


def scales(element: UniformType, rank: int) -> NDArray[np.float32]:
    """
    Return the scales of `element` in a shape that broadcasts to tensors of `rank` axes: [C, 1, 1]
    for a scale per index of the first of three axes, [] for a single scale.
    """
    values = np.array([scale.data for scale in element.scales]).astype(np.float32)
    return _along_axis(values, element, rank)


def round_float(x: NDArray[np.floating], mode: Rounding) -> NDArray[np.floating]:
    """Round floats to integers, with ties to even or away from zero."""
    if mode is Rounding.HALF_EVEN:
        return np.rint(x)
    assert mode is Rounding.HALF_AWAY
    # The fraction is exact.
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole)


def quantize(
    x: NDArray[np.float32], element: UniformType, mode: Rounding = Rounding.HALF_EVEN
) -> NDArray[np.generic]:
    """
    Evaluate `graph.quantize`: divide by the scale in float32, round by `mode`, add the zero point,
    clamp to the range of `element`. NaN gives the zero point. A bipolar result is 1 if x is at
    least 0, otherwise -1.
    """
    if element.is_bipolar:
        return np.where(x >= 0, np.int8(1), np.int8(-1))
    with np.errstate(invalid="ignore"):
        scaled = round_float(x / scales(element, x.ndim), mode)
    bounded = np.clip(np.nan_to_num(scaled, nan=0.0), -(2.0**31), 2.0**31 - 1)
    shifted = bounded.astype(np.int64) + zero_points(element, x.ndim)
    return np.clip(shifted, element.low, element.high).astype(numpy_dtype(element))


def dequantize(q: NDArray[np.generic], element: UniformType) -> NDArray[np.float32]:
    """
    Evaluate `graph.dequantize`: subtract the zero point in integers, convert to float32, multiply
    by the scale.
    """
    centred = (q.astype(np.int64) - zero_points(element, q.ndim)).astype(np.float32)
    return centred * scales(element, q.ndim)


def rounded_to(x: NDArray[np.float32], element: UniformType) -> NDArray[np.float32]:
    """
    Return `dequantize(quantize(x, element), element)`. Integers of at most 16 bits are exact in
    float32, in which they need no conversion.
    """
    if element.storage.width.data > MAX_FLOAT_STORAGE_BITS or element.is_bipolar:
        return dequantize(quantize(x, element), element)
    scale, points = scales(element, x.ndim), zero_points(element, x.ndim)
    with np.errstate(invalid="ignore"):
        result = np.array(x / scale)
    np.rint(result, out=result)
    low, high = ((end - points).astype(np.float32) for end in (element.low, element.high))
    np.clip(result, low, high, out=result)
    np.copyto(result, np.float32(0), where=np.isnan(result))
    result += np.float32(0)  # An integer has no negative zero.
    result *= scale
    return result


MAX_FLOAT_STORAGE_BITS = 16

MAX_TRIED_SUMS = 1 << 17
"""
The number of different sums above which no multiplier is searched, because all sums are checked.
"""


@dataclass(frozen=True)
class Averaging:
    """An average in integers: `(sum * multiplier + addend) >> shift`, before the clamp."""

    multiplier: int
    addend: int
    shift: int


def averaging(
    window: int, requant: RequantAttr, point: int = 0, *, max_multiplier: int, product_limit: int
) -> Averaging | None:
    """
    Find a small multiplier, addend and shift whose result is equal to that of `requant` for each
    possible sum of a window. Return `None` if no multiplier exists, if `requant` has multipliers
    per channel, or if there are more than `MAX_TRIED_SUMS` sums.

    The operand of `requant` is the sum of `window` int8 elements minus the zero point `point`. Each
    candidate is checked with all sums. The multiplier is at most `max_multiplier`, and products
    with sums are below `product_limit`, so that they fit a register.
    """
    if requant.is_per_channel or window * 255 > MAX_TRIED_SUMS:
        return None
    sums = np.arange(-128 * window, 127 * window + 1, dtype=np.int64)
    wanted = requantize(sums - window * point, requant, UniformType(1.0)).astype(np.int64)
    # A clamped result bounds the product on one side only.
    bounded_below, bounded_above = wanted > requant.low.data, wanted < requant.high.data
    ratio = requant.multiplier.data / 2.0**requant.shift.data
    for shift in range(31):
        exact = ratio * 2.0**shift
        for multiplier in dict.fromkeys((int(exact), int(exact) + 1)):
            if not 1 <= multiplier <= max_multiplier or multiplier * window << 7 >= product_limit:
                continue
            products = sums * multiplier
            from_below = ((wanted << shift) - products)[bounded_below]
            from_above = ((wanted + 1 << shift) - 1 - products)[bounded_above]
            low = int(from_below.max(initial=-(2**29)))
            high = int(from_above.min(initial=2**29))
            if low <= high:
                # The addend nearest to 0 most likely fits an immediate operand.
                return Averaging(multiplier, max(low, min(0, high)), shift)
    return None


INT8_LOW, INT8_HIGH = -128, 127
"""The bounds of int8."""
MIN_SCALE_EXPONENT, MAX_SCALE_EXPONENT = -100, 100
"""Bounds of exponents: scales and their products are normal float32 numbers."""
ZERO_RANGE_EXPONENT = -7
"""The exponent of a value that was always 0: [-1, 1) is representable."""
EXPONENT_CANDIDATES = 5
"""The number of exponents that are tried, downwards from the largest."""
MAX_TRIED_OCTAVES = 3
"""The octaves of scales that are tried, if scales are not powers of two."""
WEIGHTS_PER_BATCH = 1 << 20
"""Weights that are processed at a time."""


def weight_bounds(bits: int = BYTE_BITS) -> tuple[int, int]:
    """
    Return the lowest and the highest integer as which constant weights of `bits` bits are stored.
    The lowest integer of the storage, such as -128, is excluded, so that (-128) * (-128), the only
    product of 2^14, cannot occur, and weights can be negated.
    """
    high = (1 << bits - 1) - 1
    return -high, high


def fitting_exponent(magnitude: float, high: int = INT8_HIGH) -> int:
    """
    Return the smallest exponent e for which `magnitude / 2**e` rounds to at most `high`, within the
    bounds of exponents. 0 gives `ZERO_RANGE_EXPONENT`. `high` must be a power of two minus 1.
    """
    if magnitude == 0.0:
        return ZERO_RANGE_EXPONENT
    # frexp: magnitude < 2**exponent, so 2**(exponent - 7) fits for 127, but for rounding up to 128.
    exponent = frexp(magnitude)[1] - high.bit_length()
    if magnitude >= ldexp(high + 0.5, exponent):
        exponent += 1
    return min(max(exponent, MIN_SCALE_EXPONENT), MAX_SCALE_EXPONENT)


def squared_error(
    values: NDArray[np.float32], exponent: int, low: int = INT8_LOW, high: int = INT8_HIGH
) -> float:
    """
    Return the sum of squared errors if `values` are stored at the scale `2**exponent`: rounded, and
    saturated at the integers `low` and `high`.
    """
    scaled = np.atleast_1d(values) * np.float32(ldexp(1.0, -exponent))
    difference = np.rint(scaled)
    np.clip(difference, low, high, out=difference)
    difference -= scaled
    flat = difference.reshape(-1)
    return float(np.dot(flat, flat)) * ldexp(1.0, 2 * exponent)


def row_exponents_within(
    rows: NDArray[np.float32], spread: int, bits: int = BYTE_BITS, parts: int = 1
) -> list[int] | None:
    """
    Return, for each row (an output channel) of weights that are stored in `bits` bits, the exponent
    of the scale with the smallest squared error, in octaves divided by `parts`. Exponents more than
    `spread` octaves below the largest are raised to this limit. Rows of zeros get the largest
    exponent; if all rows are zeros, return `None`.
    """
    flat = rows.reshape(len(rows), -1)
    filled = flat.any(axis=1)
    if not filled.any():
        return None
    chosen = least_squares_exponents(flat, bits, parts)
    greatest = int(chosen[filled].max())
    return np.where(filled, np.maximum(chosen, greatest - spread * parts), greatest).tolist()


def least_squares_exponents(
    rows: NDArray[np.float32], bits: int = BYTE_BITS, parts: int = 1
) -> NDArray[np.int64]:
    """
    Return the exponent of the scale with the smallest squared error for each row [rows, elements]
    of weights of `bits` bits, as `least_squares_exponent` does for a single tensor. The unit of
    exponents is an octave divided by `parts`, see `scales_of_parts`.
    """
    part = max(1, WEIGHTS_PER_BATCH // max(rows.shape[1], 1))
    found = [_of_rows(rows[at : at + part], bits, parts) for at in range(0, len(rows), part)]
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def scales_of_parts(exponents: NDArray[np.int64], parts: int) -> NDArray[np.float64]:
    """
    Return the scales of exponents in units of an octave divided by `parts`, a power of two. An
    octave is divided linearly: the scale is `(1 + f / parts) * 2**e` for the exponent `parts * e +
    f`. Multipliers of sums are therefore integers of few bits.
    """
    octaves, fractions = np.divmod(exponents, parts)
    return np.ldexp(1 + fractions / parts, octaves)


def _of_rows(rows: NDArray[np.float32], bits: int, parts: int) -> NDArray[np.int64]:
    low, high = weight_bounds(bits)
    peaks = np.abs(rows).max(axis=1, initial=0)
    first = parts * np.array([fitting_exponent(float(peak), high) for peak in peaks])
    candidates = np.arange(EXPONENT_CANDIDATES if parts == 1 else MAX_TRIED_OCTAVES * parts)
    tried = np.maximum(first - candidates[:, None], parts * MIN_SCALE_EXPONENT)
    errors: list[NDArray[np.float64]] = []
    for exponents in tried:
        steps = scales_of_parts(exponents, parts)
        scaled = rows / steps[:, None]
        scaled -= np.clip(np.rint(scaled), low, high)
        errors.append(np.square(scaled, out=scaled).sum(axis=1) * np.square(steps))
    # argmin returns the first of equal errors, which is the coarsest exponent.
    return tried[np.argmin(errors, axis=0), np.arange(len(rows))]


def least_squares_exponent(
    values: NDArray[np.float32], low: int = INT8_LOW, high: int = INT8_HIGH
) -> int:
    """
    Return the exponent of the scale at which `values`, stored as integers in [`low`, `high`], have
    the smallest sum of squared errors.

    Candidates are the smallest exponent without saturation and the next smaller exponents, which
    saturate some values but round the rest more precisely. On a tie the larger exponent is chosen.
    """
    first = fitting_exponent(float(np.abs(values).max(initial=0.0)), high)
    errors = {
        e: squared_error(values, e, low, high)
        for e in range(first, max(first - EXPONENT_CANDIDATES, MIN_SCALE_EXPONENT - 1), -1)
    }
    return min(errors, key=lambda e: (errors[e], -e))


def shift_swish(q: NDArray[np.int64], bends: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """
    Evaluate `graph.shift_swish`, an approximation of x * sigmoid(x) by shifts and maxima, before
    the requantization. `q` are the stored integers. `bends` has a row with the constants k0 to k4
    of the formula (offsets of the linear pieces), or a row per channel of the last axis.
    """
    k0, k1, k2, k3, k4 = np.array(bends, np.int64).T
    p, m = np.maximum(q, -q), np.minimum(q, -q)
    tail = np.minimum((p >> 3) - k2, (p >> 4) - k3)
    tail = np.minimum(np.minimum(tail, (p >> 6) - k4), 0)
    dip = np.maximum(np.maximum(m >> 1, (m >> 2) - k0), np.maximum(-k1, tail))
    return np.maximum(q, 0) + dip
