"""
Positive real factors as integers: `factor ~ multiplier / 2**shift`, one shift for a whole list.

The greatest multiplier has 31 bits where the shift allows it, so every factor is off by at most
`2**-(shift + 1)`, relative to the greatest one by `2**-31`. Powers of two are exact and come out
as shifts, or as multipliers without one.
"""

from collections.abc import Sequence
from math import frexp, ldexp

from ceras_ir.dialects.quant import RequantAttr, Rounding

MULTIPLIER_BITS, MAX_SHIFT = 31, 47
"""What 64-bit products leave room for, and the longest shift that accelerators have."""


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
