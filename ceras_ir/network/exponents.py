"""
Powers of two as scales: which exponent stores given numbers with the least squared error.

A number x is stored at exponent e as `clamp(round(x / 2**e), low, high)`. Pure arithmetic;
what the numbers belong to is the caller's business.
"""

from math import frexp, inf, ldexp

import numpy as np
from numpy.typing import NDArray

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
    values: NDArray[np.float32],
    exponent: int,
    low: int = LOW,
    high: int = HIGH,
    largest: float = inf,
) -> float:
    """
    The sum of squared differences between `values`, none above `largest` in magnitude, and what is
    stored of them.
    """
    scaled = np.atleast_1d(values) * np.float32(ldexp(1.0, -exponent))
    difference = np.rint(scaled)
    if largest * ldexp(1.0, -exponent) >= min(-low, high) + 0.5:
        np.clip(difference, low, high, out=difference)
    difference -= scaled
    flat = difference.reshape(-1)
    return float(np.dot(flat, flat)) * ldexp(1.0, 2 * exponent)


def row_exponents_within(rows: NDArray[np.float32], spread: int) -> list[int] | None:
    """
    The exponent of the least squared error for each row, but none more than `spread` below the
    greatest, which rows of zeros have; None if all are zeros.
    """
    found = [least_squares_exponent(row, WEIGHT_LOW) if row.any() else None for row in rows]
    greatest = max((e for e in found if e is not None), default=None)
    if greatest is None:
        return None
    return [greatest if e is None else max(e, greatest - spread) for e in found]


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
