"""
Compute the parameters and the tables of TensorFlow Lite's integer kernels.

Scales are float32 and become multipliers of 31 bits with a shift, as the kernels compute them in
double precision. The functions of one argument are evaluated for all 256 integers of int8.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, frexp, log2

import numpy as np

from ceras_ir.dialects.quant import MULTIPLIER_BITS, RequantAttr, Rounding, UniformType
from ceras_ir.network.integer import (
    RECIPROCAL_OFFSET,
    RECIPROCAL_SLOPE,
    Integers,
    high_product,
    round_shift,
)

MAX_RIGHT = 31
"""The largest right shift after the multiplication; a smaller factor counts as 0."""

WIDE_BITS, HIGHEST_WIDE = 16, 0x7FFF0000
"""Sums of 64 bits have multipliers without the lowest 16 bits, and at most 0x7fff."""


LARGEST_ROUNDED = 1 << 62
"""The magnitude to which infinite and huge quotients are limited. No multiplier is as large."""


def rounded(value: float) -> int:
    """
    Round half away from zero, as `std::round`. NaN and numbers that are too large become
    `LARGEST_ROUNDED` in magnitude.
    """
    if not abs(value) < LARGEST_ROUNDED:
        return -LARGEST_ROUNDED if value < 0 else LARGEST_ROUNDED
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
    32 bits, or of 64 bits if `wide`. Return `None` if a factor is too large.
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
    Return a requantization of 32-bit sums that equals `round(sum * factor)`, computed in double
    precision and rounded half away from zero, for each result from `low` to `high`. `factors` has
    one factor for each output channel, or a single one. Otherwise return `None`. A result only
    depends on the smallest sum that gives it, so these sums are compared.
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
    """
    Return the product of `a` and `b`, which are integers in units of 2^-15: rounded half up and
    saturated at 2^15 - 1.
    """
    return np.minimum((a * b + (1 << 14)) >> 15, (1 << 15) - 1)


def applied(value: Integers, multiplier: int, shift: int) -> Integers:
    """Return `value * multiplier * 2^(shift - 31)` with the two roundings of the kernels."""
    high = high_product(value << max(shift, 0), multiplier)
    return half_away(high, max(-shift, 0))


def multiplied(value: Integers, factor: float) -> Integers:
    """
    Return `value * factor` as the kernels of TensorFlow Lite do: the product with a 31-bit
    multiplier is rounded, and then the right shift.
    """
    multiplier, shift = quantized_multiplier(factor)
    return applied(value, multiplier, shift)


def bytes_of(element: UniformType) -> Integers:
    """
    Return all integers that a type of 8 or 16 bits can store, in ascending order, minus the zero
    point.
    """
    return np.arange(element.low, element.high + 1, dtype=np.int64) - element.zero_point


def stored_in(values: Integers, element: UniformType) -> Integers:
    """
    Return `values`, integers at the scale of `element`, as stored integers: add the zero point, and
    clamp.
    """
    return np.clip(values + element.zero_point, element.low, element.high)


EXP_FACTORS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""The exponentials of -1/4, -1/2, ..., -16 in units of 2^-31."""


@dataclass(frozen=True)
class FixedPoint:
    """
    The fixed-point functions of gemmlowp, which TensorFlow Lite uses. A number has a sign and
    `bits` further bits: 31 (int32) or 15 (int16). The integer r is the result `r * 2^-bits`; the
    integer a is the argument `a * 2^(integer_bits - bits)`.
    """

    bits: int

    @property
    def one(self) -> int:
        """The largest number, which represents 1."""
        return (1 << self.bits) - 1

    def constant(self, value: int) -> int:
        """Convert a constant with 31 bits after the point to `bits` bits, rounded half up."""
        return value + (1 << 30 - self.bits) >> 31 - self.bits if self.bits < 31 else value

    def product(self, a: Integers, b: Integers | int) -> Integers:
        """
        Return the product of `a` and `b`, both in units of 2^-bits: rounded half up and saturated.
        """
        return np.minimum((a * b + (1 << self.bits - 1)) >> self.bits, self.one)

    def shifted(self, value: Integers, left: int) -> Integers:
        """Return `value * 2^left`, saturated."""
        return np.clip(value << left, -self.one - 1, self.one)

    def exp_of_negative(self, value: Integers, integer_bits: int) -> Integers:
        """
        Return the exponential of arguments with `integer_bits` bits before the point, which are at
        most 0. The result is in units of 2^-bits.
        """
        quarter = 1 << self.bits - 2 - integer_bits
        # The rest is in [-1/4, 0).
        rest = (value & (quarter - 1)) - quarter
        result = self._exp_of_quarter(rest << integer_bits)
        steps = rest - value
        for i, factor in enumerate(EXP_FACTORS[: integer_bits + 2]):
            is_set = (steps & (quarter << i)) != 0
            result = np.where(is_set, self.product(result, self.constant(factor)), result)
        return np.where(value == 0, self.one, result)

    def _exp_of_quarter(self, value: Integers) -> Integers:
        """
        Return the exponential of `value`, numbers in [-1/4, 0) in units of 2^-bits, by a series
        around -1/8.
        """
        third, center = self.constant(715827883), self.constant(1895147668)
        x = value + (1 << self.bits - 3)
        square = self.product(x, x)
        cube, fourth = self.product(square, x), self.product(square, square)
        series = half_away(self.product(half_away(fourth, 2) + cube, third) + square, 1)
        return np.minimum(center + self.product(x + series, center), self.one)

    def _reciprocal(self, value: Integers) -> Integers:
        """
        Return `2 / (1 + value)`, where `value` is in units of 2^-bits. The result is in units of
        `2^(2 - bits)`, computed by Newton's method.
        """
        half = (value + self.one + 1) >> 1
        x = self.constant(RECIPROCAL_OFFSET) + self.product(half, self.constant(RECIPROCAL_SLOPE))
        for _ in range(3):
            error = (1 << self.bits - 2) - self.product(half, x)
            x = x + self.shifted(self.product(x, error), 2)
        return x

    def logistic(self, value: Integers, integer_bits: int) -> Integers:
        """
        Return `1 / (1 + exp(-x))` of arguments with `integer_bits` bits before the point, in units
        of 2^-bits.
        """
        inverse = self._reciprocal(self.exp_of_negative(-np.abs(value), integer_bits))
        upper = self.shifted(inverse, 1)
        result = np.where(value > 0, upper, self.one - upper)
        return np.where(value == 0, 1 << self.bits - 1, result)

    def tanh(self, value: Integers, integer_bits: int) -> Integers:
        """
        Return the hyperbolic tangent of arguments with `integer_bits` bits before the point, in
        units of 2^-bits.
        """
        inverse = self._reciprocal(self.exp_of_negative(-np.abs(value), integer_bits + 1))
        upper = self.shifted(inverse - (1 << self.bits - 2), 2)
        return np.where(value == 0, 0, np.sign(value) * upper)


WORDS = np.arange(-(1 << 15), 1 << 15, dtype=np.int64)
"""All integers of 16 bits."""

SIGMOID_STEPS = 24
"""The entries per unit in the table that the kernels of int16 interpolate."""


def _sigmoid_table() -> Integers:
    """
    Return the table of the sigmoid in the kernels, in units of 2^-16, for arguments i /
    `SIGMOID_STEPS`. Half of the largest error of the linear interpolation is added to each entry,
    which halves the error.
    """
    s = 1 / (1 + np.exp(-np.arange(256) / SIGMOID_STEPS))
    chord = s * (1 - s) * (2 * s - 1) / (8 * SIGMOID_STEPS**2)
    table = np.rint(2.0**16 * (s + chord / 2)).astype(np.int64)
    table[-1] = (1 << 16) - 1
    return table


def word_multiplier(scale: float) -> tuple[int, int]:
    """
    Return the multiplier and the right shift with which kernels convert 16-bit integers at `scale`
    to units of 1/12288, the argument of `interpolated_words`.
    """
    exponent = round(log2(scale))
    if abs(log2(scale) - exponent) < 1e-3 and exponent in (-12, -11):
        return 3 << exponent + 12, 0
    multiplier, shift = scale * 4096.0 * 3.0, 0
    while multiplier <= 32767.0 / 2.0 and shift <= 30:
        multiplier, shift = multiplier * 2.0, shift + 1
    return int(multiplier), shift


def interpolated_words(scale: float, *, is_tanh: bool) -> Integers:
    """
    Return the sigmoid (or the hyperbolic tangent if `is_tanh`) of all 16-bit integers at `scale`,
    in units of 2^-15, as the kernels interpolate it.
    """
    table, (factor, shift) = _sigmoid_table(), word_multiplier(scale)
    scaled = (WORDS * factor + (1 << shift - 1 if shift else 0)) >> shift
    bits = 8 if is_tanh else 9
    place, rest = np.abs(scaled) >> bits, np.abs(scaled) & ((1 << bits) - 1)
    at = np.minimum(place, 254)
    inside = (table[at] << bits) + rest * (table[at + 1] - table[at])
    if is_tanh:
        found = np.where(place >= 255, 0xFFFF << bits, inside) - (1 << 23)
        return np.where(scaled >= 0, found + 128, -found + 127) >> 8
    found = np.where(place >= 255, 0x7FFF << 10, inside)
    return np.where(scaled >= 0, found + (1 << 9), (1 << 25) - found + (1 << 9) - 1) >> 10


SOFTMAX_BITS = 5
"""The integer bits of the differences in a softmax."""


def softmax_table(scale: float, beta: float) -> Integers:
    """
    Return `exp(beta * scale * d)` for the differences d = 0, -1, ..., -255 of int8 values at
    `scale`, in units of 2^-31. It is 0 for differences beyond the range of the argument.
    """
    differences = -np.arange(256, dtype=np.int64)
    factor = min(beta * scale * 2.0 ** (31 - SOFTMAX_BITS), 2.0**31 - 1)
    multiplier, shift = quantized_multiplier(factor)
    # A factor that is not above 1 cannot occur with scales of practical networks.
    radius = input_radius(SOFTMAX_BITS, shift)
    scaled = high_product(differences << max(shift, 0), multiplier)
    inside = differences >= -radius
    arguments = np.where(inside, scaled, 0)
    return np.where(inside, FixedPoint(31).exp_of_negative(arguments, SOFTMAX_BITS), 0)


def input_radius(integer_bits: int, left_shift: int) -> int:
    """
    Return the largest integer that, multiplied by 2^left_shift, fits a fixed-point argument with
    `integer_bits` bits before the point.
    """
    largest = ((1 << integer_bits) - 1) * 2.0 ** (31 - integer_bits)
    return floor(largest / 2.0**left_shift)


HALF_ROOT_OF_2 = 1518500250
"""`sqrt(2) / 2` in units of 2^-31."""

ROOT_STEPS = 5
"""The steps of Newton's method for a reciprocal root."""


def reciprocal_root_multiplier(value: int) -> tuple[int, int]:
    """
    Return a multiplier and a right shift with which `1 / sqrt(value)` is `multiplier * 2^(-shift -
    31)`, by Newton's method in units of 2^-28, for a positive value of less than 29 bits.
    """
    largest = (1 << 31) - 1
    if value <= 1:
        return largest, 0
    pairs = (31 - value.bit_length()) // 2 - 1
    shift = 11 - pairs
    scaled = value << 2 * pairs

    def product(a: int, b: int) -> int:
        return a * b + (1 << 30) >> 31

    def shifted(a: int, left: int) -> int:
        return max(min(a << left, largest), -largest - 1)

    half = (scaled >> 1) + 1 >> 1
    three_halves, x = (1 << 28) + (1 << 27), 1 << 28
    for _ in range(ROOT_STEPS):
        cube = shifted(product(product(x, x), x), 6)
        x = shifted(product(three_halves, x) - product(half, cube), 3)
    found = product(x, HALF_ROOT_OF_2)
    return (found << -shift, 0) if shift < 0 else (found, shift)
