"""
Import operators that read or write elements at indices. Constant indices are part of the IR, other
indices are operands.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import i64

from ceras_ir.dialects.graph import Compare, PutOp, Reduce
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import constant_operands, operator
from ceras_ir.frontends.onnx.emission.values import Constant, Value, dtype_of_value, shape_of_value
from ceras_ir.frontends.onnx.model.model_file import MAX_TENSOR_ELEMENTS
from ceras_ir.frontends.onnx.model.node import Node


def _indices(emitter: Emitter) -> Value:
    indices = emitter.value(1)
    if (dtype := dtype_of_value(indices)).kind not in "iu":
        raise emitter.node.wrong(f"indices must be integers, got {dtype}")
    return indices


@operator("Gather")
def gather(node: Node, emitter: Emitter) -> Value:
    """
    Import Gather. Negative indices count from the end; an index that is computed at run time is
    clamped to the range.
    """
    return gathered_along(node, emitter, emitter.value(0), node.integer("axis", 0))


def gathered_along(node: Node, emitter: Emitter, table: Value, along: int) -> Value:
    """
    Return the elements of `table` along the axis `along` at the indices that are the second operand
    of `node`. The extents of the indices replace the axis in the shape.
    """
    shape, given = shape_of_value(table), _indices(emitter)
    axis = node.axis(along, len(shape))
    extent, count = shape[axis], prod(shape_of_value(given))
    if count * prod(shape) // extent > MAX_TENSOR_ELEMENTS:
        raise node.wrong(f"a result of {count} times {prod(shape) // extent} is too large")
    target = (*shape[:axis], *shape_of_value(given), *shape[axis + 1 :])
    if isinstance(given, Constant):
        flat = [int(i) for i in given.load().reshape(-1)]
        if outside := [i for i in flat if not -extent <= i < extent]:
            raise node.wrong(f"indices must be in [-{extent}, {extent}), got {outside[0]}")
        gathered = emitter.gathered(table, axis, [i % extent for i in flat])
        return emitter.reshaped(gathered, target)
    return emitter.reshaped(taken_along(emitter, table, axis, given), target)


@operator("GatherElements")
def gather_elements(node: Node, emitter: Emitter) -> Value:
    """
    Import GatherElements: element p of the result is the operand at p, with the index along the
    axis replaced by `indices[p]`.
    """
    shape, given = emitter.shape(0), _indices(emitter)
    axis = node.axis(node.integer("axis", 0), len(shape))
    target = shape_of_value(given)
    if len(target) != len(shape) or any(
        t > n for i, (t, n) in enumerate(zip(target, shape, strict=True)) if i != axis
    ):
        raise node.wrong(f"indices of shape {list(target)} for an operand of {list(shape)}")
    at = elements_at(emitter, given, shape, axis)
    column = emitter.reshaped(emitter.value(0), (prod(shape), 1))
    return emitter.lookup(column, at)


@operator("GatherND")
def gather_nd(node: Node, emitter: Emitter) -> Value:
    """
    Import GatherND: the last dimension of the indices has a tuple of indices for each slice,
    separately for each element of the batch dimensions.
    """
    shape, given = emitter.shape(0), _indices(emitter)
    target, batch = shape_of_value(given), node.integer("batch_dims", 0)
    depth = (0, *target)[-1]
    if not 0 <= batch < min(len(target), len(shape)) or not 1 <= depth <= len(shape) - batch:
        raise node.wrong(f"indices of shape {list(target)} for an operand of {list(shape)}")
    if shape[:batch] != target[:batch]:
        raise node.wrong(f"batches of {list(shape)} and {list(target)} differ")
    end = batch + depth
    strides = [prod(shape[i + 1 : end]) for i in range(end)]
    # A take itself counts from the end and clamps.
    at = given if end == 1 else rows_at(emitter, given, shape[batch:end])
    if batch:
        places = np.indices(shape[:batch])
        base = sum((p * s for p, s in zip(places, strides, strict=False)), np.zeros((), int))
        base = np.asarray(base).reshape((*shape[:batch], *(1,) * (len(target) - batch)))
        at = emitter.add(at, emitter.constant(base.astype(np.int64), "places"))
    rows = emitter.reshaped(emitter.value(0), (prod(shape[:end]), prod(shape[end:])))
    return emitter.reshaped(emitter.taken(rows, at), (*target[:-1], *shape[end:]))


@operator("ReverseSequence")
def reverse_sequence(node: Node, emitter: Emitter) -> Value:
    """Import ReverseSequence: reverse the first steps of each sequence, up to the length."""
    shape = emitter.shape(0)
    time, batch = node.integer("time_axis", 0), node.integer("batch_axis", 1)
    if {time, batch} != {0, 1} or len(shape) < 2:
        raise node.wrong(f"time and batch are the first two dimensions, got {time} and {batch}")
    order = [time, batch, *range(2, len(shape))]
    steps = shape[time]
    if node.is_constant(1) and len(every := np.unique(emitter.array(1))) == 1:
        length = min(max(int(every[0]), 0), steps)
        turned = [*range(length)[::-1], *range(length, steps)]
        return emitter.gathered(emitter.value(0), time, turned)
    x = emitter.transposed(emitter.value(0), order)
    return emitter.transposed(beginnings_reversed(emitter, x, emitter.value(1)), order)


def beginnings_reversed(emitter: Emitter, x: Value, lengths: Value | None) -> Value:
    """
    Reverse the first `lengths[b]` steps of each sequence b in `x` [steps, batch, ...]; the steps
    after them remain. Without `lengths`, all steps are reversed.
    """
    if lengths is None:
        return emitter.reversed(x, 0)
    steps, count = shape_of_value(x)[:2]
    lengths = emitter.cast(emitter.reshaped(lengths, (1, count)), i64)
    now = emitter.constant(np.arange(steps, dtype=np.int64).reshape(steps, 1), "steps")
    there = emitter.sub(emitter.sub(lengths, index_constant(emitter, 1)), now)
    outside = emitter.compare(Compare.LESS, there, index_constant(emitter, 0))
    return emitter.at_steps(x, emitter.select(outside, now, there))


constant_operands(
    {"Compress": [1]},
    "the condition must be constant: it decides the size of the result",
    "end the model before it and do the rest in the application",
)


@operator("Compress")
def compress(node: Node, emitter: Emitter) -> Value:
    """
    Import Compress with a constant condition: select elements along an axis or, without an axis, of
    the flat operand.
    """
    value = emitter.value(0)
    if not node.has_attribute("axis"):
        value = emitter.reshaped(value, (prod(emitter.shape(0)),))
    shape = shape_of_value(value)
    axis = node.axis(node.integer("axis", 0), len(shape))
    indices = [int(i) for i in np.flatnonzero(emitter.array(1)) if i < shape[axis]]
    return emitter.gathered(value, axis, indices)


def elements_at(emitter: Emitter, indices: Value, shape: Sequence[int], axis: int) -> Value:
    """
    Return, for each of `indices`, the row-major position in a tensor of `shape` of the element that
    GatherElements reads: at the position of the index, but with the index along `axis`.
    """
    target = shape_of_value(indices)
    strides = [prod(shape[i + 1 :]) for i in range(len(shape))]
    places = np.indices(target)
    terms = (places[i] * strides[i] for i in range(len(shape)) if i != axis)
    base = sum(terms, np.zeros(target, int))
    stride = index_constant(emitter, strides[axis])
    along = emitter.mul(counted(emitter, indices, shape[axis]), stride)
    return emitter.add(along, emitter.constant(base.astype(np.int64), "places"))


def rows_at(emitter: Emitter, indices: Value, extents: Sequence[int]) -> Value:
    """
    Return a position for each tuple along the last dimension of `indices`: the row-major index in a
    tensor with these `extents`.
    """
    at: Value | None = None
    last = len(shape_of_value(indices)) - 1
    for i, extent in enumerate(extents):
        stride = index_constant(emitter, prod(extents[i + 1 :]))
        along = emitter.mul(counted(emitter, emitter.part(indices, last, i, 1), extent), stride)
        at = along if at is None else emitter.add(at, along)
    assert at is not None
    return at


def taken_along(emitter: Emitter, x: Value, axis: int, indices: Value) -> Value:
    """
    Return the slices of `x` along `axis` at `indices`, which are computed at run time. The axis has
    an element for each index.
    """
    shape, count = shape_of_value(x), prod(shape_of_value(indices))
    rest = [i for i in range(len(shape)) if i != axis]
    first = emitter.transposed(x, (axis, *rest))
    flat = emitter.reshaped(first, (shape[axis], prod(shape[i] for i in rest)))
    rows = emitter.reshaped(emitter.taken(flat, indices), (count, *(shape[i] for i in rest)))
    order = [*range(1, axis + 1), 0, *range(axis + 1, len(shape))]
    return emitter.transposed(rows, order)


def index_constant(emitter: Emitter, number: int) -> Value:
    return emitter.constant(np.array([number], np.int64), "stride")


def counted(emitter: Emitter, indices: Value, extent: int) -> Value:
    """
    Return indices as i64, in which negative indices count from the end, clamped to [0, extent - 1].
    """
    wide = emitter.cast(indices, i64)
    below = emitter.compare(Compare.LESS, wide, index_constant(emitter, 0))
    from_end = emitter.add(wide, index_constant(emitter, extent))
    return emitter.bounded(emitter.select(below, from_end, wide), 0, extent - 1)


constant_operands(
    {"MaxUnpool": [2], "Col2Im": [1, 2]}, "sizes must be constants", "make it an initializer"
)

SCATTER_REDUCTIONS = {
    "none": None,
    "add": Reduce.SUM,
    "mul": Reduce.PRODUCT,
    "min": Reduce.MIN,
    "max": Reduce.MAX,
}


@operator("Scatter", "ScatterElements")
def scatter_elements(node: Node, emitter: Emitter) -> Value:
    """
    Import ScatterElements: write `updates[p]` at p, with the index along the axis replaced by
    `indices[p]`.
    """
    shape, given = emitter.shape(0), _indices(emitter)
    axis = node.axis(node.integer("axis", 0), len(shape))
    target, updates = shape_of_value(given), emitter.shape(2)
    if target != updates or len(target) != len(shape):
        raise node.wrong(f"indices {list(target)}, updates {list(updates)} for {list(shape)}")
    if any(t > n for i, (t, n) in enumerate(zip(target, shape, strict=True)) if i != axis):
        raise node.wrong(f"indices of shape {list(target)} for data of {list(shape)}")
    if not prod(target):
        return emitter.value(0)
    return _put(node, emitter, elements_at(emitter, given, shape, axis), 1)


@operator("ScatterND")
def scatter_nd(node: Node, emitter: Emitter) -> Value:
    """Import ScatterND: write slices at the tuples in the last dimension of the indices."""
    shape, given = emitter.shape(0), _indices(emitter)
    target, updates = shape_of_value(given), emitter.shape(2)
    depth = (0, *target)[-1]
    if not 1 <= depth <= len(shape) or updates != (*target[:-1], *shape[depth:]):
        raise node.wrong(f"indices {list(target)}, updates {list(updates)} for {list(shape)}")
    if not prod(target):
        return emitter.value(0)
    # A put itself counts from the end.
    at = given if depth == 1 else rows_at(emitter, given, shape[:depth])
    return _put(node, emitter, at, prod(shape[depth:]))


@operator("TensorScatter")
def tensor_scatter(node: Node, emitter: Emitter) -> Value:
    """
    Import TensorScatter: write an update into a cache of keys or values along an axis. Each element
    of the batch begins at a separate index.
    """
    shape, update = emitter.shape(0), emitter.shape(1)
    axis = node.axis(node.integer("axis", -2), len(shape))
    mode = node.string("mode", "linear")
    if axis == 0 or len(shape) != len(update) or mode not in ("linear", "circular"):
        raise node.wrong(f"an update of {list(update)} of {list(shape)} along axis {axis}, {mode}")
    order = [0, axis, *(i for i in range(1, len(shape)) if i != axis)]
    batch, extent, count = shape[0], shape[axis], update[axis]
    at: Value = emitter.constant(np.arange(count, dtype=np.int64).reshape(1, count), "steps")
    if node.has_input(2):
        first = emitter.cast(emitter.reshaped(emitter.value(2), (batch, 1)), i64)
        at = emitter.add(first, at)
        if mode == "circular":
            size = index_constant(emitter, extent)
            at = emitter.sub(at, emitter.mul(emitter.div(at, size), size))
    each = emitter.constant(extent * np.arange(batch, dtype=np.int64).reshape(batch, 1), "batch")
    width = prod(shape) // (batch * extent)
    data, rows = (
        emitter.reshaped(emitter.transposed(emitter.value(i), order), (batch * n, width))
        for i, n in ((0, extent), (1, count))
    )
    flat = emitter.reshaped(emitter.add(at, each), (batch * count,))
    result = emitter.reshaped(placed(emitter, data, flat, rows), [shape[i] for i in order])
    return emitter.transposed(result, [order.index(i) for i in range(len(shape))])


@operator("MaxUnpool")
def max_unpool(node: Node, emitter: Emitter) -> Value:
    """
    Import MaxUnpool: write elements at the indices that MaxPool returned, with zeros elsewhere.
    """
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
    if min(target) < 1 or prod(target) > MAX_TENSOR_ELEMENTS:
        raise node.wrong(f"a result of {target}")
    zeros = emitter.constant(np.zeros((prod(target), 1), np.float32), "zeros")
    at = emitter.reshaped(emitter.value(1), (prod(shape),))
    rows = emitter.reshaped(emitter.value(0), (prod(shape), 1))
    result = emitter.reshaped(placed(emitter, zeros, at, rows), target)
    if not node.has_input(2) or list(wanted := emitter.integers(2)) == target:
        return result
    more = [w - n for w, n in zip(wanted, target, strict=True)]
    if min(more) < 0:
        raise node.wrong(f"an output of {list(wanted)}, expected at least {target}")
    return emitter.padded(result, [0] * len(target), more)


@operator("Col2Im")
def col2im(node: Node, emitter: Emitter) -> Value:
    """Import Col2Im: place windows in an image, and add elements where windows overlap."""
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
    summed = placed(emitter, zeros, places, values, Reduce.SUM)
    back = emitter.transposed(summed, (1, 0))
    return emitter.reshaped(back, (n, channels, *image))


def _put(node: Node, emitter: Emitter, at: Value, width: int) -> Value:
    """
    Write the third operand of the node, the updates, into the first: as rows of `width` elements at
    the row numbers `at`. The attribute `reduction` combines old and new elements.
    """
    name = node.string("reduction", "none")
    if name not in SCATTER_REDUCTIONS:
        raise node.wrong(f"attribute 'reduction' must be one of {', '.join(SCATTER_REDUCTIONS)}")
    shape = emitter.shape(0)
    data, updates = emitter.value(0), emitter.value(2)
    if dtype_of_value(data) != dtype_of_value(updates):
        raise node.wrong(f"updates of {dtype_of_value(updates)} for {dtype_of_value(data)}")
    count = prod(shape_of_value(at))
    rows = emitter.reshaped(data, (prod(shape) // width, width))
    flat, new = emitter.reshaped(at, (count,)), emitter.reshaped(updates, (count, width))
    return emitter.reshaped(placed(emitter, rows, flat, new, SCATTER_REDUCTIONS[name]), shape)


def placed(
    emitter: Emitter, data: Value, at: Value, rows: Value, reduction: Reduce | None = None
) -> Value:
    """Return `data` [R, C] with `rows` [N, C] at the indices `at` [N], or combined with them."""
    operands = [emitter.materialize(value) for value in (data, at, rows)]
    return emitter.emit(PutOp(operands[0], operands[1], operands[2], reduction))
