"""
Division by a constant as a small multiplier, an addend and a floor shift.

VTA multiplies by int8 weights and shifts. There are only a few thousand sums of a window of
int8, so whether a multiplier is small enough and still exact is found by trying all of them.
"""

from dataclasses import dataclass

import numpy as np

from ceras_ir.backends.vta.rescaling import zero_point
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.network.integer import requantize

LOW_BITS = 7
"""Bits of the multiplier that the second weight tile has; the first is moved left by them."""
MOST = 127 << LOW_BITS | 127
"""The largest multiplier of two tiles."""
MOST_SUMS = 1 << 17
"""Larger windows are not tried."""


@dataclass(frozen=True)
class Averaging:
    """`(sum * multiplier + addend) >> shift`, before the clamp."""

    multiplier: int
    addend: int
    shift: int

    @property
    def weights(self) -> tuple[int, ...]:
        """The multiplier in digits of int8, the most significant first."""
        if self.multiplier <= 127:
            return (self.multiplier,)
        return (self.multiplier >> LOW_BITS, self.multiplier & 127)


def averaging(window: int, requant: RequantAttr, point: int = 0) -> Averaging | None:
    """
    What gives the same as `requant` of numbers less their zero point for every sum of `window`
    int8 numbers; None if nothing.
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
            if not 1 <= multiplier <= MOST or multiplier * window << 7 >= 1 << 30:
                continue
            products = sums * multiplier
            least = ((wanted << shift) - products)[bounded_below]
            most = ((wanted + 1 << shift) - 1 - products)[bounded_above]
            low, high = int(least.max(initial=-(2**29))), int(most.min(initial=2**29))
            if low <= high:
                return Averaging(multiplier, _roundest(low, high), shift)
    return None


def _roundest(low: int, high: int) -> int:
    """The number in [low, high] nearest to zero: most likely an immediate."""
    return max(low, min(0, high))


def averaging_of(op: graph.Pool2dOp) -> Averaging | None:
    """That of an average pooling whose windows all have the same divisor."""
    assert op.requant is not None
    kh, kw = op.kernel.get_values()
    return averaging(kh * kw, op.requant, zero_point(op.input))
