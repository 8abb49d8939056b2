"""Rescale integers as TOSA defines it: multiplied, shifted right with rounding, and clamped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, element_of
from ceras_ir.dialects.quant import RequantAttr, Rounding
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.values import Value


@dataclass(frozen=True)
class Rescaling:
    """
    The rescaling of integers: `clamp(round((x - input_zp) * multiplier / 2^shift) + output_zp)`.
    Several multipliers and shifts belong to the channels of the last dimension. `low` and `high`
    are the range of the type of the result.
    """

    multipliers: tuple[int, ...]
    shifts: tuple[int, ...]
    rounds_twice: bool
    input_zp: int
    output_zp: int
    low: int
    high: int

    def requant(self) -> RequantAttr | None:
        """
        Return the same computation as a requantization of `graph`, or `None` if that cannot
        represent it.
        """
        pairs = list(zip(self.multipliers, self.shifts, strict=True))
        rounding = Rounding.DOUBLE_ROUND if self.rounds_twice else Rounding.HALF_UP
        common = max(s for m, s in pairs if m) if any(self.multipliers) else RequantAttr.MAX_SHIFT
        if not all(self.multipliers):
            # A factor of 0 gives 0 for each sum of 32 bits if the shift is the largest.
            common = RequantAttr.MAX_SHIFT
        found: list[int] = []
        for multiplier, shift in pairs:
            left = common - shift if multiplier else 0
            # The first of two roundings depends on the multiplier, unless the product is exact.
            is_normal = multiplier >> 30 == 1
            if left and multiplier and self.rounds_twice and not is_normal:
                return None
            found.append((multiplier or 1) << left)
        if max(found) >= 1 << 62:
            return None
        return RequantAttr(
            common,
            multiplier=found if len(set(found)) > 1 else found[0],
            rounding=rounding,
            zero_point=self.output_zp,
            low=self.low,
            high=self.high,
        )

    @property
    def left_shift(self) -> int | None:
        """The left shift that has the same result if the zero points are 0, or `None`."""
        if self.multipliers != (1 << 30,) or self.shifts[0] > 30 or self.output_zp:
            return None
        return 30 - self.shifts[0]

    def emitted(self, emitter: Emitter, x: Value) -> SSAValue:
        """Emit the rescaling of plain integers as separate operations on i64."""
        wide = emitter.cast(x, i64)
        if self.input_zp:
            wide = emitter.sub(wide, emitter.number(self.input_zp, wide))
        shifts = np.array(self.shifts, np.int64)
        single = len(set(zip(self.multipliers, self.shifts, strict=True))) == 1

        def each(array: NDArray[np.int64], suffix: str) -> Value:
            return emitter.constant(array[:1] if single else array, suffix)

        multiplier = each(np.array(self.multipliers, np.int64), "multiplier")
        total = emitter.mul(wide, multiplier)
        total = emitter.add(total, each(np.int64(1) << shifts - 1, "round"))
        if self.rounds_twice and max(self.shifts) > 31:
            first = np.where(shifts > 31, np.int64(1) << 30, np.int64(0))
            below = emitter.compare(graph.Compare.LESS, wide, emitter.number(0, wide))
            sides = each(-first, "below"), each(first, "above")
            total = emitter.add(total, emitter.select(below, *sides))
        quotient = floor_quotient(emitter, total, each(np.int64(1) << shifts, "divisor"))
        if self.output_zp:
            quotient = emitter.add(quotient, emitter.number(self.output_zp, quotient))
        return emitter.bounded(quotient, self.low, self.high)


def floor_quotient(emitter: Emitter, x: Value, divisor: Value) -> SSAValue:
    """Return `x / divisor` of integers, rounded down. The divisor must be positive."""
    quotient = emitter.binary(Binary.DIV, x, divisor)
    rest = emitter.sub(x, emitter.mul(quotient, divisor))
    is_negative = emitter.compare(graph.Compare.LESS, rest, emitter.number(0, rest))
    return emitter.sub(quotient, emitter.cast(is_negative, element_of(quotient)))
