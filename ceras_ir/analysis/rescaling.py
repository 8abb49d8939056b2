"""
Requantizations between powers of two, and the clamp range that stands for an activation.

Pure arithmetic on exponents: a number stored as q at exponent e is `q * 2**e`.
"""

from math import floor, ldexp

from ceras_ir.dialects.graph import FunctionAttr
from ceras_ir.dialects.quant import RequantAttr

LOW, HIGH = -128, 127
MAX_RIGHT, MAX_LEFT = 31, 30
"""Longest shifts. Further ones would give the same: always zero, or always saturated."""


def clamp_range(activation: FunctionAttr | None, exponent: int) -> tuple[int, int]:
    """
    What stored results an activation that clips leaves: its bounds, rounded half up.

    Exact but for that rounding, because clamping commutes with rounding to integers.
    """
    bounds = None if activation is None else activation.clip_range
    if bounds is None:
        assert activation is None, "functions that do not clip are tables"
        return LOW, HIGH
    low, high = (_stored(bound, exponent) for bound in bounds)
    return low, high


def _stored(bound: float, exponent: int) -> int:
    # Compared before it is scaled: an infinite or huge bound does not become an integer.
    if bound >= ldexp(HIGH, exponent):
        return HIGH
    if bound <= ldexp(LOW, exponent):
        return LOW
    return floor(ldexp(bound, -exponent) + 0.5)


def rescaling(source: int, target: int, clamp: tuple[int, int] = (LOW, HIGH)) -> RequantAttr:
    """
    From integers at exponent `source` to int8 at exponent `target`, rounding half up.

    Right shifts beyond 31 are not reached by accumulators that `align-scales` admits; the
    integers of other operations stay below 2^30, of which a shift of 31 leaves nothing either.
    """
    exponent = max(min(source - target, MAX_LEFT), -MAX_RIGHT)
    return RequantAttr.power_of_two(exponent, low=clamp[0], high=clamp[1])
