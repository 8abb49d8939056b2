"""
Requantizations between powers of two, and the clamp range that stands for an activation.

Pure arithmetic on exponents: a number stored as q at exponent e is `q * 2**e`.
"""

from collections.abc import Sequence
from math import floor, ldexp

from ceras_ir.analysis.precision import NARROW, limits
from ceras_ir.dialects.graph import FunctionAttr
from ceras_ir.dialects.quant import RequantAttr

MAX_RIGHT, MAX_LEFT = 31, 30
"""Longest shifts. Further ones would give the same: always zero, or always saturated."""


def clamp_range(
    activation: FunctionAttr | None, exponent: int, bits: int = NARROW
) -> tuple[int, int]:
    """
    What stored results of so many bits an activation that clips leaves: its bounds, rounded half
    up.

    Exact but for that rounding, because clamping commutes with rounding to integers.
    """
    bounds = None if activation is None else activation.clip_range
    if bounds is None:
        assert activation is None, "functions that do not clip are tables"
        return limits(bits)
    low, high = (_stored(bound, exponent, limits(bits)) for bound in bounds)
    return low, high


def _stored(bound: float, exponent: int, held: tuple[int, int]) -> int:
    # Compared before it is scaled: an infinite or huge bound does not become an integer.
    low, high = held
    if bound >= ldexp(high, exponent):
        return high
    if bound <= ldexp(low, exponent):
        return low
    return floor(ldexp(bound, -exponent) + 0.5)


def rescaling(
    source: int,
    target: int,
    clamp: tuple[int, int] = limits(NARROW),
    rows: Sequence[int] = (),
) -> RequantAttr:
    """
    From integers at exponent `source` to stored ones at exponent `target`, rounding half up.

    Right shifts beyond 31 are not reached by accumulators that `align-scales` admits; the
    integers of other operations stay below 2^30, of which a shift of 31 leaves nothing either.
    With `rows`, what to add to `source` for each output channel, channels have multipliers, which
    are powers of two.
    """
    if rows:
        exponents = [max(min(source + row - target, MAX_LEFT), -MAX_RIGHT) for row in rows]
        shift = max(0, -min(exponents))
        multipliers = [1 << exponent + shift for exponent in exponents]
        return RequantAttr(shift, multiplier=multipliers, low=clamp[0], high=clamp[1])
    exponent = max(min(source - target, MAX_LEFT), -MAX_RIGHT)
    return RequantAttr.power_of_two(exponent, low=clamp[0], high=clamp[1])
