"""Compare multipliers and shifts with exact fractions, and rescaling with integers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.quant import SINGLE_ROUNDINGS, RequantAttr, Rounding, UniformType
from ceras_ir.network.integer import requantize
from ceras_ir.transforms.quantization.analysis.rescaling import (
    MAX_SHIFT,
    fixed_point,
    rescaling_by,
)

factors = st.floats(2.0**-30, 2.0**20, allow_nan=False)


@given(st.lists(factors, min_size=1, max_size=8))
def test_within_half_a_unit_of_the_shift(values: list[float]):
    multipliers, shift = fixed_point(values)
    assert 0 <= shift <= MAX_SHIFT and max(multipliers) < 1 << 31
    for value, multiplier in zip(values, multipliers, strict=True):
        error = abs(Fraction(multiplier, 1 << shift) - Fraction(value))
        # A factor that rounds to zero has the multiplier 1.
        assert error <= Fraction(1, 1 << shift) * (1 if multiplier == 1 else Fraction(1, 2))


@pytest.mark.parametrize("exponent", range(-40, 30))
def test_powers_of_two_are_shifts(exponent: int):
    (multiplier,), shift = fixed_point([2.0**exponent])
    assert Fraction(multiplier, 1 << shift) == Fraction(2) ** exponent
    assert multiplier == 1 or shift == 0


def test_factors_out_of_range():
    assert fixed_point([2.0**40]) == ((2**31 - 1,), 0)
    assert fixed_point([1.0, 1e-30]) == ((1 << 30, 1), 30)
    assert fixed_point([1 - 2.0**-40]) == ((1,), 0)
    assert fixed_point([1e-12]) == ((141,), MAX_SHIFT)


def by_hand(acc: int, multiplier: int, requant: RequantAttr) -> int:
    """Requantize by definition, with Python's integers and fractions."""
    exact = Fraction(acc * multiplier, 1 << requant.shift.data)
    floor = exact.numerator // exact.denominator
    rest = exact - floor
    tie = rest == Fraction(1, 2)
    match requant.mode:
        case Rounding.HALF_UP:
            up = rest >= Fraction(1, 2)
        case Rounding.HALF_EVEN:
            up = rest > Fraction(1, 2) or (tie and floor % 2 == 1)
        case Rounding.HALF_AWAY:
            up = rest > Fraction(1, 2) or (tie and exact > 0)
        case Rounding.FLOOR:
            up = False
        case Rounding.DOUBLE_ROUND:
            raise AssertionError("two roundings")
    value = floor + up + requant.zero_point.data
    return min(max(value, requant.low.data), requant.high.data)


EXTREMES = [0, 1, -1, 3, -3, 5, -5, 255, -256, 2**20 + 1, 2**31 - 1, -(2**31)]


@pytest.mark.parametrize("rounding", SINGLE_ROUNDINGS)
@pytest.mark.parametrize("shift", [0, 1, 2, 31, 47, 62])
def test_channels_have_their_own_multiplier(rounding: Rounding, shift: int):
    multipliers = [1, 3, 2**31 - 1, 2**30, 1789569707]
    requant = RequantAttr(
        shift, multiplier=multipliers, rounding=rounding, zero_point=-7, low=-120, high=127
    )
    requant.verify()
    sums = np.repeat(np.array(EXTREMES, np.int64)[:, None], len(multipliers), 1)
    stored = requantize(sums, requant, UniformType(0.5, -7))
    for row, acc in zip(stored.tolist(), EXTREMES, strict=True):
        assert row == [by_hand(acc, m, requant) for m in multipliers], acc


@given(st.integers(-(2**31), 2**31 - 1), factors, st.integers(-128, 127))
def test_rescaling_is_the_documented_rounding(acc: int, factor: float, point: int):
    requant = rescaling_by([factor], point, (-128, 127))
    (stored,) = requantize(np.array([acc]), requant, UniformType(0.5, point)).tolist()
    assert stored == by_hand(acc, requant.multiplier.data, requant)
    exact = min(max(Fraction(acc) * Fraction(factor) + point, -128), 127)
    slack = Fraction(abs(acc), 2 << requant.shift.data)
    assert abs(stored - exact) <= Fraction(1, 2) + slack


def test_a_multiplier_out_of_range_is_refused():
    with pytest.raises(VerifyException, match="multiplier must be in"):
        RequantAttr(3, multiplier=[5, 0])
