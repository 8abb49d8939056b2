"""
Requantizations by real factors, and the clamp range that stands for an activation.

A factor is `multiplier / 2**shift`, with one shift for a whole list. The greatest multiplier has 31
bits where the shift allows it, so every factor is off by at most `2**-(shift + 1)`, relative to the
greatest one by `2**-31`. Powers of two are exact: shifts, or multipliers without one.

The second part makes constants of a quantized network from float constants.
"""

from collections.abc import Iterable, Sequence
from math import floor, frexp, ldexp

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerType,
    LocationAttr,
    TensorType,
)
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import FunctionAttr
from ceras_ir.dialects.graph.attributes import integers
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.interpreters.float_functions import apply_function
from ceras_ir.network.integer import dequantize, quantize
from ceras_ir.network.storage import Storage, signed_bounds

MULTIPLIER_BITS, MAX_SHIFT = 31, 47
"""What 64-bit products leave room for, and the longest shift that accelerators have."""

MAX_RIGHT, MAX_LEFT = 31, 30
"""Longest shifts of numbers below 2^30. Further ones give the same: zero, or saturated."""


def fixed_point(
    factors: Sequence[float], bits: int = MULTIPLIER_BITS, longest: int = MAX_SHIFT
) -> tuple[tuple[int, ...], int]:
    """Multipliers of at most `bits` bits, at least 1, and their common shift."""
    greatest = max(factors)
    # frexp: greatest < 2**exponent, so shifted by `bits - exponent` it is below 2**bits.
    shift = min(max(bits - frexp(greatest)[1], 0), longest)
    most = (1 << bits) - 1
    if shift and int(ldexp(greatest, shift) + 0.5) > most:
        shift -= 1  # It would be rounded up to one bit too many.
    # Compared before it is rounded: a factor beyond 2**bits saturates whatever it meets.
    multipliers = [
        most if ldexp(f, shift) >= most else max(int(ldexp(f, shift) + 0.5), 1) for f in factors
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
    """Multiply by the factors, one per output channel or one for all."""
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
    The same for what adds up no products, numbers below 2^30 made of `sources`: half up where
    shifts alone do it, as shifters round; else to even on ties, which equal scales make common.
    """
    elements = (*sources, target)
    if has_powers(elements):
        factor = min(max(factor, 2.0**-MAX_RIGHT), 2.0**MAX_LEFT)
    return rescaling_by([factor], target.zero_point, clamp, rounding_of(elements))


def rounding_of(elements: Iterable[UniformType]) -> Rounding:
    """How sums of few numbers of such types are rounded."""
    return Rounding.HALF_UP if only_shifts(elements) else Rounding.HALF_EVEN


def has_powers(elements: Iterable[UniformType]) -> bool:
    """Whether all scales are powers of two, and numbers signed."""
    return all(element.is_signed and has_power_scales(element) for element in elements)


def has_power_scales(element: UniformType) -> bool:
    """Whether all scales of one type are powers of two."""
    return all(frexp(scale.data)[0] == 0.5 for scale in element.scales)


def only_shifts(elements: Iterable[UniformType]) -> bool:
    """
    Whether numbers of these types are rescaled into each other by shifts alone: no zero points
    either. Such networks are made for shifters, which round half up.
    """
    return all(
        has_powers((element,)) and not any(point.data for point in element.zero_points)
        for element in elements
    )


def clamp_of(activation: FunctionAttr | None, target: UniformType) -> tuple[int, int] | None:
    """
    What stored results an activation leaves; None if it does more than clip. Bounds are rounded
    half up where the scale is a power of two, which commutes with rounding sums of products so;
    else as `graph.quantize` stores them.
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
    # Compared before it is scaled: an infinite or huge bound does not become an integer.
    low, high, point = target.low, target.high, target.zero_point
    if bound >= (high - point) * target.scale:
        return high
    if bound <= (low - point) * target.scale:
        return low
    return floor(bound / target.scale + 0.5) + point


# The integers of a quantized network: weights, biases and tables, from float constants.


def stored_constant(
    values: NDArray[np.generic], storage: Storage, location: LocationAttr, rows: Sequence[int] = ()
) -> graph.ConstantOp:
    """
    Constants as integers, rounded half to even; the least one is left out, [-127, 127], where
    there is no zero point. With `rows`, what to add to the exponent for each index of the first
    dimension.
    """
    exponent, bits, point = storage
    steps = np.exp2(-(np.array(rows or (0,), np.float32) + np.float32(exponent)))
    by_row = steps.reshape(-1, *(1,) * (values.ndim - 1)) if rows else steps.reshape(())
    scaled = np.rint(values.astype(np.float32) * by_row)
    low, high = signed_bounds(bits)
    stored = np.clip(scaled + point, low if point else -high, high).astype(f"int{bits}")
    element = storage.element
    if rows:
        scales = [ldexp(1.0, exponent + row) for row in rows]
        element = UniformType(scales, storage=IntegerType(bits), axis=0)
    return graph.ConstantOp.from_array(stored, element, location=location)


def lookup_table(
    function: graph.FunctionAttr,
    source: UniformType,
    target: UniformType,
    entries: int = 256,
    exponents: Sequence[tuple[int, int]] = (),
) -> DenseIntOrFPElementsAttr:
    """
    `quantize(function(dequantize(i)))` for i from -entries/2 to entries/2 - 1: bit for bit what
    the three operations `graph.dequantize`, `graph.unary` and `graph.quantize` would give. With
    `exponents` one row for each pair of what is added to those of argument and result.
    """
    rows = [
        _entries(function, source.rescaled(2.0**before), target.rescaled(2.0**after), entries)
        for before, after in exponents or [(0, 0)]
    ]
    table = np.stack(rows) if exponents else rows[0]
    type = TensorType(target.storage, table.shape)
    return DenseIntOrFPElementsAttr(type, BytesAttr(table.tobytes()))


def _entries(
    function: graph.FunctionAttr, source: UniformType, target: UniformType, entries: int
) -> NDArray[np.generic]:
    stored = np.arange(-entries // 2, entries // 2).astype(np.int32)
    # A function may overflow far outside what the network computes; infinity saturates.
    with np.errstate(all="ignore"):
        values = apply_function(function, dequantize(stored, source))
    return quantize(values.astype(np.float32), target).astype(f"int{target.storage.width.data}")


# Tables in the place of functions of one argument, and what they were made from.

FUNCTION = "graph.function"
"""Attribute of a `graph.lookup`: the function that its table was made from."""

INPUT_EXPONENTS, RESULT_EXPONENTS = "graph.input_exponents", "graph.result_exponents"
"""Attributes of a `graph.lookup` with rows: the exponents of `graph.unary`, one per channel."""


def table(
    function: graph.FunctionAttr,
    input: SSAValue,
    target: UniformType,
    entries: int,
    exponents: tuple[Sequence[int], Sequence[int]] | None,
) -> graph.LookupOp:
    """One table, or one for each pair of exponents that channels have."""
    source = graph.stored_element(input)
    if exponents is None:
        made = graph.LookupOp(input, lookup_table(function, source, target, entries), target)
    else:
        pairs = list(zip(*exponents, strict=True))
        distinct = sorted(set(pairs))
        tables = lookup_table(function, source, target, entries, distinct)
        made = graph.LookupOp(input, tables, target, [distinct.index(pair) for pair in pairs])
        made.attributes[INPUT_EXPONENTS] = integers(exponents[0])
        made.attributes[RESULT_EXPONENTS] = integers(exponents[1])
    made.attributes[FUNCTION] = function
    return made


def exponents_of(op: graph.LookupOp) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Which powers of two of its scales the channels of a table stand for."""
    found = [op.attributes.get(name) for name in (INPUT_EXPONENTS, RESULT_EXPONENTS)]
    lists = [tuple(int(v) for v in f.get_values()) for f in found if isinstance(f, DenseArrayBase)]
    return (lists[0], lists[1]) if len(lists) == 2 else None
