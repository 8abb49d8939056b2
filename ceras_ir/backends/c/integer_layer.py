"""
Analyze a quantized layer, name the operands in C, and derive the epilogue of register tiles.

In the epilogue, a tile converts the sums in vectors: add the residual times a factor, multiply, add
a constant, shift (per-channel or per-tensor), and clamp. The bias includes all constant terms.
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
    int_literal,
    less,
    quantized,
    rescaling,
    value_type,
    zero_point_of,
)
from ceras_ir.dialects.graph import Conv2dOp, LinearOperation, element_of
from ceras_ir.dialects.quant import BYTE_BITS, RequantAttr, Rounding, UniformType


@dataclass(frozen=True)
class Epilogue:
    """
    The output stage of an integer layer in vectors. It computes `(sum * multiplier + after) >>
    shift`, then clamps to `low` and `high`.
    """

    extra: NDArray[np.int64]
    """The constant that is added to the bias: an element for each output, or a single element."""
    scale_bits: int
    """The width of products with multipliers, 32 or 64; 0 without multipliers."""
    after: int
    """The constant that is added to the product before the shift."""
    residual_bits: int
    bits: int
    """The bits of the result: 8 or 16."""
    shift: int
    low: int
    high: int
    lowest: int
    """The lowest value of the stored type."""
    shifts: tuple[int, ...] = ()
    """Per-channel shifts, which replace `shift` and multipliers that are powers of two."""
    is_even: bool = False
    """
    Whether ties are rounded to even: before the shift, the lowest bit of `sum >> shift` is added to
    the sum, which is half a unit less 1 above the exact sum.
    """

    @property
    def has_low(self) -> bool:
        """
        Whether the clamp has a lower bound: `low` is above the lowest value of the stored type.
        """
        return self.low > self.lowest

    @property
    def has_high(self) -> bool:
        return self.high < self.lowest + (1 << self.bits) - 1

    @classmethod
    def of(
        cls, op: LinearOperation, sums: Sums, rescale: Rescaling, *, even: bool = False
    ) -> "Epilogue | None":
        """
        Return the output stage of `op`, or `None` if vectors cannot compute it: the rounding is not
        the addition of a constant, a product with the multiplier is too large, the result has more
        than 16 bits, or the residual is not int8 or int16. With `even`, the vectors also round half
        to even, without multipliers.
        """
        requant = op.requant
        assert requant is not None
        if requant.is_normalized:
            return None
        shift, half = requant.shift.data, 0 if sums.half_folded else half_of(requant)
        is_scaled = requant.is_per_channel or requant.multiplier.data != 1
        is_even = half > 0 and requant.mode is Rounding.HALF_EVEN and has_ties(sums, requant)
        if not is_scaled and ((half and not is_even) or rescale.type != "int32_t"):
            return None
        if half and requant.mode is not Rounding.HALF_UP and has_ties(sums, requant):
            # The parity of the shifted sum is that of the result without zero point.
            shifts = _right_shifts(requant)
            if not (even and is_even and shifts and min(shifts) > 0):
                return None
            if requant.zero_point.data % 2:
                return None
        result = element_of(op.result)
        assert isinstance(result, UniformType)
        stored = max(result.width, BYTE_BITS)
        lowest = result.widened(stored).low
        if stored > 16:
            return None
        has_half = half > 0
        half -= is_even
        extra, bits = np.zeros(1, np.int64), 8
        after = half + (requant.zero_point.data << shift)
        if op.residual is not None:
            bits = {"int8_t": 8, "int16_t": 16}.get(value_type(op.residual), 0)
            if bits == 0:
                return None
            point = zero_point_of(quantized(op.residual, "residual"))
            extra = -np.left_shift(point, np.array(op.residual_shifts, np.int64))
        low, high = requant.low.data, requant.high.data
        if is_scaled and (shifts := _right_shifts(requant)):
            # The constant is a multiple of the power of two, or below the last bit of the product.
            right = np.array(shifts, np.int64)
            halves = (np.left_shift(1, right) >> 1) - is_even if has_half else 0
            moved = extra + halves + np.left_shift(requant.zero_point.data, right)
            if sums.has_room(int(np.abs(moved).max())):
                common, each = (shifts[0], ()) if len(shifts) == 1 else (0, shifts)
                return cls(moved, 0, 0, bits, stored, common, low, high, lowest, each, is_even)
        scale_bits = 0
        if is_scaled and is_even:
            return None
        if is_scaled:
            largest = sums.products_bound(requant) + abs(after) + 1
            scale_bits = 32 if largest < LIMIT and shift < 32 else 64
            if largest >> shift >= LIMIT or largest >= 1 << 62:
                return None
        else:
            extra, after = extra + after, 0
        if not sums.has_room(int(np.abs(extra).max())):
            return None
        return cls(
            extra, scale_bits, after, bits, stored, shift, low, high, lowest, is_even=is_even
        )

    @classmethod
    def to_bytes(cls, op: LinearOperation, sums: Sums, rescale: Rescaling) -> "Epilogue | None":
        """
        Return the output stage of a layer if it is only a shift and a clamp to 8 bits, otherwise
        `None`.
        """
        found = None if op.residual is not None else cls.of(op, sums, rescale)
        return None if found is None or found.scale_bits or found.bits != 8 else found


def has_ties(sums: Sums, requant: RequantAttr) -> bool:
    """
    Return whether a sum times its multiplier can be a tie (exactly halfway between two results).
    Only then do the rounding modes to nearest differ.
    """
    # A tie needs a sum that is a multiple of a power of two beyond the zeros of the multiplier.
    zeros = np.array([(m & -m).bit_length() - 1 for m in requant.multipliers])
    bits = requant.shift.data - 1 - zeros
    return bool((bits < 0).any() or (sums.bounds >= np.left_shift(1, bits.clip(0))).any())


def _right_shifts(requant: RequantAttr) -> tuple[int, ...]:
    """
    Return the right shift of each channel if all multipliers are powers of two, so that shifts in
    [0, 31] replace them; otherwise `()`.
    """
    if any(m & (m - 1) for m in requant.multipliers):
        return ()
    shifts = requant.net_shifts
    return shifts if min(shifts) >= 0 and max(shifts) < 32 else ()


def residual_factors(layer: Layer, op: LinearOperation, count: int) -> str:
    """
    Add an array with the power of two by which the residual of each output is multiplied, padded
    with zeros to `count` entries. Return its C name, or "" if all outputs have the same factor.
    """
    shifts = op.residual_shifts
    if len(shifts) == 1:
        return ""
    factors = padded([1 << shift for shift in shifts], count)
    return layer.integers("residual_factors", factors)


def residual_factor(factors: str, op: LinearOperation, channel: str) -> str:
    """
    Return the C text ` * N` for the factor of the residual of the output with the C index
    `channel`, or "" if it is 1. `factors` is the name from `residual_factors`.
    """
    if factors:
        return f" * {factors}[{channel}]"
    shift = op.residual_shifts[0]
    return f" * {1 << shift}" if shift else ""


def padded(numbers: Sequence[int] | NDArray[np.int32], count: int) -> NDArray[np.int32]:
    """Return the numbers, with zeros appended up to `count` entries."""
    result = np.zeros(count, np.int32)
    result[: len(numbers)] = numbers
    return result


@dataclass(frozen=True)
class IntegerLayer:
    """A quantized convolution or matrix product to print, with the C names of its arrays."""

    layer: Layer
    op: LinearOperation
    geometry: Geometry
    sums: Sums
    rescale: Rescaling
    x: str
    y: str
    residual: str
    """
    The C name of the pointer to the residual. This and the next two names are "" if there is no
    such array.
    """
    multipliers: str
    factors: str
    terms: Sequence[str]
    """The C expressions that are added to the sum and the bias: the residual, if any."""
    bias: str = ""
    """The C name of the constant bias, after the printer has added it."""

    @classmethod
    def of(
        cls, layer: Layer, op: LinearOperation, geometry: Geometry, sums: Sums, count: int
    ) -> "IntegerLayer":
        """
        Add the parameters and constants of `op` to `layer`, except weights and bias, and return
        their C names. Arrays with an entry for each output are padded with zeros to `count`
        entries.
        """
        requant = op.requant
        assert requant is not None
        scales = shifts = ""
        if requant.is_per_channel:
            multipliers, distances = requant.factors
            scales = layer.integers("multipliers", padded(multipliers, count))
            if len(set(distances)) > 1:
                shifts = layer.integers("shifts", padded(distances, count))
        rescale = rescaling(
            requant,
            sums.bound,
            value_type(op.result),
            half_folded=sums.half_folded,
            multiplier=f"{scales}[{_channel(geometry, sums)}]" if scales else None,
            shift_text=f"{shifts}[{_channel(geometry, sums)}]" if shifts else None,
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
            factors = residual_factors(layer, op, count)
            factor = residual_factor(factors, op, _channel(geometry, sums))
            cast = "(int64_t)" if rescale.type == "int64_t" and factor else ""
            terms.append(f"{cast}{term}{factor}")
        return cls(layer, op, geometry, sums, rescale, x, y, residual, scales, factors, terms)

    @property
    def window(self) -> Conv2dOp:
        """The operation `op` as a convolution; an assertion fails for a matrix product."""
        assert isinstance(self.op, Conv2dOp)
        return self.op

    def multiplier_array(self, count: int, condition: str) -> str:
        """
        Return the C name of an array with the requantization multiplier of each of `count` outputs.
        If all multipliers are equal, the array is added under the preprocessor `condition`.
        """
        requant = self.op.requant
        assert requant is not None
        if self.multipliers:
            return self.multipliers
        data = np.full(count, requant.multiplier.data, np.int32)
        return self.layer.constant("multipliers", "int32_t", count, 4, lambda: data, condition)

    def shift_array(self, e: Epilogue, count: int, condition: str) -> str:
        """
        Return the C name of an array with the right shift of each of `count` outputs, which is
        added under the preprocessor `condition`.
        """
        data = padded(e.shifts, count)
        return self.layer.constant("shifts", "int32_t", count, 4, lambda: data, condition)

    def output_arguments(
        self, e: Epilogue, at: str, first: str, multipliers: str, shifts: str
    ) -> str:
        """
        Return the arguments of a C function with the output stage `e`, from the pointer to the
        results on. `at` and `first` are C expressions: the index of the first result, and the
        number of the first output ("" is 0). `multipliers` and `shifts` are the C names of arrays,
        if the output stage has them.
        """

        def of_outputs(array: str) -> str:
            return f"{array} + {first}" if first else array

        arguments = [f"{self.y} + {at}"]
        if self.residual:
            factor = of_outputs(self.factors) if self.factors else self.op.residual_shifts[0]
            arguments += [f"{self.residual} + {at}", str(factor)]
        if e.scale_bits:
            arguments += [of_outputs(multipliers), int_literal(e.after)]
        arguments.append(of_outputs(shifts) if e.shifts else str(e.shift))
        bounds = (e.low, e.has_low), (e.high, e.has_high)
        return ", ".join([*arguments, *(str(n) for n, is_used in bounds if is_used)])

    def epilogue(self, *values: str) -> list[str]:
        """
        Return C statements that add the C expressions `values` and the residual, requantize the sum
        and store it at index `at + o` of the result. The C variable `at` is the index of the first
        channel of a position, and `o` is the output channel.
        """
        return self.rescale.lines([*values, *self.terms], f"{self.y}[at + o]")

    def epilogue_at(self, value: str, distance: int) -> list[str]:
        """
        Return the C statements of `epilogue` for the sum `value`. The result is stored `distance`
        elements after the C variable `corner`, the index of the first output of a group.
        """
        lines = self.epilogue(value)
        return [f"{{ const int32_t at = corner + {distance};", *(f"  {t}" for t in lines), "}"]


def _channel(geometry: Geometry, sums: Sums) -> str:
    in_columns = geometry.is_depthwise and sums.weight_type != "int32_t"
    grouped = geometry.groups > 1 and not in_columns
    return f"g * {geometry.n} + o" if grouped else "o"
