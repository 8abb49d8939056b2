"""
Emit integers that are computed at run time: extents, and bounds of slices.

Each is a tensor [1] of i64, or a number if it is known at import. The smallest and the largest
value of each result are recorded, so that maxima of derived shapes are known, and clamps without
effect are omitted.
"""

from math import inf

import numpy as np
from xdsl.dialects.builtin import f32, i64
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Compare, Function, element_of, shape_of
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.extents import (
    MAX_ELEMENTS,
    Element,
    Extent,
    Linear,
    elements_of,
    minus,
    plus,
)
from ceras_ir.frontends.onnx.emission.values import Value, dtype_of_value, shape_of_value
from ceras_ir.network.storage import keep_in_float

SIZE_REASON = "decides a size or a position, which int8 would change"


def range_of(emitter: Emitter, extent: Extent) -> tuple[float, float]:
    """Return the smallest and the largest possible value; infinite if there is no bound."""
    if not isinstance(extent, Linear):
        return extent, extent
    low = high = float(extent.constant)
    for atom, factor in extent.factors:
        ends = sorted(factor * n for n in emitter.table.bounds.get(atom, (-inf, inf)))
        low, high = low + ends[0], high + ends[1]
    return low, high


def maximum_of(emitter: Emitter, extent: Extent) -> int | None:
    """Return the largest possible value, or `None` if there is no bound."""
    high = range_of(emitter, extent)[1]
    return None if high == inf else int(high)


def computed(emitter: Emitter, value: SSAValue, low: float = -inf, high: float = inf) -> Linear:
    """Return the integer `value` [1], which is between `low` and `high`, as an extent."""
    result = Linear.of(value)
    emitter.table.bounds[value, 0] = low, high
    return result


def scalar(emitter: Emitter, extent: Extent) -> Value:
    """Return an extent as a tensor [1] of i64."""
    if not isinstance(extent, Linear):
        return emitter.constant(np.array([extent], np.int64), "number")
    key = emitter.block, extent
    if (known := emitter.table.scalars.get(key)) is not None:
        return known
    total: Value | None = None
    # The factors are a set: the order of emission must not depend on hashes.
    for (value, index), factor in sorted(extent.factors, key=lambda f: _order(emitter, f[0])):
        term: Value = element(emitter, value, index)
        if factor != 1:
            term = emitter.mul(term, scalar(emitter, factor))
        total = term if total is None else emitter.add(total, term)
    assert total is not None
    if extent.constant:
        total = emitter.add(total, scalar(emitter, extent.constant))
    result = emitter.materialize(total)
    emitter.table.scalars[key] = result
    return result


def _order(emitter: Emitter, atom: tuple[SSAValue, int]) -> tuple[int, int]:
    value, index = atom
    known = emitter.table.numbers
    return known.setdefault(value, len(known)), index


def element(emitter: Emitter, value: SSAValue, index: int) -> Value:
    """Return an element of `value` as a tensor [1]: i64, or float32 if it is a float."""
    count = int(np.prod(shape_of(value)))
    part = emitter.part(emitter.reshaped(value, (count,)), 0, index, 1)
    return part if element_of(value) == f32 else emitter.cast(part, i64)


def number(emitter: Emitter, given: Element) -> Value:
    """Return an element, an integer or a float, as a tensor [1] of float32."""
    if isinstance(given, Linear):
        ((value, index), _), *others = given.factors
        if not others and element_of(value) == f32:
            return element(emitter, value, index)
        return emitter.cast(scalar(emitter, given))
    return emitter.constant(np.array([given], np.float32), "number")


def minimum(emitter: Emitter, a: Extent, b: Extent) -> Extent:
    """Return the minimum of two integers."""
    (a_low, a_high), (b_low, b_high) = range_of(emitter, a), range_of(emitter, b)
    if a == b or a_high <= b_low:
        return a
    if b_high <= a_low:
        return b
    result = emitter.binary(Binary.MIN, scalar(emitter, a), scalar(emitter, b))
    return computed(emitter, result, min(a_low, b_low), min(a_high, b_high))


def maximum(emitter: Emitter, a: Extent, b: Extent) -> Extent:
    """Return the maximum of two integers."""
    (a_low, a_high), (b_low, b_high) = range_of(emitter, a), range_of(emitter, b)
    if a == b or a_low >= b_high:
        return a
    if b_low >= a_high:
        return b
    result = emitter.binary(Binary.MAX, scalar(emitter, a), scalar(emitter, b))
    return computed(emitter, result, max(a_low, b_low), max(a_high, b_high))


def divided(emitter: Emitter, a: Extent, divisor: int) -> Extent:
    """Return `a`, which is not negative, divided by a positive number and rounded down."""
    if divisor == 1:
        return a
    if not isinstance(a, Linear):
        return a // divisor
    low, high = range_of(emitter, a)
    result = emitter.div(scalar(emitter, a), scalar(emitter, divisor))
    ends = (n if abs(n) == inf else n // divisor for n in (low, high))
    return computed(emitter, result, *ends)


def counted_from_end(emitter: Emitter, index: Extent, extent: Extent) -> Extent:
    """Return an index into `extent` elements, in which negative numbers count from the end."""
    low, high = range_of(emitter, index)
    if low >= 0:
        return index
    if high < 0:
        return plus(index, extent)
    value, size = scalar(emitter, index), scalar(emitter, extent)
    below = emitter.compare(Compare.LESS, value, scalar(emitter, 0))
    most = range_of(emitter, extent)[1]
    result = emitter.select(below, emitter.add(value, size), value)
    return computed(emitter, result, low, max(high, most - 1))


def chosen(emitter: Emitter, condition: Value, a: Extent, b: Extent) -> Extent:
    """Return `a` if the boolean `condition` [1] is true, otherwise `b`."""
    (a_low, a_high), (b_low, b_high) = range_of(emitter, a), range_of(emitter, b)
    result = emitter.select(condition, scalar(emitter, a), scalar(emitter, b))
    return computed(emitter, result, min(a_low, b_low), max(a_high, b_high))


def scaled(emitter: Emitter, extent: Extent, factor: Element) -> Extent:
    """Return `extent * factor` in float32, rounded down; at least 0."""
    if not isinstance(factor, Linear) and not isinstance(extent, Linear):
        return max(int(np.floor(np.float32(extent) * np.float32(factor))), 0)
    with emitter.in_float():
        product = emitter.mul(number(emitter, extent), number(emitter, factor))
        rounded = emitter.cast(emitter.unary(Function.FLOOR, product), i64)
    high = inf
    if not isinstance(factor, Linear) and (most := maximum_of(emitter, extent)) is not None:
        high = max(int(np.floor(np.float32(most) * np.float32(factor))), 0)
    low = 0 if not isinstance(factor, Linear) and factor >= 0 else -inf
    return maximum(emitter, computed(emitter, emitter.materialize(rounded), low, high), 0)


def integers_of(emitter: Emitter, index: int) -> list[Extent]:
    """
    Return the elements of operand `index` of the current node, a list of integers. Floats that
    decide them remain float in a quantized network.
    """
    value = emitter.value(index)
    if dtype_of_value(value).kind not in "iu" or len(shape_of_value(value)) > 1:
        raise emitter.node.wrong(f"operand {index} must be a list of integers")
    return [n for n in _elements(emitter, index) if not isinstance(n, float)]


def numbers_of(emitter: Emitter, index: int) -> list[Element]:
    """Return the elements of operand `index` of the current node, a list of floats."""
    if not emitter.is_float(emitter.value(index)):
        raise emitter.node.wrong(f"operand {index} must be floats")
    return _elements(emitter, index)


def _elements(emitter: Emitter, index: int) -> list[Element]:
    value = emitter.value(index)
    if emitter.table.of(value) != shape_of_value(value):
        raise emitter.node.unsupported(
            f"operand {index} with a number of elements that data decide; export with fixed sizes"
        )
    if np.prod(shape_of_value(value)) > MAX_ELEMENTS:
        raise emitter.node.wrong(f"operand {index} has more than {MAX_ELEMENTS} elements")
    if isinstance(value, SSAValue):
        _keep_floats(value)
    return elements_of(value)


def _keep_floats(value: SSAValue) -> None:
    """Keep in float the small tensors from which `value`, a size or position, is computed."""
    pending, visited = [value], set[Operation]()
    while pending:
        op = pending.pop().owner
        if not isinstance(op, graph.GraphOperation) or op in visited:
            continue
        visited.add(op)
        if isinstance(op, graph.LinearOperation | graph.ConstantOp | graph.CallingOperation):
            continue
        if np.prod(shape_of(op.output)) > MAX_ELEMENTS:
            continue
        if element_of(op.output) == f32:
            keep_in_float(op, SIZE_REASON)
        pending += op.operands


def difference(emitter: Emitter, a: Extent, b: Extent) -> Extent:
    """Return `a - b`, at least 0."""
    return maximum(emitter, minus(a, b), 0)
