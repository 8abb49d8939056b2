"""Import pooling over up to three spatial dimensions."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from math import prod

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, i64

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Function, Pool, Pool2dOp, Reduce, element_of, shape_of
from ceras_ir.dialects.graph.constant import is_integer
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import operator, rule
from ceras_ir.frontends.onnx.emission.values import Value, shape_of_value
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.operators.convolution import SpatialWindow, read_window, taps_of

MAX_INDEXED_MAXIMA = 1 << 22
"""Maximum number of maxima with indices; a constant has the start of each window."""


@operator("AveragePool", "MaxPool")
def pool(node: Node, emitter: Emitter) -> Value | Sequence[Value]:
    """
    Import AveragePool or MaxPool. With `ceil_mode`, padding is added at the end, which neither of
    them counts.
    """
    shape = _shape(node, emitter)
    window = read_window(node, shape[2:])
    if window.depth is not None:
        return _deep_pool(node, emitter, window, window.depth)
    for i in range(4):
        if window.padding[i] >= (window.kernel[i % 2] - 1) * window.dilations[i % 2] + 1:
            padding, kernel = list(window.padding), list(window.kernel)
            raise node.wrong(f"padding {padding} must be smaller than the window {kernel}")
    order = node.integer("storage_order", 0)
    counts = node.operator == "AveragePool" and node.flag("count_include_pad")
    if counts and any(window.overhang) and not node.flag("ceil_mode"):
        raise node.unsupported(
            "count_include_pad with a window that exceeds the padding, which ONNX and ONNX "
            "Runtime average differently; write the padding as 'pads'"
        )
    features = emitter.feature_map(emitter.value(0))
    if node.operator == "MaxPool" and node.has_output(1):
        return _with_indices(node, emitter, window, order == 1)
    if is_integer(element_of(features)):
        if node.operator != "MaxPool":
            raise node.unsupported("averages of integers; insert a Cast to float before the node")
        maxima = reduce(partial(emitter.binary, Binary.MAX), _taps(emitter, window))
        return emitter.from_feature_map(maxima, len(shape))
    result = _pooled(emitter, _kind_of(node), features, window, counts)
    return emitter.from_feature_map(result, len(shape))


def _kind_of(node: Node) -> Pool:
    return Pool.MAX if node.operator.endswith("MaxPool") else Pool.AVERAGE


def _pooled(emitter: Emitter, kind: Pool, x: Value, window: SpatialWindow, counts: bool) -> Value:
    if counts and any(window.overhang):
        # The padding of the model becomes zeros, which count; the overhang does not count.
        top, left, bottom, right = window.padding
        down, across = window.overhang
        x = emitter.padded(x, (0, top, left, 0), (0, bottom - down, right - across, 0))
        window = replace(window, padding=(0, 0, down, across), overhang=(0, 0))
        counts = False
    features = emitter.materialize(x)
    return emitter.emit(
        Pool2dOp(
            kind,
            features,
            window.kernel,
            result_element=element_of(features),
            strides=window.strides,
            padding=window.padding,
            dilations=window.dilations,
            count_include_pad=counts,
        )
    )


def _deep_pool(node: Node, emitter: Emitter, flat: SpatialWindow, deep: SpatialWindow) -> Value:
    n, c, d, h, w = emitter.shape(0)
    kind = _kind_of(node)
    node.ignore("storage_order")
    counts = kind is Pool.AVERAGE and node.flag("count_include_pad")
    if node.has_output(1):
        raise node.unsupported("indices in 3 dimensions; remove their consumers")
    x = emitter.transposed(emitter.value(0), (0, 2, 3, 4, 1))
    x = _pooled(emitter, kind, emitter.reshaped(x, (n * d, h, w, c)), flat, counts)
    _, oh, ow, _ = shape_of_value(x)
    x = emitter.reshaped(x, (n, d, oh * ow, c))
    x = _pooled(emitter, kind, x, deep, counts)
    x = emitter.reshaped(x, (n, shape_of_value(x)[1], oh, ow, c))
    return emitter.transposed(x, (0, 4, 1, 2, 3))


def _taps(emitter: Emitter, window: SpatialWindow) -> list[Value]:
    features, count = emitter.feature_map(emitter.value(0)), prod(window.kernel)
    lowest: FloatAttr | IntegerAttr = FloatAttr(-np.inf, f32)
    if (element := element_of(features)) != f32:
        lowest = IntegerAttr(np.iinfo(graph.numpy_dtype(element).name).min, i64)
    if count > 1 << 10:
        raise emitter.node.unsupported(f"a window of {count} elements, expected at most 1024")
    return taps_of(emitter, features, window, lowest)


def _with_indices(
    node: Node, emitter: Emitter, window: SpatialWindow, column_major: bool
) -> Sequence[Value]:
    """
    Return the maxima of the windows, and for each of them the position of the first maximal element
    in the input. As in ONNX, the position is a flat index into the entire tensor [N, C, H, W]:
    `((n * C + c) * H + y) * W + x`, or `((n * C + c) * W + x) * H + y` if `column_major`.
    """
    shape = emitter.shape(0)
    rank = len(shape)
    taps = _taps(emitter, window)
    n, rows, columns, c = shape_of_value(taps[0])
    if n * rows * columns * c > MAX_INDEXED_MAXIMA:
        raise node.unsupported(f"more than {MAX_INDEXED_MAXIMA} indices; remove their consumers")
    stacked = emitter.joined([emitter.reshaped(t, (1, n, rows, columns, c)) for t in taps], 0)
    number = emitter.emit(graph.ArgOp(Reduce.MAX, emitter.materialize(stacked), 0))
    number = emitter.reshaped(number, (n, rows, columns, c))
    maxima = emitter.reshaped(emitter.reduce(Reduce.MAX, stacked, [0]), (n, rows, columns, c))
    height, width = shape[-2] if rank == 4 else 1, shape[-1]
    (_, kw), (dy, dx) = window.kernel, window.dilations
    down, right = (1, height) if column_major else (width, 1)
    # Tap k is at row k / kw and column k - (k / kw) * kw of the window.
    row = emitter.binary(Binary.DIV, number, emitter.number(kw, number))
    offset = emitter.add(
        emitter.mul(row, emitter.number(dy * down - dx * right * kw, number)),
        emitter.mul(number, emitter.number(dx * right, number)),
    )
    y = np.arange(rows) * window.strides[0] - window.padding[0]
    x = np.arange(columns) * window.strides[1] - window.padding[1]
    plane = (y[:, None] * down + x[None, :] * right)[None, :, :, None]
    image = np.arange(n)[:, None] * c + np.arange(c)[None, :]
    starts = plane + image[:, None, None, :] * (height * width)
    index = emitter.add(offset, emitter.constant(starts.astype(np.int64), "starts"))
    return [emitter.from_feature_map(v, rank) for v in (maxima, index)]


@operator("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: Node, emitter: Emitter) -> Value:
    """Import a global pooling: a single window covers each channel of the input."""
    shape = _shape(node, emitter)
    flat = emitter.reshaped(emitter.value(0), (*shape[:2], prod(shape[2:-1]), shape[-1]))
    features = emitter.feature_map(flat)
    op = Pool2dOp(_kind_of(node), features, shape_of(features)[1:3], result_element=f32)
    result = emitter.from_feature_map(emitter.emit(op), 4)
    return emitter.reshaped(result, (*shape[:2], *(1,) * (len(shape) - 2)))


@operator("LpPool", "GlobalLpPool")
def lp_pool(node: Node, emitter: Emitter) -> Value:
    """
    Import LpPool: `(sum of abs(x) ** p over the window) ** (1 / p)`. The sum is the average, with
    padding, times the size of the window.
    """
    shape, value = _shape(node, emitter), emitter.value(0)
    power = node.integer("p", 2)
    if power < 1:
        raise node.wrong(f"attribute 'p' must be >= 1, got {power}")
    if len(shape) > 4:
        raise node.unsupported(f"{len(shape) - 2} spatial dimensions, expected one or two")
    raised = emitter.mul(value, value) if power == 2 else emitter.unary(Function.ABS, value)
    if power > 2:
        raised = emitter.binary(Binary.POW, raised, emitter.number(power))
    if node.operator == "GlobalLpPool":
        features = emitter.feature_map(raised)
        size = shape_of(features)[1:3]
        mean: Value = emitter.emit(Pool2dOp(Pool.AVERAGE, features, size, result_element=f32))
    else:
        # The overhang counts too, because sums at the edge have the same number of terms.
        window = replace(read_window(node, shape[2:]), overhang=(0, 0))
        size = window.kernel
        mean = _pooled(emitter, Pool.AVERAGE, emitter.feature_map(raised), window, True)
    total = emitter.mul(mean, emitter.number(prod(size)))
    root = total if power == 1 else emitter.unary(Function.SQRT, total)
    if power > 2:
        root = emitter.binary(Binary.POW, total, emitter.number(1 / power))
    return emitter.from_feature_map(root, len(shape))


@rule("MaxPool")
def known_order(node: Node) -> str | None:
    """storage_order must be 0 or 1"""
    order = node.integer("storage_order", 0)
    return None if order in (0, 1) else f"got {order}"


def _shape(node: Node, emitter: Emitter) -> tuple[int, ...]:
    shape = emitter.shape(0)
    if len(shape) < 3:
        raise node.wrong(f"input of shape {list(shape)} has no spatial dimension")
    if len(shape) > 5:
        raise node.unsupported(f"{len(shape) - 2} spatial dimensions, expected one to three")
    return shape
