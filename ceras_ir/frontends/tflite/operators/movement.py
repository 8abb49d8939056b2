"""Import operators that move elements: shapes, slices, borders, concatenation, selection."""

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, i64
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import element_of
from ceras_ir.dialects.quant import UniformType
from ceras_ir.frontends.onnx.emission.values import Constant, Value, shape_of_value
from ceras_ir.frontends.tflite.operation import Operation, Stored, operator


def moved(op: Operation, index: int) -> Value:
    """
    Return operand `index`, for an operator that moves elements. A quantized constant is emitted as
    an operation, other constants are not.
    """
    value = op.value(index)
    return op.tensor(index) if isinstance(value, Stored) else value


def folded(op: Operation, index: int) -> NDArray[np.generic] | None:
    """
    Return operand `index` as an array if it is a constant without a scale, otherwise `None`.
    Operators of such constants are computed at import.
    """
    value = op.value(index)
    is_plain = isinstance(value, Constant) and not isinstance(value, Stored)
    return value.load() if is_plain and isinstance(value, Constant) else None


def constant(op: Operation, array: NDArray[np.generic]) -> Constant:
    return Constant.of(op.output.name, np.ascontiguousarray(array))


@operator("RESHAPE")
def reshape(op: Operation) -> Value:
    """
    Import RESHAPE: the new shape is operand 1 if that is constant, else the shape that the file
    declares for the result.
    """
    value = moved(op, 0)
    count = prod(shape_of_value(value))
    shape = list(op.output.shape)
    if op.has_input(1) and isinstance(op.value(1), Constant):
        shape = list(op.integers(1))
    if shape.count(-1) > 1 or any(n < -1 for n in shape):
        raise op.wrong(f"a shape with at most a single -1 expected, got {shape}")
    if -1 in shape:
        rest = prod(n for n in shape if n != -1)
        if not rest or count % rest:
            raise op.wrong(f"{count} elements in the shape {shape}")
        shape[shape.index(-1)] = count // rest
    if prod(shape) != count and op.output.open_dimensions:
        # The batch of a file with an open batch.
        shape[0] = count // max(prod(shape[1:]), 1)
    return op.emitter.reshaped(value, shape)


@operator("EXPAND_DIMS")
def expand_dims(op: Operation) -> Value:
    """Import EXPAND_DIMS: insert a dimension of extent 1."""
    shape, axes = list(op.shape(0)), op.integers(1)
    if len(axes) != 1:
        raise op.wrong("a single axis expected")
    shape.insert(op.axis(axes[0], len(shape) + 1), 1)
    return op.emitter.reshaped(moved(op, 0), shape)


@operator("SQUEEZE")
def squeeze(op: Operation) -> Value:
    """Import SQUEEZE: remove dimensions of extent 1: all, or only the dimensions in the options."""
    shape = op.shape(0)
    axes = {op.axis(a, len(shape)) for a in op.operator.options.integers(0)}
    axes = axes or {i for i, n in enumerate(shape) if n == 1}
    if any(shape[a] != 1 for a in axes):
        raise op.wrong(f"dimensions {sorted(axes)} of {list(shape)} are not 1")
    return op.emitter.reshaped(moved(op, 0), [n for i, n in enumerate(shape) if i not in axes])


@operator("TRANSPOSE")
def transpose(op: Operation) -> Value:
    """Import TRANSPOSE: permute dimensions."""
    order = [op.axis(a, len(op.shape(0))) for a in op.integers(1)]
    if sorted(order) != list(range(len(op.shape(0)))):
        raise op.wrong(f"{order} does not order {len(op.shape(0))} dimensions")
    return op.emitter.transposed(moved(op, 0), order)


@operator("SHAPE")
def shape(op: Operation) -> Value:
    """Import SHAPE: the shape of the operand, as a constant."""
    return constant(op, np.array(op.shape(0), op.output.dtype))


@operator("RANK")
def rank(op: Operation) -> Value:
    """Import RANK: the number of dimensions of the operand, as a constant."""
    return constant(op, np.array(len(op.shape(0)), np.int32))


@operator("CONCATENATION")
def concatenation(op: Operation) -> Value:
    """Import CONCATENATION: concatenate operands along an axis."""
    parts = [moved(op, i) for i in range(op.count)]
    if not parts:
        raise op.wrong("has no operands")
    axis = op.axis(op.operator.options.integer(0, "i"), len(op.shape(0)))
    _expect_alike(op, parts, axis)
    if all(isinstance(v, Constant) for v in parts):
        arrays = [v.load() for v in parts if isinstance(v, Constant)]
        return constant(op, np.concatenate(arrays, axis))
    result = op.emitter.joined(parts, axis)
    return result if op.is_quantized else op.activated(result, 1)


def _expect_alike(op: Operation, parts: Sequence[Value], axis: int) -> None:
    shapes = [shape_of_value(v) for v in parts]
    rests = {(*s[:axis], *s[axis + 1 :]) for s in shapes}
    if len(rests) > 1 or len({len(s) for s in shapes}) > 1:
        shown = ", ".join(str(list(s)) for s in shapes[:4])
        raise op.wrong(f"operands of shapes {shown} differ in more than dimension {axis}")
    elements = {element_of(v) for v in parts if isinstance(v, SSAValue)}
    if len(elements) > 1:
        shown = " and ".join(map(str, list(elements)[:2]))
        raise op.unsupported(f"operands of {shown}; quantize them with one scale")


@operator("PACK")
def pack(op: Operation) -> Value:
    """Import PACK: stack operands along a new axis."""
    values = [moved(op, i) for i in range(op.count)]
    if not values:
        raise op.wrong("has no operands")
    shape = list(op.shape(0))
    axis = op.axis(op.operator.options.integer(1, "i"), len(shape) + 1)
    if any(shape_of_value(v) != tuple(shape) for v in values):
        raise op.wrong("operands of different shapes")
    if all(isinstance(v, Constant) for v in values):
        return constant(op, np.stack([v.load() for v in values if isinstance(v, Constant)], axis))
    _expect_alike(op, values, 0)
    shape.insert(axis, 1)
    return op.emitter.joined([op.emitter.reshaped(v, shape) for v in values], axis)


@operator("UNPACK")
def unpack(op: Operation) -> Sequence[Value]:
    """Import UNPACK: the elements at each index of an axis, as separate results."""
    shape = op.shape(0)
    axis = op.axis(op.operator.options.integer(1, "i"), len(shape))
    if shape[axis] != len(op.operator.outputs):
        raise op.wrong(f"{len(op.operator.outputs)} results of an extent of {shape[axis]}")
    return [op.emitter.slice_at(moved(op, 0), i, axis) for i in range(shape[axis])]


@operator("SPLIT", "SPLIT_V")
def split(op: Operation) -> Sequence[Value]:
    """Import SPLIT or SPLIT_V: consecutive parts along an axis, of equal or of given sizes."""
    data, along = (1, 0) if op.name == "SPLIT" else (0, 2)
    shape, axes, count = op.shape(data), op.integers(along), len(op.operator.outputs)
    axis = op.axis(axes[0] if axes else 0, len(shape))
    if op.name == "SPLIT_V":
        sizes = list(op.integers(1))
        if sizes.count(-1) == 1:
            sizes[sizes.index(-1)] = shape[axis] - sum(n for n in sizes if n != -1)
    else:
        sizes = [shape[axis] // max(count, 1)] * count
    if len(sizes) != count or sum(sizes) != shape[axis] or min(sizes, default=0) < 1:
        raise op.wrong(f"parts of {sizes} in an extent of {shape[axis]}")
    return op.emitter.split(moved(op, data), axis, sizes)


@operator("SLICE")
def slice_(op: Operation) -> Value:
    """
    Import SLICE: the block that begins at the indices in operand 1 and has the size in operand 2; a
    size of -1 is the rest.
    """
    shape, starts, sizes = op.shape(0), op.integers(1), op.integers(2)
    if not len(shape) == len(starts) == len(sizes):
        raise op.wrong(f"begin {list(starts)} and size {list(sizes)} of {list(shape)}")
    sizes = tuple(n - a if s == -1 else s for n, a, s in zip(shape, starts, sizes, strict=True))
    for extent, start, size in zip(shape, starts, sizes, strict=True):
        if not (start >= 0 and size >= 0 and start + size <= extent):
            raise op.wrong(f"begin {list(starts)} and size {list(sizes)} of {list(shape)}")
    if (array := folded(op, 0)) is not None:
        places = tuple(slice(a, a + n) for a, n in zip(starts, sizes, strict=True))
        return constant(op, array[places])
    return op.emitter.sliced(moved(op, 0), starts, sizes)


@operator("STRIDED_SLICE")
def strided_slice(op: Operation) -> Value:
    """
    Import STRIDED_SLICE: slice as numpy does. Bits of masks in the options mark open bounds and
    removed dimensions.
    """
    shape = op.shape(0)
    begin, end, strides = (op.integers(i) for i in (1, 2, 3))
    masks = [op.operator.options.integer(i, "i") for i in range(5)]
    if not len(begin) == len(end) == len(strides) or 0 in strides:
        raise op.wrong("begin, end and strides must have equal lengths, and strides not be 0")
    if op.operator.options.flag(5):
        raise op.unsupported("an end relative to the begin; convert the network again")
    index = _index(op, shape, (begin, end, strides), masks)
    if (array := folded(op, 0)) is not None:
        return constant(op, array[index])
    ranges: list[range] = []
    result_shape: list[int] = []
    source = iter(shape)
    for entry in index:
        if entry is None:
            result_shape.append(1)
            continue
        extent = next(source)
        if isinstance(entry, int):
            ranges.append(range(entry, entry + 1))
            continue
        ranges.append(range(*entry.indices(extent)))
        result_shape.append(len(ranges[-1]))
    starts, sizes, steps = ([f(r) for r in ranges] for f in (_start, len, _step))
    if min(sizes, default=1) < 1:
        raise op.unsupported("a slice without elements; remove its consumers")
    if steps == [1] * len(steps):
        part = op.emitter.sliced(moved(op, 0), starts, sizes)
    else:
        part = op.emitter.emit(graph.SliceOp(op.tensor(0), starts, sizes, steps))
    return op.emitter.reshaped(part, result_shape)


def _start(places: range) -> int:
    return places.start


def _step(places: range) -> int:
    return places.step


def _index(
    op: Operation,
    shape: Sequence[int],
    bounds: tuple[Sequence[int], Sequence[int], Sequence[int]],
    masks: Sequence[int],
) -> tuple[slice | int | None, ...]:
    begin_mask, end_mask, ellipsis_mask, new_mask, shrink_mask = masks
    begin, end, strides = bounds
    index: list[slice | int | None] = []
    taken = sum(1 for i in range(len(begin)) if not (ellipsis_mask | new_mask) >> i & 1)
    for i, (a, b, step) in enumerate(zip(begin, end, strides, strict=True)):
        bit = 1 << i
        if ellipsis_mask & bit:
            index += [slice(None)] * max(len(shape) - taken, 0)
            continue
        if new_mask & bit:
            index.append(None)
            continue
        axis = sum(each is not None for each in index)
        if axis >= len(shape):
            raise op.wrong(f"{len(begin)} bounds for {len(shape)} dimensions")
        if shrink_mask & bit:
            at = a + shape[axis] if a < 0 else a
            if not 0 <= at < shape[axis]:
                raise op.wrong(f"index {a} of an extent of {shape[axis]}")
            index.append(at)
            continue
        index.append(slice(None if begin_mask & bit else a, None if end_mask & bit else b, step))
    rest = len(shape) - sum(each is not None for each in index)
    return (*index, *(slice(None),) * rest)


@operator("PAD", "PADV2")
def pad(op: Operation) -> Value:
    """Import PAD or PADV2: add a border of zeros, or of the number in operand 2."""
    borders = _borders(op)
    low, high = zip(*borders, strict=True)
    if min(*low, *high) < 0:
        raise op.wrong(f"negative borders {borders}")
    element = op.output.element
    value: FloatAttr | IntegerAttr | None = None
    if op.name == "PADV2":
        number = op.array(2).reshape(-1)
        if number.size != 1:
            raise op.wrong("a single value of the border expected")
        if element == f32:
            value = FloatAttr(float(number[0]), f32)
        else:
            value = IntegerAttr(int(number[0]), i64)
    elif isinstance(element, UniformType):
        value = IntegerAttr(element.zero_point, i64)
    return op.emitter.padded(moved(op, 0), low, high, value=value)


def _borders(op: Operation) -> list[tuple[int, int]]:
    flat, count = op.integers(1), len(op.shape(0))
    if len(flat) != 2 * count or not count:
        raise op.wrong(f"{len(flat)} borders for {count} dimensions")
    return [(flat[2 * i], flat[2 * i + 1]) for i in range(count)]


@operator("MIRROR_PAD")
def mirror_pad(op: Operation) -> Value:
    """
    Import MIRROR_PAD: reflect elements at the border. The element at the border is repeated
    (SYMMETRIC) or not (REFLECT).
    """
    shape, value = op.shape(0), moved(op, 0)
    symmetric = op.operator.options.integer(0, "b") == 1
    for axis, (low, high) in enumerate(_borders(op)):
        size = shape[axis]
        if min(low, high) < 0 or max(low, high) > size - (not symmetric):
            raise op.wrong(f"borders {low} and {high} of an extent of {size}")
        mode = "symmetric" if symmetric else "reflect"
        if low or high:
            indices = np.pad(np.arange(size), (low, high), mode=mode).tolist()
            value = op.emitter.gathered(value, axis, indices)
    return value


@operator("TILE")
def tile(op: Operation) -> Value:
    """Import TILE: repeat the operand along each dimension."""
    value, repeats = moved(op, 0), op.integers(1)
    if len(repeats) != len(op.shape(0)) or min(repeats, default=1) < 1:
        raise op.wrong(f"repeats {list(repeats)} of {list(op.shape(0))}")
    for axis, times in enumerate(repeats):
        value = op.emitter.joined([value] * times, axis)
    return value


@operator("BROADCAST_TO")
def broadcast_to(op: Operation) -> Value:
    """Import BROADCAST_TO: repeat elements along dimensions of extent 1."""
    shape, source = op.integers(1), op.shape(0)
    lifted = (*(1,) * (len(shape) - len(source)), *source)
    if len(lifted) != len(shape) or any(
        a not in (1, b) for a, b in zip(lifted, shape, strict=True)
    ):
        raise op.wrong(f"{list(source)} does not broadcast to {list(shape)}")
    return op.emitter.expanded(op.emitter.reshaped(moved(op, 0), lifted), shape)


@operator("REVERSE_V2")
def reverse(op: Operation) -> Value:
    """Import REVERSE_V2: reverse the order of elements along axes."""
    value = moved(op, 0)
    for axis in op.integers(1):
        value = op.emitter.reversed(value, op.axis(axis, len(op.shape(0))))
    return value


@operator("SPACE_TO_DEPTH", "DEPTH_TO_SPACE")
def depth_and_space(op: Operation) -> Value:
    """
    Import SPACE_TO_DEPTH, which converts blocks of height and width to channels, or DEPTH_TO_SPACE,
    the inverse.
    """
    if len(shape := op.shape(0)) != 4:
        raise op.wrong(f"four dimensions expected, got {list(shape)}")
    n, h, w, c = shape
    size = op.operator.options.integer(0, "i")
    to_depth = op.name == "SPACE_TO_DEPTH"
    if size < 1 or (h % size or w % size if to_depth else c % (size * size)):
        raise op.wrong(f"blocks of {size} in {list(shape)}")
    if to_depth:
        split = (n, h // size, size, w // size, size, c)
        order, result = (0, 1, 3, 2, 4, 5), (n, h // size, w // size, size * size * c)
    else:
        split = (n, h, w, size, size, c // (size * size))
        order, result = (0, 1, 3, 2, 4, 5), (n, h * size, w * size, c // (size * size))
    parts = op.emitter.transposed(op.emitter.reshaped(moved(op, 0), split), order)
    return op.emitter.reshaped(parts, result)


@operator("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND")
def batch_and_space(op: Operation) -> Value:
    """
    Import SPACE_TO_BATCH_ND, which converts blocks of the spatial dimensions to elements of the
    batch, or BATCH_TO_SPACE_ND, the inverse.
    """
    block, flat = op.integers(1), op.integers(2)
    count, value = len(block), moved(op, 0)
    if not block or min(block) < 1 or len(flat) != 2 * count or len(op.shape(0)) <= count:
        raise op.wrong(f"blocks {list(block)} with borders {list(flat)}")
    low, high = flat[::2], flat[1::2]
    if min(flat) < 0:
        raise op.wrong(f"negative borders {list(flat)}")
    if op.name == "BATCH_TO_SPACE_ND":
        return _batch_to_space(op, value, block, (low, high))
    rest = (0,) * (len(op.shape(0)) - 1 - count)
    element = op.output.element
    zero = IntegerAttr(element.zero_point, i64) if isinstance(element, UniformType) else None
    value = op.emitter.padded(value, (0, *low, *rest), (0, *high, *rest), value=zero)
    n, *spatial = shape_of_value(value)
    spatial, more = spatial[:count], spatial[count:]
    if any(s % b for s, b in zip(spatial, block, strict=True)):
        raise op.wrong(f"blocks {list(block)} in {spatial}")
    pairs = [(s // b, b) for s, b in zip(spatial, block, strict=True)]
    split = (n, *(e for pair in pairs for e in pair), *more)
    order = [2 * i + 2 for i in range(count)]
    order += [0, *(2 * i + 1 for i in range(count)), *range(2 * count + 1, len(split))]
    parts = op.emitter.transposed(op.emitter.reshaped(value, split), order)
    return op.emitter.reshaped(parts, (n * prod(block), *(a for a, _ in pairs), *more))


def _batch_to_space(
    op: Operation,
    value: Value,
    block: Sequence[int],
    crops: tuple[Sequence[int], Sequence[int]],
) -> Value:
    n, *spatial = shape_of_value(value)
    count = len(block)
    spatial, more = spatial[:count], spatial[count:]
    if n % prod(block):
        raise op.wrong(f"a batch of {n} in blocks {list(block)}")
    batch = n // prod(block)
    split = (*block, batch, *spatial, *more)
    order = [count, *(e for i in range(count) for e in (count + 1 + i, i))]
    order += range(2 * count + 1, len(split))
    full = [s * b for s, b in zip(spatial, block, strict=True)]
    parts = op.emitter.transposed(op.emitter.reshaped(value, split), order)
    joined = op.emitter.reshaped(parts, (batch, *full, *more))
    sizes = [s - a - b for s, a, b in zip(full, *crops, strict=True)]
    if min(sizes) < 1:
        raise op.wrong("the crops leave no elements")
    rest = (0,) * len(more)
    return op.emitter.sliced(joined, (0, *crops[0], *rest), (batch, *sizes, *more))
