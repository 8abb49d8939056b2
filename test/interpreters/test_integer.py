"""Compare rounding, shifts and clamps with Python integers, on ties and extremes."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import IntegerType, i32

from ceras_ir.dialects.quant import SINGLE_ROUNDINGS, RequantAttr, Rounding, UniformType
from ceras_ir.network.integer import dequantize, quantize, requantize, rounded_to

CORNERS = [-(2**31), -1025, -1024, -1023, -3, -2, -1, 0, 1, 2, 3, 511, 512, 513, 2**31 - 1]


def rounded(value: Fraction, mode: Rounding) -> int:
    """Round by definition, in exact rational arithmetic."""
    low = floor(value)
    rest = value - low
    assert mode is not Rounding.DOUBLE_ROUND
    match mode:
        case Rounding.FLOOR:
            return low
        case Rounding.HALF_UP:
            return low + (rest >= Fraction(1, 2))
        case Rounding.HALF_EVEN:
            return low + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1))
        case Rounding.HALF_AWAY:
            up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and value >= 0)
            return low + up


@pytest.mark.parametrize("mode", SINGLE_ROUNDINGS)
@pytest.mark.parametrize(
    ("multiplier", "shift"), [(1, 0), (1, 1), (1, 10), (3, 4), (2**31 - 1, 62)]
)
def test_requantize_is_the_documented_function(mode: Rounding, multiplier: int, shift: int):
    requant = RequantAttr(
        shift, multiplier=multiplier, rounding=mode, zero_point=3, low=-100, high=101
    )
    values = np.array(CORNERS, np.int64)
    expected = [
        min(max(rounded(Fraction(v * multiplier, 1 << shift), mode) + 3, -100), 101)
        for v in CORNERS
    ]
    assert requantize(values, requant, UniformType(1.0)).tolist() == expected


@given(
    st.integers(-(2**31), 2**31 - 1),
    st.integers(1, 2**31 - 1),
    st.integers(0, 62),
    st.sampled_from(SINGLE_ROUNDINGS),
)
def test_requantize_anywhere(value: int, multiplier: int, shift: int, mode: Rounding):
    requant = RequantAttr(shift, multiplier=multiplier, rounding=mode)
    expected = min(max(rounded(Fraction(value * multiplier, 1 << shift), mode), -128), 127)
    assert requantize(np.array([value]), requant, UniformType(1.0)).tolist() == [expected]


def rounded_twice(value: int, multiplier: int, shift: int) -> int:
    """Round half up to 31 fractional bits less, then half away from zero."""
    excess = max(multiplier.bit_length() - 31, 0)
    exact, right = Fraction(value * multiplier, 1 << shift), shift - excess
    if right <= 31:
        return rounded(exact, Rounding.HALF_UP)
    high = rounded(exact * (1 << right - 31), Rounding.HALF_UP)
    return rounded(Fraction(high, 1 << right - 31), Rounding.HALF_AWAY)


@given(
    st.integers(-(2**30), 2**30),
    st.integers(1, 2**31 - 1),
    st.integers(0, 20),
    st.integers(25, 62),
)
def test_two_roundings_anywhere(value: int, multiplier: int, more: int, shift: int):
    """A multiplier may be wide."""
    more = more if multiplier >> 30 and shift + more <= 62 else 0
    factor, common = multiplier << more, shift + more
    requant = RequantAttr(
        common, multiplier=factor, rounding=Rounding.DOUBLE_ROUND, low=-(2**31), high=2**31 - 1
    )
    requant.verify()
    found = requantize(np.array([value]), requant, UniformType(1.0, storage=i32))
    assert found.tolist() == [min(max(rounded_twice(value, factor, common), -(2**31)), 2**31 - 1)]


def test_two_roundings_differ_from_one():
    """-0.5 - 2^-31 is rounded to -0.5 and then away from zero; 0.49...9 is rounded to 0.5."""
    requant = RequantAttr(32, multiplier=(1 << 31) - 1, rounding=Rounding.DOUBLE_ROUND)
    assert requantize(np.array([1, -1]), requant, UniformType(1.0)).tolist() == [1, -1]


def test_quantize_rounds_to_even_and_saturates():
    inputs = [0.25, 0.75, -0.25, -0.75, 1e30, -1e30, np.inf, -np.inf, np.nan]
    stored = quantize(np.array(inputs, np.float32), UniformType(0.5))
    assert stored.tolist() == [0, 2, 0, -2, 127, -128, 127, -128, 0]
    assert stored.dtype == np.int8


def test_zero_points_shift_both_ways():
    element = UniformType(0.5, 10)
    stored = quantize(np.array([0.0, 1.0, np.nan, 100.0], np.float32), element)
    assert stored.tolist() == [10, 12, 10, 127]
    assert dequantize(stored, element).tolist() == [0.0, 1.0, 0.0, 58.5]


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize(
    ("scales", "points", "axis"), [(0.25, 0, None), (0.013, -77, None), ((0.1, 3.0), (1, -5), 1)]
)
def test_rounding_without_conversion_to_integers(
    bits: int, scales: float | tuple[float, ...], points: int | tuple[int, ...], axis: int | None
):
    element = UniformType(scales, points, storage=IntegerType(bits), axis=axis)
    ends = [np.nan, np.inf, -np.inf, -0.0, -1e-9, 0.125, 0.375, 1e38]
    x = np.array([*ends, *np.random.default_rng(0).normal(0, 99, 1000)], np.float32)
    rows = np.repeat(x, 2).reshape(-1, 2)
    with np.errstate(over="ignore"):
        expected = dequantize(quantize(rows, element), element)
        assert rounded_to(rows, element).tobytes() == expected.tobytes()
        assert np.shape(rounded_to(np.array(1.5, np.float32), UniformType(0.5))) == ()
