"""
Requantizations between powers of two, and the clamp range that stands for an activation.

Pure arithmetic on exponents: a number stored as q at exponent e is `q * 2**e`.
"""

from collections.abc import Sequence
from math import floor, ldexp

from ceras_ir.dialects.graph import FunctionAttr
from ceras_ir.dialects.quant import RequantAttr, Rounding
from ceras_ir.network.precision import NARROW, limits
from ceras_ir.network.storage import Storage

MAX_RIGHT, MAX_LEFT = 31, 30
"""Longest shifts. Further ones would give the same: always zero, or always saturated."""


def clamp_range(activation: FunctionAttr | None, storage: Storage) -> tuple[int, int]:
    """
    What results stored like that an activation that clips leaves: its bounds, rounded half up.

    Exact but for that rounding, because clamping commutes with rounding to integers.
    """
    bounds = None if activation is None else activation.clip_range
    if bounds is None:
        assert activation is None, "functions that do not clip are tables"
        return limits(storage.bits)
    low, high = (_stored(bound, storage) for bound in bounds)
    return low, high


def _stored(bound: float, storage: Storage) -> int:
    # Compared before it is scaled: an infinite or huge bound does not become an integer.
    exponent, bits, zero_point = storage
    low, high = limits(bits)
    if bound >= ldexp(high - zero_point, exponent):
        return high
    if bound <= ldexp(low - zero_point, exponent):
        return low
    return floor(ldexp(bound, -exponent) + 0.5) + zero_point


def rounding_of(*zero_points: int) -> Rounding:
    """
    How what adds nothing to numbers, and sums of few, are rounded: half up, as shifters do; to
    even where a zero point, which those do not have either, takes part, as ONNX rounds.
    """
    return Rounding.HALF_EVEN if any(zero_points) else Rounding.HALF_UP


def rescaling_to(
    target: Storage,
    accumulator: int,
    points: Sequence[int],
    activation: FunctionAttr | None = None,
) -> RequantAttr:
    """
    From integers at exponent `accumulator`, made of values with these zero points by anything
    but sums of many products, to ones stored as `target`.
    """
    return rescaling(
        accumulator,
        target.exponent,
        clamp_range(activation, target),
        zero_point=target.zero_point,
        rounding=rounding_of(*points, target.zero_point),
    )


def rescaling(
    source: int,
    target: int,
    clamp: tuple[int, int] = limits(NARROW),
    rows: Sequence[int] = (),
    zero_point: int = 0,
    rounding: Rounding = Rounding.HALF_UP,
) -> RequantAttr:
    """
    From integers at exponent `source` to stored ones at exponent `target` and `zero_point`.

    Right shifts beyond 31 are not reached by accumulators that `align-scales` admits; the
    integers of other operations stay below 2^30, of which a shift of 31 leaves nothing either.
    With `rows`, what to add to `source` for each output channel, channels have multipliers, which
    are powers of two.
    """
    if rows:
        exponents = [max(min(source + row - target, MAX_LEFT), -MAX_RIGHT) for row in rows]
        shift = max(0, -min(exponents))
        multipliers = [1 << exponent + shift for exponent in exponents]
        multiplier: int | list[int] = multipliers
    else:
        exponent = max(min(source - target, MAX_LEFT), -MAX_RIGHT)
        shift, multiplier = max(0, -exponent), 1 << max(0, exponent)
    return RequantAttr(
        shift,
        multiplier=multiplier,
        rounding=rounding,
        zero_point=zero_point,
        low=clamp[0],
        high=clamp[1],
    )
