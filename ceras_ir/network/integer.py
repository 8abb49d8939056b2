"""
Integer arithmetic of quantized operations: rounding, shift, clamp, and powers of two as scales.

A number x is stored at exponent e as `clamp(round(x / 2**e), low, high)`; the exponent with the
least squared error is chosen. Division by a constant is a small multiplier, an addend and a floor
shift. There are only a few thousand sums of a window of int8, so whether a multiplier is small
enough for a machine and still exact is found by trying all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import frexp, ldexp
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntAttr

from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType

Integers = NDArray[np.int64]
Number = TypeVar("Number", bound=np.generic)


def round_shift(value: Integers, shift: int, mode: Rounding) -> Integers:
    """`value / 2**shift`, rounded as `mode` says."""
    if shift == 0:
        return value
    half = np.int64(1) << np.int64(shift - 1)
    floor = value >> shift
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
    """An integer accumulator as the stored numbers of `element`, as `#graph.requant` says."""
    from ceras_ir.dialects.graph.constant import numpy_dtype

    # One multiplier, or one for each output channel, which is the last dimension.
    multipliers = np.array(requant.multipliers, np.int64)
    factor = multipliers if multipliers.size > 1 else multipliers[0]  # A scalar keeps its shape.
    product = accumulator.astype(np.int64) * factor
    rounded = round_shift(product, requant.shift.data, requant.mode) + requant.zero_point.data
    return np.clip(rounded, requant.low.data, requant.high.data).astype(numpy_dtype(element))


def _along_axis(values: NDArray[Number], element: UniformType, rank: int) -> NDArray[Number]:
    """One value, or one per channel of the axis of `element`, so that it broadcasts."""
    if not isinstance(element.axis, IntAttr):
        return values.reshape(())
    axis = element.axis.data
    return values.reshape([-1 if i == axis else 1 for i in range(rank)])


def zero_points(element: UniformType, rank: int) -> Integers:
    """The zero points of `element`, for tensors of `rank`."""
    points = np.array([point.data for point in element.zero_points], np.int64)
    return _along_axis(points, element, rank)


def scales(element: UniformType, rank: int) -> NDArray[np.float32]:
    """The scales of `element`, for tensors of `rank`."""
    values = np.array([scale.data for scale in element.scales]).astype(np.float32)
    return _along_axis(values, element, rank)


def quantize(x: NDArray[np.float32], element: UniformType) -> NDArray[np.generic]:
    """`graph.quantize`: division in float32, ties to even; NaN gives the zero point."""
    from ceras_ir.dialects.graph.constant import numpy_dtype

    scaled = np.rint(x / scales(element, x.ndim))
    bounded = np.clip(np.nan_to_num(scaled, nan=0.0), -(2.0**31), 2.0**31 - 1)
    shifted = bounded.astype(np.int64) + zero_points(element, x.ndim)
    return np.clip(shifted, element.low, element.high).astype(numpy_dtype(element))


def dequantize(q: NDArray[np.generic], element: UniformType) -> NDArray[np.float32]:
    """`graph.dequantize`: exact integers times the scale, in float32."""
    centred = (q.astype(np.int64) - zero_points(element, q.ndim)).astype(np.float32)
    return centred * scales(element, q.ndim)


MOST_SUMS = 1 << 17
"""Larger windows are not tried."""


@dataclass(frozen=True)
class Averaging:
    """`(sum * multiplier + addend) >> shift`, before the clamp."""

    multiplier: int
    addend: int
    shift: int


def averaging(
    window: int, requant: RequantAttr, point: int = 0, *, most: int, most_sum: int
) -> Averaging | None:
    """
    What gives the same as `requant` of numbers less their zero point for every sum of `window`
    int8 numbers, with a multiplier up to `most` and products below `most_sum`; None if nothing.
    """
    if requant.is_per_channel or window * 255 > MOST_SUMS:
        return None
    sums = np.arange(-128 * window, 127 * window + 1, dtype=np.int64)
    wanted = requantize(sums - window * point, requant, UniformType(1.0)).astype(np.int64)
    # Where the result is clamped, one side is free.
    bounded_below, bounded_above = wanted > requant.low.data, wanted < requant.high.data
    ratio = requant.multiplier.data / 2.0**requant.shift.data
    for shift in range(31):
        exact = ratio * 2.0**shift
        for multiplier in dict.fromkeys((int(exact), int(exact) + 1)):
            if not 1 <= multiplier <= most or multiplier * window << 7 >= most_sum:
                continue
            products = sums * multiplier
            least = ((wanted << shift) - products)[bounded_below]
            greatest = ((wanted + 1 << shift) - 1 - products)[bounded_above]
            low = int(least.max(initial=-(2**29)))
            high = int(greatest.min(initial=2**29))
            if low <= high:
                return Averaging(multiplier, _roundest(low, high), shift)
    return None


def _roundest(low: int, high: int) -> int:
    """The number in [low, high] nearest to zero: most likely an immediate."""
    return max(low, min(0, high))


LOW, HIGH = -128, 127
"""What int8 holds."""
WEIGHT_LOW = -127
"""Weights leave -128 out: then (-128) * (-128), the one product of 2^14, cannot occur."""
LEAST, GREATEST = -100, 100
"""Exponents are kept so small that scales and their products are normal float32 numbers."""
UNUSED = -7
"""The exponent of what was always zero: steps of 2^-7, so that [-1, 1) can be stored."""
CANDIDATES = 5
"""How many exponents are tried, downwards from the one that overflows nowhere."""
ROWS_AT_ONCE = 1 << 20
"""Weights that are looked at together."""


def fitting_exponent(magnitude: float) -> int:
    """The least exponent at which `magnitude` rounds to at most 127."""
    if magnitude == 0.0:
        return UNUSED
    # frexp: magnitude < 2**exponent, so 2**(exponent - 7) fits, but for rounding up to 128.
    exponent = frexp(magnitude)[1] - 7
    if magnitude >= ldexp(HIGH + 0.5, exponent):
        exponent += 1
    return min(max(exponent, LEAST), GREATEST)


def squared_error(
    values: NDArray[np.float32], exponent: int, low: int = LOW, high: int = HIGH
) -> float:
    """The sum of squared differences between `values` and what is stored of them."""
    scaled = np.atleast_1d(values) * np.float32(ldexp(1.0, -exponent))
    difference = np.rint(scaled)
    np.clip(difference, low, high, out=difference)
    difference -= scaled
    flat = difference.reshape(-1)
    return float(np.dot(flat, flat)) * ldexp(1.0, 2 * exponent)


def row_exponents_within(rows: NDArray[np.float32], spread: int) -> list[int] | None:
    """
    The exponent of the least squared error for each row, but none more than `spread` below the
    greatest, which rows of zeros have; None if all are zeros.
    """
    flat = rows.reshape(len(rows), -1)
    filled = flat.any(axis=1)
    if not filled.any():
        return None
    chosen = least_squares_exponents(flat)
    greatest = int(chosen[filled].max())
    return np.where(filled, np.maximum(chosen, greatest - spread), greatest).tolist()


def least_squares_exponents(rows: NDArray[np.float32]) -> NDArray[np.int64]:
    """`least_squares_exponent` of each row of weights, of many at once."""
    part = max(1, ROWS_AT_ONCE // max(rows.shape[1], 1))
    found = [_of_rows(rows[at : at + part]) for at in range(0, len(rows), part)]
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _of_rows(rows: NDArray[np.float32]) -> NDArray[np.int64]:
    first = np.array([fitting_exponent(float(top)) for top in np.abs(rows).max(axis=1, initial=0)])
    tried = np.maximum(first - np.arange(CANDIDATES)[:, None], LEAST)
    errors: list[NDArray[np.float64]] = []
    for exponents in tried:
        scaled = np.ldexp(rows.astype(np.float64), -exponents[:, None])
        scaled -= np.clip(np.rint(scaled), WEIGHT_LOW, HIGH)
        errors.append(np.ldexp(np.square(scaled, out=scaled).sum(axis=1), 2 * exponents))
    # The first of equal ones is the coarsest.
    return tried[np.argmin(errors, axis=0), np.arange(len(rows))]


def least_squares_exponent(values: NDArray[np.float32], low: int = LOW, high: int = HIGH) -> int:
    """
    The exponent of the least squared error among the one that overflows nowhere and the next
    finer ones; on a tie the coarser, which clips less.
    """
    first = fitting_exponent(float(np.abs(values).max(initial=0.0)))
    errors = {
        e: squared_error(values, e, low, high)
        for e in range(first, max(first - CANDIDATES, LEAST - 1), -1)
    }
    return min(errors, key=lambda e: (errors[e], -e))


def shift_swish(q: NDArray[np.int64], bends: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Of stored numbers; `bends` are five constants, or five for each channel."""
    k0, k1, k2, k3, k4 = np.array(bends, np.int64).T
    p, m = np.maximum(q, -q), np.minimum(q, -q)
    tail = np.minimum((p >> 3) - k2, (p >> 4) - k3)
    tail = np.minimum(np.minimum(tail, (p >> 6) - k4), 0)
    dip = np.maximum(np.maximum(m >> 1, (m >> 2) - k0), np.maximum(-k1, tail))
    return np.maximum(q, 0) + dip
