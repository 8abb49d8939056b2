"""
Powers of two as scales: which exponent stores given numbers with the least squared error.

A number x is stored at exponent e as `clamp(round(x / 2**e), low, high)`. Pure arithmetic;
what the numbers belong to is the caller's business.
"""

from math import frexp, ldexp

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
