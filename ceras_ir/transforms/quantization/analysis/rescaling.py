"""
Derive requantizations from real factors, clamp ranges of activations, and the integers of constants
and lookup tables.

A factor is `multiplier / 2**shift`, with a common shift for all channels. The largest multiplier
has 31 bits if the shift allows it, so the error of a factor is at most `2**-(shift + 1)`, or
`2**-31` relative to the largest factor. Then powers of two that all multipliers contain are
removed: 1/4 becomes `1 / 2**2`, and 8 becomes `8 / 2**0`, without error.
"""

from collections.abc import Iterable, Sequence
from math import floor, frexp, ldexp
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    LocationAttr,
    TensorType,
)
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import FunctionAttr
from ceras_ir.dialects.graph.attributes import integers
from ceras_ir.dialects.graph.constant import numpy_dtype
from ceras_ir.dialects.graph.lookup import FUNCTION
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.interpreters.float_functions import apply_function
from ceras_ir.network.integer import dequantize, quantize, scales
from ceras_ir.network.storage import NARROW, Storage, signed_bounds

MULTIPLIER_BITS, MAX_SHIFT = 31, 47
"""The multiplier width that 64-bit products allow, and the longest shift of accelerators."""

MAX_RIGHT, MAX_LEFT = 31, 30
"""The longest useful shifts of values below 2^30. Longer shifts result in zero or saturation."""


def fixed_point(
    factors: Sequence[float], bits: int = MULTIPLIER_BITS, longest: int = MAX_SHIFT
) -> tuple[tuple[int, ...], int]:
    """
    Return an integer multiplier for each positive factor, and a right shift for all of them, with
    `factor = multiplier / 2**shift` approximately. Multipliers have at most `bits` bits, and the
    shift is at most `longest`.
    """
    largest = max(factors)
    # frexp: largest < 2**exponent, so shifted by `bits - exponent` it is below 2**bits.
    shift = min(max(bits - frexp(largest)[1], 0), longest)
    max_factor = (1 << bits) - 1
    if shift and int(ldexp(largest, shift) + 0.5) > max_factor:
        shift -= 1  # Rounding up would exceed the multiplier width.
    # Compare before rounding: a factor of 2**bits and more saturates all values.
    multipliers = [
        max_factor if ldexp(f, shift) >= max_factor else max(int(ldexp(f, shift) + 0.5), 1)
        for f in factors
    ]
    while shift and not any(m & 1 for m in multipliers):
        multipliers, shift = [m >> 1 for m in multipliers], shift - 1
    return tuple(multipliers), shift


def rescaling_by(
    factors: Sequence[float],
    zero_point: int,
    clamp: tuple[int, int],
    rounding: Rounding = Rounding.HALF_UP,
) -> RequantAttr:
    """
    Return a requantization that multiplies by the real `factors`: a factor for each channel, or a
    single factor for all channels. `clamp` are the lowest and the highest stored integer of the
    result.
    """
    multipliers, shift = fixed_point(factors)
    return RequantAttr(
        shift,
        multiplier=multipliers if len(multipliers) > 1 else max(multipliers),
        rounding=rounding,
        zero_point=zero_point,
        low=clamp[0],
        high=clamp[1],
    )


def rescaling(
    factor: float, sources: Sequence[UniformType], target: UniformType, clamp: tuple[int, int]
) -> RequantAttr:
    """
    Return a requantization by the real `factor` of integers below 2^30, for an operation without
    products. `sources` are the types of the operands, and `clamp` the lowest and the highest stored
    integer of the result.

    It rounds half up if shifts are sufficient, as hardware shifters do. Otherwise it rounds half to
    even, because equal scales make ties frequent.
    """
    elements = (*sources, target)
    if has_powers(elements):
        factor = min(max(factor, 2.0**-MAX_RIGHT), 2.0**MAX_LEFT)
    return rescaling_by([factor], target.zero_point, clamp, rounding_of(elements))


def rounding_of(elements: Iterable[UniformType]) -> Rounding:
    """
    Return the rounding of a requantization in an operation without products: half up if shifts are
    sufficient, otherwise half to even. `elements` are the types of the operands and of the result.
    """
    return Rounding.HALF_UP if only_shifts(elements) else Rounding.HALF_EVEN


def has_powers(elements: Iterable[UniformType]) -> bool:
    """Return whether all stored types are signed and all scales are powers of two."""
    return all(element.is_signed and has_power_scales(element) for element in elements)


def has_power_scales(element: UniformType) -> bool:
    return all(frexp(scale.data)[0] == 0.5 for scale in element.scales)


def only_shifts(elements: Iterable[UniformType]) -> bool:
    """
    Return whether requantization between these types needs only shifts: scales are powers of two,
    and there are no zero points. Networks with these types are intended for hardware shifters,
    which round half up.
    """
    return all(
        has_powers((element,)) and not any(point.data for point in element.zero_points)
        for element in elements
    )


def clamp_of(activation: FunctionAttr | None, target: UniformType) -> tuple[int, int] | None:
    """
    Return the lowest and the highest stored integer that `activation` permits in a result of type
    `target`: `(0, 12)` for ReLU6 with a scale of 0.5 and a zero point of 0. Without an activation,
    return the range of the type. Return `None` for a function that does more than clip, such as
    sigmoid.

    Bounds are rounded half up if the scale is a power of two. Results of products are rounded half
    up too, so a clamp before the rounding equals a clamp after it. Otherwise bounds are rounded as
    by `graph.quantize`.
    """
    if activation is None:
        return target.low, target.high
    if activation.clip_range is None:
        return None
    if not has_powers((target,)):
        low, high = quantize(np.array(activation.clip_range, np.float32), target)
        return int(low), int(high)
    low, high = (_half_up(bound, target) for bound in activation.clip_range)
    return low, high


def _half_up(bound: float, target: UniformType) -> int:
    # Compare before scaling: an infinite or huge bound cannot be converted to an integer.
    low, high, point = target.low, target.high, target.zero_point
    if bound >= (high - point) * target.scale:
        return high
    if bound <= (low - point) * target.scale:
        return low
    return floor(bound / target.scale + 0.5) + point


def stored_constant(
    values: NDArray[np.generic],
    storage: Storage,
    location: LocationAttr,
    rows: Sequence[float] | None = None,
) -> graph.ConstantOp:
    """
    Return a constant as integers, rounded half to even. Without a zero point, the range of 8 bits
    or more is symmetric ([-127, 127] for 8 bits). `rows` has the scale for each index of the first
    axis, such as an output channel; by default, all have the scale of `storage`.
    """
    element, (low, high) = storage.element, signed_bounds(storage.bits)
    if rows is not None:
        element = UniformType(rows, storage=element.storage, axis=0)
    scaled = np.rint(values.astype(np.float32) / scales(element, values.ndim))
    lowest = low if storage.zero_point or storage.bits < NARROW else -high
    stored = np.clip(scaled + storage.zero_point, lowest, high).astype(numpy_dtype(element))
    return graph.ConstantOp.from_array(stored, element, location=location)


TableRow: TypeAlias = tuple[int, int, graph.FunctionAttr]
"""A row of a table: integers added to the exponents of operand and result, and the function."""


def lookup_table(
    function: graph.FunctionAttr,
    source: UniformType,
    target: UniformType,
    entries: int = 256,
    rows: Sequence[TableRow] = (),
) -> DenseIntOrFPElementsAttr:
    """
    Return the table of `function` for stored integers: `quantize(function(dequantize(i)))` for i
    from -entries/2 to entries/2 - 1. Bits equal those of `graph.dequantize`, `graph.unary` and
    `graph.quantize`.

    With `rows`, the table has a row for each: its function, with its integers added to exponents
    of the operand and of the result.
    """
    found = [
        _entries(row, source.rescaled(2.0**before), target.rescaled(2.0**after), entries)
        for before, after, row in rows or [(0, 0, function)]
    ]
    table = np.stack(found) if rows else found[0]
    type = TensorType(target.storage, table.shape)
    return DenseIntOrFPElementsAttr(type, BytesAttr(table.tobytes()))


def _entries(
    function: graph.FunctionAttr, source: UniformType, target: UniformType, entries: int
) -> NDArray[np.generic]:
    stored = np.arange(-entries // 2, entries // 2).astype(np.int32)
    # A function may overflow far outside the range of the network; infinity saturates.
    with np.errstate(all="ignore"):
        values = apply_function(function, dequantize(stored, source))
    return quantize(values.astype(np.float32), target).astype(f"int{target.storage.width.data}")


INPUT_EXPONENTS, RESULT_EXPONENTS = "graph.input_exponents", "graph.result_exponents"
"""Attributes of a `graph.lookup` with rows: the channel exponents of `graph.unary`."""


def rows_of_table(
    function: graph.FunctionAttr, exponents: tuple[Sequence[int], Sequence[int]]
) -> list[TableRow]:
    """Return the row of each channel, for exponents of operand and result of each channel."""
    pairs = enumerate(zip(*exponents, strict=True))
    return [(before, after, function.of_channel(c)) for c, (before, after) in pairs]


def table(
    function: graph.FunctionAttr,
    input: SSAValue,
    target: UniformType,
    entries: int,
    exponents: tuple[Sequence[int], Sequence[int]] | None,
) -> graph.LookupOp:
    """
    Return a `graph.lookup` for the stored operand `input`. The table has `entries` results of
    `function`, stored as `target`. If given, `exponents` are the exponents of the factors 2^e of
    operand and result for each channel; channels with equal exponents and slopes share a table.
    """
    source = graph.stored_element(input)
    if exponents is None:
        lookup = graph.LookupOp(input, lookup_table(function, source, target, entries), target)
    else:
        rows = rows_of_table(function, exponents)
        distinct = sorted(set(rows), key=lambda row: (*row[:2], row[2].values))
        tables = lookup_table(function, source, target, entries, distinct)
        lookup = graph.LookupOp(input, tables, target, [distinct.index(row) for row in rows])
        lookup.attributes[INPUT_EXPONENTS] = integers(exponents[0])
        lookup.attributes[RESULT_EXPONENTS] = integers(exponents[1])
    lookup.attributes[FUNCTION] = function
    return lookup


def exponents_of(op: graph.LookupOp) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """
    Return two lists with an entry per channel, which are added to the exponents of the operand and
    of the result of a lookup; `None` if all channels have the same scales.
    """
    found = [op.attributes.get(name) for name in (INPUT_EXPONENTS, RESULT_EXPONENTS)]
    lists = [tuple(int(v) for v in f.get_values()) for f in found if isinstance(f, DenseArrayBase)]
    return (lists[0], lists[1]) if len(lists) == 2 else None
