"""
What the printers of quantized sums of products work with: a layer that is analysed and named, and
the epilogue of its tiles.

In the epilogue a tile changes its sums in vectors: a residual with its factor, a multiplier of
every output, one addition, a shift, which each output may have of its own, and a clamp. The bias
includes everything that is constant.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.sums import LIMIT, Geometry, Sums
from ceras_ir.backends.c.values import (
    Rescaling,
    half_of,
    less,
    quantized,
    rescaling,
    value_type,
    zero_point_of,
)
from ceras_ir.dialects.graph import Conv2dOp, LinearOperation, element_of
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType


@dataclass(frozen=True)
class Epilogue:
    """`(sum * multiplier + after) >> shift`, between two bounds; `extra` is in the bias."""

    extra: NDArray[np.int64]
    """For each output, or one number for all."""
    scale_bits: int
    """Of products with multipliers: 32 or 64; 0 where there are none."""
    after: int
    """What is added to the products."""
    residual_bits: int
    bits: int
    """Of the result: 8 or 16."""
    shift: int
    low: int
    high: int
    least: int
    """Of the stored type."""
    shifts: tuple[int, ...] = ()
    """One for each output, in place of `shift` and of multipliers that are powers of two."""

    @property
    def has_low(self) -> bool:
        """Whether there is a lower bound beside that of the stored type."""
        return self.low > self.least

    @property
    def has_high(self) -> bool:
        return self.high < self.least + (1 << self.bits) - 1

    @classmethod
    def of(cls, op: LinearOperation, sums: Sums, rescale: Rescaling) -> "Epilogue | None":
        """None where more is to be done: other roundings, one multiplier for all outputs."""
        requant = op.requant
        assert requant is not None
        shift, half = requant.shift.data, 0 if sums.half_folded else half_of(requant)
        is_scaled = requant.is_per_channel
        if not is_scaled and (rescale.type != "int32_t" or requant.multiplier.data != 1):
            return None
        if half and (not is_scaled or requant.mode is not Rounding.HALF_UP):
            return None
        result = element_of(op.result)
        assert isinstance(result, UniformType)
        stored, least = result.storage.width.data, result.low
        if stored > 16:
            return None
        extra, after, bits = np.zeros(1, np.int64), half + (requant.zero_point.data << shift), 8
        if op.residual is not None:
            bits = {"int8_t": 8, "int16_t": 16}.get(value_type(op.residual), 0)
            if bits == 0:
                return None
            point = zero_point_of(quantized(op.residual, "residual"))
            extra = -np.left_shift(point, np.array(op.residual_shifts, np.int64))
        low, high = requant.low.data, requant.high.data
        if is_scaled and (shifts := _right_shifts(requant)):
            # What is added to a product is a multiple of its power of two, or below its last bit.
            right = np.array(shifts, np.int64)
            halves = np.left_shift(1, right) >> 1 if half else 0
            moved = extra + halves + np.left_shift(requant.zero_point.data, right)
            if sums.has_room(int(np.abs(moved).max())):
                return cls(moved, 0, 0, bits, stored, 0, low, high, least, shifts)
        scale_bits = 0
        if is_scaled:
            largest = sums.products_bound(requant) + abs(after) + 1
            scale_bits = 32 if largest < LIMIT and shift < 32 else 64
            if shift > 32 or largest >> shift >= LIMIT or largest >= 1 << 62:
                return None
        else:
            extra, after = extra + after, 0
        if not sums.has_room(int(np.abs(extra).max())):
            return None
        return cls(extra, scale_bits, after, bits, stored, shift, low, high, least)

    @classmethod
    def to_bytes(cls, op: LinearOperation, sums: Sums, rescale: Rescaling) -> "Epilogue | None":
        """That of sums that a shift and a clamp make bytes; None where more is to be done."""
        found = None if op.residual is not None else cls.of(op, sums, rescale)
        return None if found is None or found.scale_bits or found.bits != 8 else found


def _right_shifts(requant: RequantAttr) -> tuple[int, ...]:
    """By how many bits sums of every output go right; none where they are truly multiplied."""
    if any(m & (m - 1) for m in requant.multipliers):
        return ()
    shifts = requant.net_shifts
    return shifts if min(shifts) >= 0 and max(shifts) < 32 else ()


def residual_factors(layer: Layer, op: LinearOperation, count: int) -> str:
    """
    The array by which residuals of every output are multiplied, with zeros up to `count`; empty
    where one number serves.
    """
    shifts = op.residual_shifts
    if len(shifts) == 1:
        return ""
    factors = padded([1 << shift for shift in shifts], count)
    return layer.array("residual_factors", factors, "int32_t")


def residual_factor(factors: str, op: LinearOperation, channel: str) -> str:
    """` * N`, by which a residual of output `channel` is multiplied; nothing for 1."""
    if factors:
        return f" * {factors}[{channel}]"
    shift = op.residual_shifts[0]
    return f" * {1 << shift}" if shift else ""


def multipliers(op: LinearOperation, count: int) -> NDArray[np.int32]:
    """Those of every output, and zeros up to `count`."""
    assert op.requant is not None
    return padded(op.requant.multipliers, count)


def padded(numbers: Sequence[int] | NDArray[np.int32], count: int) -> NDArray[np.int32]:
    """Numbers, and zeros up to `count`."""
    result = np.zeros(count, np.int32)
    result[: len(numbers)] = numbers
    return result


@dataclass(frozen=True)
class IntegerLayer:
    """A quantized convolution or matrix product; names are those of its pointers."""

    layer: Layer
    op: LinearOperation
    geometry: Geometry
    sums: Sums
    rescale: Rescaling
    x: str
    y: str
    residual: str
    """Empty where there is none, as the next three."""
    multipliers: str
    """Of every output."""
    factors: str
    """Of the residuals of every output."""
    terms: Sequence[str]
    """What is added to a sum beside its bias: the residual."""
    bias: str = ""
    """The constant, once its printer has made it."""

    @classmethod
    def of(
        cls, layer: Layer, op: LinearOperation, geometry: Geometry, sums: Sums, padded: int
    ) -> "IntegerLayer":
        """Name the operands; arrays of every output have zeros up to `padded`."""
        requant = op.requant
        assert requant is not None
        scales = ""
        if requant.is_per_channel:
            scales = layer.array("multipliers", multipliers(op, padded), "int32_t")
        rescale = rescaling(
            requant,
            sums.bound,
            value_type(op.result),
            half_folded=sums.half_folded,
            multiplier=f"{scales}[{_channel(geometry, sums)}]" if scales else None,
            scaled_bound=sums.products_bound(requant),
        )
        x, y = layer.read(op.input, "x"), layer.write(op.result)
        terms: list[str] = []
        residual, factors = "", ""
        if op.residual is not None:
            residual = layer.read(op.residual, "residual")
            point = zero_point_of(quantized(op.residual, "residual"))
            term = less(f"{residual}[at + o]", point)
            term = f"({term})" if point else term
            factors = residual_factors(layer, op, padded)
            factor = residual_factor(factors, op, _channel(geometry, sums))
            cast = "(int64_t)" if rescale.type == "int64_t" and factor else ""
            terms.append(f"{cast}{term}{factor}")
        return cls(layer, op, geometry, sums, rescale, x, y, residual, scales, factors, terms)

    @property
    def window(self) -> Conv2dOp:
        """The operation, where it is known to be a convolution."""
        assert isinstance(self.op, Conv2dOp)
        return self.op

    def epilogue(self, *values: str) -> list[str]:
        """Statements that make of a sum of values the output `o` of the position at `at`."""
        return self.rescale.lines([*values, *self.terms], f"{self.y}[at + o]")

    def epilogue_at(self, value: str, distance: int) -> list[str]:
        """The same for one of a group's outputs, so far from its corner."""
        lines = self.epilogue(value)
        return [f"{{ const int32_t at = corner + {distance};", *(f"  {t}" for t in lines), "}"]


def _channel(geometry: Geometry, sums: Sums) -> str:
    """Which of all output channels `o` is."""
    in_columns = geometry.depthwise and sums.weight_type != "int32_t"
    grouped = geometry.groups > 1 and not in_columns
    return f"g * {geometry.n} + o" if grouped else "o"
