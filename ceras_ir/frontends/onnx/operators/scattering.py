"""Operators that put elements at places by indices, constant or computed."""

from math import prod

import numpy as np
from xdsl.dialects.builtin import i64

from ceras_ir.dialects.graph import Pad, PadOp, PutOp, Reduce
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import Emitter, dtype_of_value, shape_of_value
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.operators.gathering import (
    check_indices,
    elements_at,
    rows_at,
    whole,
)
from ceras_ir.frontends.onnx.registry import constant_operands, operator
from ceras_ir.frontends.onnx.tensors import MAX_ELEMENTS
from ceras_ir.frontends.onnx.values import Value

constant_operands(
    {"MaxUnpool": [2], "Col2Im": [1, 2]}, "sizes must be constants", "make it an initializer"
)

REDUCTIONS = {
    "none": None,
    "add": Reduce.SUM,
    "mul": Reduce.PRODUCT,
    "min": Reduce.MIN,
    "max": Reduce.MAX,
}


@operator("Scatter", "ScatterElements")
def scatter_elements(node: Node, emitter: Emitter) -> Value:
    """One element to each index, at the same place along all axes but one."""
    shape, given = emitter.shape(0), emitter.value(1)
    axis = node.axis(node.integer("axis", 0), len(shape))
    check_indices(node, given)
    target, updates = shape_of_value(given), emitter.shape(2)
    if target != updates or len(target) != len(shape):
        raise node.wrong(
            f"indices of {list(target)} and updates of {list(updates)} for data of {list(shape)}"
        )
    if any(t > n for i, (t, n) in enumerate(zip(target, shape, strict=True)) if i != axis):
        raise node.wrong(f"indices of shape {list(target)} for data of {list(shape)}")
    if not prod(target):
        return emitter.value(0)  # Nothing is put anywhere.
    at = elements_at(Composer(emitter), given, shape, axis)
    return _put(node, emitter, at, 1)


@operator("ScatterND")
def scatter_nd(node: Node, emitter: Emitter) -> Value:
    """Slices to tuples of indices."""
    shape, given = emitter.shape(0), emitter.value(1)
    check_indices(node, given)
    target, updates = shape_of_value(given), emitter.shape(2)
    depth = (0, *target)[-1]
    if not 1 <= depth <= len(shape) or updates != (*target[:-1], *shape[depth:]):
        raise node.wrong(
            f"indices of {list(target)} and updates of {list(updates)} for data of {list(shape)}"
        )
    if not prod(target):
        return emitter.value(0)  # Nothing is put anywhere.
    # A put counts from the end by itself.
    at = given if depth == 1 else rows_at(Composer(emitter), given, shape[:depth])
    return _put(node, emitter, at, prod(shape[depth:]))


@operator("TensorScatter")
def tensor_scatter(node: Node, emitter: Emitter) -> Value:
    """An update of a cache, to each entry of the batch from an index of its own on."""
    compose, shape, update = Composer(emitter), emitter.shape(0), emitter.shape(1)
    axis = node.axis(node.integer("axis", -2), len(shape))
    mode = node.string("mode", "linear")
    if axis == 0 or len(shape) != len(update) or mode not in ("linear", "circular"):
        raise node.wrong(f"an update of {list(update)} of {list(shape)} along axis {axis}, {mode}")
    order = [0, axis, *(i for i in range(1, len(shape)) if i != axis)]
    batch, extent, count = shape[0], shape[axis], update[axis]
    at: Value = emitter.constant(np.arange(count, dtype=np.int64).reshape(1, count), "steps")
    if node.has_input(2):
        first = compose.cast(emitter.reshaped(emitter.value(2), (batch, 1)), i64)
        at = compose.add(first, at)
        if mode == "circular":
            size = whole(emitter, extent)
            at = compose.sub(at, compose.mul(compose.div(at, size), size))
    each = emitter.constant(extent * np.arange(batch, dtype=np.int64).reshape(batch, 1), "batch")
    width = prod(shape) // (batch * extent)
    data, rows = (
        emitter.reshaped(emitter.transposed(emitter.value(i), order), (batch * n, width))
        for i, n in ((0, extent), (1, count))
    )
    flat = emitter.reshaped(compose.add(at, each), (batch * count,))
    result = emitter.reshaped(_placed(emitter, data, flat, rows), [shape[i] for i in order])
    return emitter.transposed(result, [order.index(i) for i in range(len(shape))])


@operator("MaxUnpool")
def max_unpool(node: Node, emitter: Emitter) -> Value:
    """Elements at the indices that a pooling found, zeros elsewhere."""
    shape = emitter.shape(0)
    rank = len(shape) - 2
    kernel = node.integers("kernel_shape") or ()
    strides = node.integers("strides") or (1,) * rank
    pads = node.integers("pads") or (0,) * (2 * rank)
    if not len(kernel) == len(strides) == len(pads) // 2 == rank:
        raise node.wrong(f"attributes of {rank} dimensions expected")
    inferred = [
        (n - 1) * s - pads[i] - pads[rank + i] + k
        for i, (n, s, k) in enumerate(zip(shape[2:], strides, kernel, strict=True))
    ]
    target = [*shape[:2], *inferred]
    if min(target) < 1 or prod(target) > MAX_ELEMENTS:
        raise node.wrong(f"a result of {target}")
    zeros = emitter.constant(np.zeros((prod(target), 1), np.float32), "zeros")
    at = emitter.reshaped(emitter.value(1), (prod(shape),))
    rows = emitter.reshaped(emitter.value(0), (prod(shape), 1))
    result = emitter.reshaped(_placed(emitter, zeros, at, rows), target)
    if not node.has_input(2) or list(wanted := emitter.integers(2)) == target:
        return result
    more = [w - n for w, n in zip(wanted, target, strict=True)]
    if min(more) < 0:
        raise node.wrong(f"an output of {list(wanted)}, expected at least {target}")
    none = (0,) * len(target)
    return emitter.emit(PadOp(Pad.CONSTANT, emitter.materialize(result), none, more))


@operator("Col2Im")
def col2im(node: Node, emitter: Emitter) -> Value:
    """Sums of the elements that windows have at every place of an image."""
    n, rows, windows = emitter.shape(0)
    image, block = emitter.integers(1), emitter.integers(2)
    rank = len(image)
    strides = node.integers("strides") or (1,) * rank
    dilations = node.integers("dilations") or (1,) * rank
    pads = node.integers("pads") or (0,) * (2 * rank)
    if not all(len(sizes) == rank for sizes in (block, strides, dilations, pads[rank:])):
        raise node.wrong(f"sizes of other lengths than {rank}, as {list(image)} has")
    if min(*block, *strides, *dilations, 1) < 1:
        raise node.wrong("a size of a block, stride or dilation below 1")
    counts = [
        (image[i] + pads[i] + pads[rank + i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
        for i in range(rank)
    ]
    if min(counts) < 0 or prod(counts) != windows or rows % prod(block):
        raise node.wrong(f"{rows} rows of {windows} windows for {list(image)} by {list(block)}")
    size, channels = prod(image), rows // prod(block)
    inner = np.indices(block).reshape(rank, -1, 1)
    outer = np.indices(counts).reshape(rank, 1, -1)
    at, inside = np.zeros(np.broadcast_shapes(inner.shape, outer.shape)[1:], np.int64), True
    for i in range(rank):
        place = outer[i] * strides[i] + inner[i] * dilations[i] - pads[i]
        at = at * image[i] + place
        inside = inside & (place >= 0) & (place < image[i])
    places = emitter.constant(np.where(inside, at, size).reshape(-1), "places")
    parts = emitter.reshaped(emitter.value(0), (n * channels, prod(block) * windows))
    zeros = emitter.constant(np.zeros((size, n * channels), np.float32), "zeros")
    values = emitter.transposed(parts, (1, 0))
    summed = _placed(emitter, zeros, places, values, Reduce.SUM)
    back = emitter.transposed(summed, (1, 0))
    return emitter.reshaped(back, (n, channels, *image))


def _put(node: Node, emitter: Emitter, at: Value, width: int) -> Value:
    """The updates as rows of `width` elements, put at the rows `at`."""
    name = node.string("reduction", "none")
    if name not in REDUCTIONS:
        raise node.wrong(f"attribute 'reduction' must be one of {', '.join(REDUCTIONS)}")
    shape = emitter.shape(0)
    data, updates = emitter.value(0), emitter.value(2)
    if dtype_of_value(data) != dtype_of_value(updates):
        raise node.wrong(f"updates of {dtype_of_value(updates)} for {dtype_of_value(data)}")
    count = prod(shape_of_value(at))
    rows = emitter.reshaped(data, (prod(shape) // width, width))
    flat, new = emitter.reshaped(at, (count,)), emitter.reshaped(updates, (count, width))
    return emitter.reshaped(_placed(emitter, rows, flat, new, REDUCTIONS[name]), shape)


def _placed(
    emitter: Emitter, data: Value, at: Value, rows: Value, reduction: Reduce | None = None
) -> Value:
    """`graph.put` of values of the model."""
    op = PutOp(
        emitter.materialize(data), emitter.materialize(at), emitter.materialize(rows), reduction
    )
    return emitter.emit(op)
