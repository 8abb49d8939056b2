"""Import operations that move elements: shapes, slices, borders, indices, variables."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, i64

from ceras_ir.dialects import graph
from ceras_ir.frontends.onnx.emission.values import Value as EmittedValue
from ceras_ir.frontends.onnx.emission.values import shape_of_value
from ceras_ir.frontends.tosa.operation import Operation, operation
from ceras_ir.frontends.tosa.values import Value, alike, as_plain

MAX_REPEATS = 1 << 12
"""The copies of a tile along a dimension."""


@operation("reshape")
def reshape(op: Operation) -> Value:
    """Import reshape."""
    value, shape = op.moved(0), list(op.integers("new_shape", 1))
    if shape.count(-1) == 1:
        rest = prod(n for n in shape if n != -1)
        shape[shape.index(-1)] = prod(shape_of_value(value)) // rest if rest else 0
    if min(shape, default=1) < 1:
        raise op.wrong(f"the shape {shape}")
    return op.emitter.reshaped(value, shape)


@operation("transpose")
def transpose(op: Operation) -> Value:
    """Import transpose: permute dimensions."""
    order = op.integers("perms", 1)
    if sorted(order) != list(range(len(op.shape(0)))):
        raise op.wrong(f"{list(order)} does not order {len(op.shape(0))} dimensions")
    return op.emitter.transposed(op.moved(0), order)


@operation("concat")
def concat(op: Operation) -> Value:
    """Import concat: concatenate operands along an axis."""
    if not op.count:
        raise op.wrong("has no operands")
    rank = len(op.shape(0))
    axis = op.axis(rank)
    shapes = [op.shape(i) for i in range(op.count)]
    if len({(len(s), *s[:axis], *s[axis + 1 :]) for s in shapes}) > 1:
        shown = ", ".join(str(list(s)) for s in shapes[:4])
        raise op.wrong(f"operands of shapes {shown} differ in more than dimension {axis}")
    parts = alike(op.emitter, [op.value(i) for i in range(op.count)])
    return op.emitter.joined(parts, axis)


@operation("slice")
def slice_(op: Operation) -> Value:
    """Import slice: the block with a constant start and size; a size of -1 is the rest."""
    shape, starts, sizes = op.shape(0), op.integers("start", 1), op.integers("size", 2)
    if not len(shape) == len(starts) == len(sizes):
        raise op.wrong(f"start {list(starts)} and size {list(sizes)} of {list(shape)}")
    sizes = tuple(n - a if s == -1 else s for n, a, s in zip(shape, starts, sizes, strict=True))
    for extent, start, size in zip(shape, starts, sizes, strict=True):
        if not (start >= 0 and size >= 1 and start + size <= extent):
            raise op.wrong(f"start {list(starts)} and size {list(sizes)} of {list(shape)}")
    return op.emitter.sliced(op.moved(0), starts, sizes)


@operation("tile")
def tile(op: Operation) -> Value:
    """Import tile: repeat the operand along each dimension."""
    value, repeats = op.moved(0), op.integers("multiples", 1)
    shape = op.shape(0)
    if (
        len(repeats) != len(shape)
        or min(repeats, default=1) < 1
        or max(repeats, default=1) > MAX_REPEATS
    ):
        raise op.wrong(f"repeats {list(repeats)} of {list(shape)}")
    for axis, (extent, times) in enumerate(zip(shape, repeats, strict=True)):
        if times == 1:
            continue
        if extent == 1:
            wider = [times if i == axis else n for i, n in enumerate(shape_of_value(value))]
            value = op.emitter.expanded(value, wider)
        else:
            value = op.emitter.joined([value] * times, axis)
    return value


@operation("reverse")
def reverse(op: Operation) -> Value:
    """Import reverse: reverse the order of elements along an axis."""
    return op.emitter.reversed(op.moved(0), op.axis(len(op.shape(0))))


@operation("pad")
def pad(op: Operation) -> Value:
    """
    Import pad: add a border of zeros (of the zero point for stored integers), or of the number in
    operand 2.
    """
    value, count = op.moved(0), len(op.shape(0))
    given = op.entries("padding")
    flat = np.array(given if given is not None else op.array(1)).reshape(-1).tolist()
    if len(flat) != 2 * count or not all(isinstance(n, int) and 0 <= n < 1 << 31 for n in flat):
        raise op.wrong(f"borders {flat[:8]} for {count} dimensions")
    number = op.array(2).reshape(-1) if op.has(2) else np.zeros(1)
    if number.size != 1:
        raise op.wrong("a single value of the border expected")
    if not op.has(2) and not op.is_float:
        number = np.array([op.zero_point(3, "input_zp")])
    border: FloatAttr | IntegerAttr
    border = FloatAttr(float(number[0]), f32) if op.is_float else IntegerAttr(int(number[0]), i64)
    return op.emitter.padded(value, flat[::2], flat[1::2], value=border)


def _rows(op: Operation, index: int) -> tuple[EmittedValue, int, int, int]:
    """Return operand `index`, [N, K, C], as rows [N * K, C], and the extents N, K and C."""
    shape = op.shape(index)
    if len(shape) != 3:
        raise op.wrong(f"three dimensions expected, got {list(shape)}")
    n, k, c = shape
    return op.emitter.reshaped(op.moved(index), (n * k, c)), n, k, c


def _places(op: Operation, n: int, k: int) -> tuple[EmittedValue, int]:
    """Return the row in [N * K, C] for each of the indices [N, W] in operand 1, and W."""
    shape = op.shape(1)
    if len(shape) != 2 or shape[0] != n:
        raise op.wrong(f"indices of shape {list(shape)} for a batch of {n}")
    emitter = op.emitter
    indices = emitter.cast(op.plain(1), i64)
    if n > 1:
        starts = np.arange(n, dtype=np.int64).reshape(n, 1) * k
        indices = emitter.add(indices, emitter.constant(starts, "starts"))
    return emitter.reshaped(indices, (prod(shape),)), shape[1]


@operation("gather")
def gather(op: Operation) -> Value:
    """Import gather: the rows [N, W, C] of the values [N, K, C] at the indices [N, W]."""
    rows, n, k, c = _rows(op, 0)
    indices, count = _places(op, n, k)
    return op.emitter.reshaped(op.emitter.taken(rows, indices), (n, count, c))


@operation("scatter")
def scatter(op: Operation) -> Value:
    """
    Import scatter: the values [N, K, C], in which the rows at the indices [N, W] are replaced by
    [N, W, C].
    """
    emitter = op.emitter
    n, k, c = _rows(op, 0)[1:]
    indices, count = _places(op, n, k)
    if op.shape(2) != (n, count, c):
        raise op.wrong(f"rows of shape {list(op.shape(2))}")
    values, rows = alike(emitter, [op.value(0), op.value(2)])
    put = graph.PutOp(
        emitter.materialize(emitter.reshaped(values, (n * k, c))),
        emitter.materialize(indices),
        emitter.materialize(emitter.reshaped(rows, (n * count, c))),
    )
    return emitter.reshaped(emitter.emit(put), (n, k, c))


def _variable(op: Operation) -> str:
    name = op.attribute("callee") or op.attribute("name")
    name = str(name).removeprefix("@")
    if name not in op.states:
        raise op.wrong(f"there is no variable '{name}'")
    return name


@operation("variable_read", "variable.read")
def read(op: Operation) -> Value:
    """Import variable_read: the current value of a variable."""
    return op.states[_variable(op)]


@operation("variable_write", "variable.write")
def write(op: Operation) -> Sequence[Value]:
    """
    Import variable_write: set the value of a variable for later operations, and for the next call.
    """
    name, value = _variable(op), op.emitter.materialize(as_plain(op.emitter, op.value(0)))
    if value.type != op.states[name].type:
        raise op.unsupported(f"a variable of {op.states[name].type} that becomes {value.type}")
    op.states[name] = value
    return []
