"""
Compute the parameters and the tables of TensorFlow Lite's integer kernels.

Scales are float32 and become multipliers of 31 bits with a shift, as the kernels compute them in
double precision. The functions of one argument are evaluated for all 256 integers of int8.
"""

from collections.abc import Sequence
from math import floor, frexp

import numpy as np

from ceras_ir.dialects.quant import MULTIPLIER_BITS, RequantAttr, Rounding, UniformType
from ceras_ir.network.integer import Integers, high_product, round_shift

MAX_RIGHT = 31
"""The largest right shift after the multiplication; a smaller factor counts as 0."""

WIDE_BITS, HIGHEST_WIDE = 16, 0x7FFF0000
"""Sums of 64 bits have multipliers without the lowest 16 bits, and at most 0x7fff."""


def rounded(value: float) -> int:
    """Round half away from zero, as `std::round`."""
    return floor(abs(value) + 0.5) * (1 if value >= 0 else -1)


def quantized_multiplier(factor: float) -> tuple[int, int]:
    """
    Return a multiplier in [2^30, 2^31) and the left shift with which `x * factor` is
    `x * multiplier * 2^(shift - 31)`; (0, 0) for a factor of about 2^-32 or less.
    """
    if factor == 0.0:
        return 0, 0
    fraction, shift = frexp(factor)
    multiplier = rounded(fraction * 2.0**MULTIPLIER_BITS)
    if multiplier == 1 << MULTIPLIER_BITS:
        multiplier, shift = multiplier // 2, shift + 1
    return (0, 0) if shift < -MAX_RIGHT else (multiplier, shift)


def requant_of(
    factors: Sequence[float], zero_point: int, low: int, high: int, *, wide: bool = False
) -> RequantAttr | None:
    """
    Return the requantization by `factors`, one for each output channel or a single one, of sums of
    32 bits, or of 64 bits if `wide`. Return None if a factor is too large.
    """
    pairs = [quantized_multiplier(factor) for factor in factors]
    if wide:
        pairs = [
            (min(m, HIGHEST_WIDE) + (1 << WIDE_BITS - 1) >> WIDE_BITS, s + WIDE_BITS)
            for m, s in pairs
        ]
        pairs = [(min(m, (1 << 15) - 1), s) for m, s in pairs]
    rights = [MULTIPLIER_BITS - shift for multiplier, shift in pairs if multiplier]
    common = max(rights, default=RequantAttr.MAX_SHIFT)
    # A factor of 0 gives 0 for each sum of 32 bits if the shift is the largest.
    if not all(multiplier for multiplier, _ in pairs):
        common = RequantAttr.MAX_SHIFT
    smallest = 1 if wide else 1 << MULTIPLIER_BITS - 1
    multipliers = [m << common - (MULTIPLIER_BITS - s) if m else smallest for m, s in pairs]
    limit = MULTIPLIER_BITS if wide else 2 * MULTIPLIER_BITS
    if min(rights, default=1) < 1 or max(multipliers) >= 1 << limit:
        return None
    return RequantAttr(
        common,
        multiplier=multipliers if len(set(multipliers)) > 1 else multipliers[0],
        rounding=Rounding.HALF_UP if wide else Rounding.DOUBLE_ROUND,
        zero_point=zero_point,
        low=low,
        high=high,
    )


def matched_requant(
    factors: Sequence[float], zero_point: int, low: int, high: int
) -> RequantAttr | None:
    """
    Return a requantization of sums of 32 bits that equals `round(sum * factor)` in double
    precision, half away from zero, for each result in [low, high]. Return None if there is none.

    A result only depends on the smallest sum that gives it, so these sums are compared.
    """
    pairs = [quantized_multiplier(factor) for factor in factors]
    rights = [MULTIPLIER_BITS - shift for _, shift in pairs]
    if not all(multiplier for multiplier, _ in pairs) or min(rights) < 1:
        return None
    common = max(rights)
    results = np.arange(low - zero_point, high - zero_point + 1)
    found: list[int] = []
    for factor, (multiplier, _), right in zip(factors, pairs, rights, strict=True):
        first = np.ceil((results - 0.5) / factor).astype(np.int64)
        sums = (first[:, None] + np.arange(-2, 3)).reshape(-1)
        sums = sums[np.abs(sums) < 1 << 31]
        real = sums * factor
        wanted = (np.sign(real) * np.floor(np.abs(real) + 0.5)).astype(np.int64)
        tried = (multiplier + change for change in (0, 1, -1, 2, -2))
        half = 1 << right - 1
        exact = next((m for m in tried if (sums * m + half >> right == wanted).all()), None)
        if exact is None:
            return None
        found.append(exact << common - right)
    if max(found) >= 1 << 2 * MULTIPLIER_BITS:
        return None
    return RequantAttr(
        common,
        multiplier=found if len(set(found)) > 1 else found[0],
        zero_point=zero_point,
        low=low,
        high=high,
    )


def half_away(value: Integers, shift: int) -> Integers:
    """Return `value / 2^shift`, rounded half away from zero."""
    return round_shift(value, shift, Rounding.HALF_AWAY)


def high_half(a: Integers, b: int) -> Integers:
    """Return the product of numbers in units of 2^-15, rounded half up and saturated."""
    return np.minimum((a * b + (1 << 14)) >> 15, (1 << 15) - 1)


def multiplied(value: Integers, factor: float) -> Integers:
    """Return `value * factor` with the two roundings of the kernels."""
    multiplier, shift = quantized_multiplier(factor)
    high = high_product(value << max(shift, 0), multiplier)
    return half_away(high, max(-shift, 0))


def bytes_of(element: UniformType) -> Integers:
    """Return all stored integers of 8 or 16 bits, minus the zero point."""
    return np.arange(element.low, element.high + 1, dtype=np.int64) - element.zero_point


def stored_in(values: Integers, element: UniformType) -> Integers:
    """Add the zero point to integers at the scale of `element`, and clamp them."""
    return np.clip(values + element.zero_point, element.low, element.high)


EXP_FACTORS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""The exponentials of -1/4, -1/2, ..., -16 in units of 2^-31."""

ONE = (1 << 31) - 1
"""The largest number in units of 2^-31, which represents 1."""


def exp_of_negative(value: Integers, integer_bits: int) -> Integers:
    """
    Return the exponential, in units of 2^-31, of numbers that are at most 0, in units of
    `2^(integer_bits - 31)`.
    """
    quarter = 1 << 29 - integer_bits
    # The rest is in [-1/4, 0).
    rest = (value & (quarter - 1)) - quarter
    result = _exp_of_quarter(rest << integer_bits)
    steps = rest - value
    for i, factor in enumerate(EXP_FACTORS[: integer_bits + 2]):
        is_set = (steps & (quarter << i)) != 0
        result = np.where(is_set, high_product(result, factor), result)
    return np.where(value == 0, ONE, result)


def _exp_of_quarter(value: Integers) -> Integers:
    """Return the exponential of numbers in [-1/4, 0), by a series around -1/8."""
    x = value + (1 << 28)
    square = high_product(x, x)
    cube, fourth = high_product(square, x), high_product(square, square)
    series = half_away(high_product(half_away(fourth, 2) + cube, 715827883) + square, 1)
    return 1895147668 + high_product(x + series, 1895147668)


SOFTMAX_BITS = 5
"""The integer bits of the differences in a softmax."""


def softmax_table(scale: float, beta: float) -> Integers:
    """
    Return the exponentials, in units of 2^-31, of the differences 0, -1, ..., -255 of int8 at
    `scale`; 0 for differences beyond the range of the argument.
    """
    differences = -np.arange(256, dtype=np.int64)
    factor = min(beta * scale * 2.0 ** (31 - SOFTMAX_BITS), 2.0**31 - 1)
    multiplier, shift = quantized_multiplier(factor)
    # A factor that is not above 1 cannot occur with scales of practical networks.
    radius = input_radius(SOFTMAX_BITS, shift)
    scaled = high_product(differences << max(shift, 0), multiplier)
    inside = differences >= -radius
    return np.where(inside, exp_of_negative(np.where(inside, scaled, 0), SOFTMAX_BITS), 0)


def input_radius(integer_bits: int, left_shift: int) -> int:
    """Return the largest integer whose multiple fits the argument of a function."""
    largest = ((1 << integer_bits) - 1) * 2.0 ** (31 - integer_bits)
    return floor(largest / 2.0**left_shift)
