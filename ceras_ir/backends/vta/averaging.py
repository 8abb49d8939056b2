"""
Averages on VTA, which multiplies by int8 weights and shifts: a multiplier of one or two digits.
"""

from ceras_ir.backends.vta.rescaling import zero_point
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.network import averaging as division
from ceras_ir.network.averaging import Averaging

LOW_BITS = 7
"""Bits of the multiplier that the second weight tile has; the first is moved left by them."""
MOST = 127 << LOW_BITS | 127
"""The largest multiplier of two tiles."""


def multiplier_digits(average: Averaging) -> tuple[int, ...]:
    """The multiplier in digits of int8, the most significant first."""
    if average.multiplier <= 127:
        return (average.multiplier,)
    return (average.multiplier >> LOW_BITS, average.multiplier & 127)


def averaging(window: int, requant: RequantAttr, point: int = 0) -> Averaging | None:
    """The division by `window` that VTA does exactly, if there is one."""
    return division.averaging(window, requant, point, most=MOST, most_sum=1 << 30)


def averaging_of(op: graph.Pool2dOp) -> Averaging | None:
    """That of an average pooling whose windows all have the same divisor."""
    assert op.requant is not None
    kh, kw = op.kernel.get_values()
    return averaging(kh * kw, op.requant, zero_point(op.input))
