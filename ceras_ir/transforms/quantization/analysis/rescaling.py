"""
Requantizations by real factors, and the clamp range that stands for an activation.

A factor is `multiplier / 2**shift`, with one shift for a whole list. The greatest multiplier has 31
bits where the shift allows it, so every factor is off by at most `2**-(shift + 1)`, relative to the
greatest one by `2**-31`. Powers of two are exact: shifts, or multipliers without one.
"""

from collections.abc import Iterable, Sequence
from math import floor, frexp, ldexp

import numpy as np

from ceras_ir.dialects.graph import FunctionAttr
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.network.integer import quantize

MULTIPLIER_BITS, MAX_SHIFT = 31, 47
"""What 64-bit products leave room for, and the longest shift that accelerators have."""

MAX_RIGHT, MAX_LEFT = 31, 30
"""Longest shifts of numbers below 2^30. Further ones give the same: zero, or saturated."""


def fixed_point(
    factors: Sequence[float], bits: int = MULTIPLIER_BITS, longest: int = MAX_SHIFT
) -> tuple[tuple[int, ...], int]:
    """Multipliers of at most `bits` bits, at least 1, and their common shift."""
    greatest = max(factors)
    # frexp: greatest < 2**exponent, so shifted by `bits - exponent` it is below 2**bits.
    shift = min(max(bits - frexp(greatest)[1], 0), longest)
    most = (1 << bits) - 1
    if shift and int(ldexp(greatest, shift) + 0.5) > most:
        shift -= 1  # It would be rounded up to one bit too many.
    # Compared before it is rounded: a factor beyond 2**bits saturates whatever it meets.
    multipliers = [
        most if ldexp(f, shift) >= most else max(int(ldexp(f, shift) + 0.5), 1) for f in factors
    ]
    while shift and not any(m & 1 for m in multipliers):
        multipliers, shift = [m >> 1 for m in multipliers], shift - 1
    return tuple(multipliers), shift


def rescaling_by(
    factors: Sequence[float],
    zero_point: int,
    clamp: tuple[int, int],
    rounding: Rounding = Rounding.HALF_UP,
) -> RequantAttr:
    """Multiply by the factors, one per output channel or one for all."""
    multipliers, shift = fixed_point(factors)
    return RequantAttr(
        shift,
        multiplier=multipliers if len(multipliers) > 1 else max(multipliers),
        rounding=rounding,
        zero_point=zero_point,
        low=clamp[0],
        high=clamp[1],
    )


def rescaling(
    factor: float, sources: Sequence[UniformType], target: UniformType, clamp: tuple[int, int]
) -> RequantAttr:
    """
    The same for what adds up no products, numbers below 2^30 made of `sources`: half up where
    shifts alone do it, as shifters round; else to even on ties, which equal scales make common.
    """
    elements = (*sources, target)
    if has_powers(elements):
        factor = min(max(factor, 2.0**-MAX_RIGHT), 2.0**MAX_LEFT)
    return rescaling_by([factor], target.zero_point, clamp, rounding_of(elements))


def rounding_of(elements: Iterable[UniformType]) -> Rounding:
    """How sums of few numbers of such types are rounded."""
    return Rounding.HALF_UP if only_shifts(elements) else Rounding.HALF_EVEN


def has_powers(elements: Iterable[UniformType]) -> bool:
    """Whether all scales are powers of two, and numbers signed."""
    return all(element.is_signed and has_power_scales(element) for element in elements)


def has_power_scales(element: UniformType) -> bool:
    """Whether all scales of one type are powers of two."""
    return all(frexp(scale.data)[0] == 0.5 for scale in element.scales)


def only_shifts(elements: Iterable[UniformType]) -> bool:
    """
    Whether numbers of these types are rescaled into each other by shifts alone: no zero points
    either. Such networks are made for shifters, which round half up.
    """
    return all(
        has_powers((element,)) and not any(point.data for point in element.zero_points)
        for element in elements
    )


def clamp_of(activation: FunctionAttr | None, target: UniformType) -> tuple[int, int] | None:
    """
    What stored results an activation leaves; None if it does more than clip. Bounds are rounded
    half up where the scale is a power of two, which commutes with rounding sums of products so;
    else as `graph.quantize` stores them.
    """
    if activation is None:
        return target.low, target.high
    if activation.clip_range is None:
        return None
    if not has_powers((target,)):
        low, high = quantize(np.array(activation.clip_range, np.float32), target)
        return int(low), int(high)
    low, high = (_half_up(bound, target) for bound in activation.clip_range)
    return low, high


def _half_up(bound: float, target: UniformType) -> int:
    # Compared before it is scaled: an infinite or huge bound does not become an integer.
    low, high, point = target.low, target.high, target.zero_point
    if bound >= (high - point) * target.scale:
        return high
    if bound <= (low - point) * target.scale:
        return low
    return floor(bound / target.scale + 0.5) + point
