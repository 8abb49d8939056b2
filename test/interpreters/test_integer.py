"""Compare rounding, shifts and clamps with Python integers, on ties and extremes."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.network.integer import dequantize, quantize, requantize

CORNERS = [-(2**31), -1025, -1024, -1023, -3, -2, -1, 0, 1, 2, 3, 511, 512, 513, 2**31 - 1]


def rounded(value: Fraction, mode: Rounding) -> int:
    """Round by definition, in exact rational arithmetic."""
    low = floor(value)
    rest = value - low
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


@pytest.mark.parametrize("mode", list(Rounding))
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
    st.sampled_from(Rounding),
)
def test_requantize_anywhere(value: int, multiplier: int, shift: int, mode: Rounding):
    requant = RequantAttr(shift, multiplier=multiplier, rounding=mode)
    expected = min(max(rounded(Fraction(value * multiplier, 1 << shift), mode), -128), 127)
    assert requantize(np.array([value]), requant, UniformType(1.0)).tolist() == [expected]


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
