"""
Division by a constant as a small multiplier, an addend and a floor shift.

There are only a few thousand sums of a window of int8, so whether a multiplier is small enough for
a machine and still exact is found by trying all of them.
"""

from dataclasses import dataclass

import numpy as np

from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.network.integer import requantize

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
