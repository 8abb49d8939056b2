"""Import reductions, softmax, sorting, cumulative sums, and the suppression of boxes."""

from collections.abc import Callable, Sequence
from math import inf, prod

import numpy as np
from xdsl.dialects.builtin import f32

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import ArgOp, Binary, Function, Pool, Pool2dOp, Reduce, SuppressOp
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import (
    COMPUTED_REMEDY,
    constant_operands,
    operator,
    rule,
)
from ceras_ir.frontends.onnx.emission.values import (
    MAX_FLOAT32,
    Value,
    dtype_of_value,
    shape_of_value,
)
from ceras_ir.frontends.onnx.model.node import Node

ReduceAlong = Callable[[Emitter, Value, Sequence[int]], Value]


def _plain(kind: Reduce) -> ReduceAlong:
    return lambda c, x, axes: c.reduce(kind, x, axes)


_sum = _plain(Reduce.SUM)


def _log_sum_exp(c: Emitter, x: Value, axes: Sequence[int]) -> Value:
    # A finite maximum, because the difference of two infinities is NaN.
    maximum = c.unary(Function.CLIP, c.reduce(Reduce.MAX, x, axes), -MAX_FLOAT32, MAX_FLOAT32)
    total = _sum(c, c.unary(Function.EXP, c.sub(x, maximum)), axes)
    return c.add(c.unary(Function.LOG, total), maximum)


REDUCE_OPERATORS: dict[str, ReduceAlong] = {
    "ReduceSum": _sum,
    "ReduceProd": _plain(Reduce.PRODUCT),
    "ReduceMax": _plain(Reduce.MAX),
    "ReduceMin": _plain(Reduce.MIN),
    "ReduceMean": lambda c, x, axes: c.mean(x, axes),
    "ReduceL1": lambda c, x, axes: _sum(c, c.unary(Function.ABS, x), axes),
    "ReduceL2": lambda c, x, axes: c.unary(Function.SQRT, _sum(c, c.mul(x, x), axes)),
    "ReduceSumSquare": lambda c, x, axes: _sum(c, c.mul(x, x), axes),
    "ReduceLogSum": lambda c, x, axes: c.unary(Function.LOG, _sum(c, x, axes)),
    "ReduceLogSumExp": _log_sum_exp,
}
AXES_OPERAND_SINCE = {"ReduceSum": 13}
"""The opset since which the axes are an operand; 18 for other operators."""


@rule("Squeeze", "Unsqueeze", *REDUCE_OPERATORS)
def constant_axes(node: Node) -> str | None:
    """axes must be constants"""
    if node.has_input(1) and not node.is_constant(1):
        return node.computed(1, "make it an initializer")
    return None


def reduced_axes(node: Node, emitter: Emitter, rank: int) -> list[int] | None:
    """Return the sorted axes of a reduction, by default all; None if nothing is reduced."""
    if node.opset < AXES_OPERAND_SINCE.get(node.operator, 18):
        given = node.integers("axes")
    else:
        given = emitter.integers(1) if node.has_input(1) else None
    all_without_axes = not node.flag("noop_with_empty_axes")
    if not given and not all_without_axes:
        return None
    return sorted({node.axis(a, rank, "axes") for a in given or range(rank)})


@operator(*REDUCE_OPERATORS)
def reduce(node: Node, emitter: Emitter) -> Value:
    """
    Import a reduction such as ReduceMean along `axes`, by default all. Means and maxima over height
    and width become poolings.
    """
    shape, value = emitter.shape(0), emitter.value(0)
    keep, found = node.flag("keepdims", True), reduced_axes(node, emitter, len(shape))
    if found is None:
        # Without a reduction, elements are still squared, or their logarithm is computed.
        return REDUCE_OPERATORS[node.operator](emitter, value, ())
    axes = set(found)
    pooled = _pooled(node, emitter, axes)
    if pooled is not None:
        result = pooled
    elif not shape:
        result = REDUCE_OPERATORS[node.operator](emitter, emitter.reshaped(value, (1,)), (0,))
        return emitter.reshaped(result, ())
    else:
        result = REDUCE_OPERATORS[node.operator](emitter, value, sorted(axes))
    if keep:
        return result
    return emitter.reshaped(result, [n for i, n in enumerate(shape) if i not in axes])


def _pooled(node: Node, emitter: Emitter, axes: set[int]) -> Value | None:
    kinds = {"ReduceMean": Pool.AVERAGE, "ReduceMax": Pool.MAX}
    shape, value = emitter.shape(0), emitter.value(0)
    kind = kinds.get(node.operator)
    if kind is None or not emitter.is_float(value) or len(shape) != 4:
        return None
    if axes == {2, 3}:
        features = emitter.feature_map(value)
        op = Pool2dOp(kind, features, graph.shape_of(features)[1:3], result_element=f32)
        return emitter.from_feature_map(emitter.emit(op), 4)
    if axes == {1, 2} and shape[3] != 1:
        # The model is in NHWC layout.
        return emitter.emit(Pool2dOp(kind, emitter.tensor(0), shape[1:3], result_element=f32))
    return None


@operator("ArgMax", "ArgMin")
def arg(node: Node, emitter: Emitter) -> Value:
    """
    Import ArgMax or ArgMin: the first index of the extreme element, or the last with
    `select_last_index`.
    """
    shape = emitter.shape(0)
    axis = node.axis(node.integer("axis", 0), len(shape))
    kind = Reduce.MAX if node.operator == "ArgMax" else Reduce.MIN
    last = node.flag("select_last_index")
    keep = node.flag("keepdims", True)
    result = emitter.emit(ArgOp(kind, emitter.tensor(0), axis, last=last))
    return result if keep else emitter.reshaped(result, [*shape[:axis], *shape[axis + 1 :]])


@operator("Hardmax")
def hardmax(node: Node, emitter: Emitter) -> Value:
    """Import Hardmax: 1 at the first maximum along `axis`, else 0."""
    value, axis = _along_axis(node, emitter)
    current = shape_of_value(value)
    first = emitter.emit(ArgOp(Reduce.MAX, emitter.materialize(value), axis))
    emitter.check_indices(current[axis])
    column = [-1 if i == axis else 1 for i in range(len(current))]
    places = emitter.constant(np.arange(current[axis]).reshape(column), "places")
    chosen = emitter.cast(emitter.compare(graph.Compare.EQUAL, places, first))
    return emitter.reshaped(chosen, emitter.shape(0))


def _along_axis(node: Node, emitter: Emitter) -> tuple[Value, int]:
    """
    Return the operand and the dimension for Softmax. Before opset 13, all dimensions from `axis` on
    are merged into one.
    """
    shape, is_flat = emitter.shape(0), node.opset < 13
    axis = node.axis(node.integer("axis", 1 if is_flat else -1), len(shape))
    if not is_flat or prod(shape[axis + 1 :]) == 1:
        return emitter.value(0), axis
    return emitter.reshaped(emitter.value(0), (prod(shape[:axis]), prod(shape[axis:]))), 1


@operator("Softmax", "LogSoftmax")
def softmax(node: Node, emitter: Emitter) -> Value:
    """
    Import Softmax or LogSoftmax along `axis`; before opset 13 over all dimensions from `axis` on.
    """
    value, axis = _along_axis(node, emitter)
    if node.operator == "Softmax":
        result: Value = emitter.emit(graph.SoftmaxOp(emitter.materialize(value), axis))
    else:
        # `(x - max) - log(sum of exp(x - max))`
        centered = emitter.sub(value, emitter.reduce(Reduce.MAX, value, [axis]))
        total = emitter.reduce(Reduce.SUM, emitter.unary(Function.EXP, centered), [axis])
        result = emitter.sub(centered, emitter.unary(Function.LOG, total))
    return emitter.reshaped(result, emitter.shape(0))


constant_operands({"TopK": [1]}, "k must be a constant", COMPUTED_REMEDY)


@operator("TopK")
def top_k(node: Node, emitter: Emitter) -> list[Value]:
    """
    Import TopK: the `k` largest elements, the largest first, and their indices; with `largest=0`,
    the smallest. Equal elements are in the order of their indices, and NaN is last, even if
    `sorted=0` permits any order.
    """
    node.ignore("sorted")
    shape = emitter.shape(0)
    axis = node.axis(node.integer("axis", -1), len(shape))
    given = emitter.integers(1) if node.opset >= 10 else (node.integer("k", 0),)
    k, n = (given or (0,))[0], shape[axis]
    if not 1 <= k <= n:
        raise node.wrong(f"k must be in [1, {n}], got {k}")
    order = [*(i for i in range(len(shape)) if i != axis), axis]
    rows = emitter.transposed(emitter.value(0), order)
    outer = shape_of_value(rows)[:-1]
    count = int(np.prod(outer))
    kind = Reduce.MAX if node.flag("largest", True) else Reduce.MIN
    rows = emitter.materialize(emitter.reshaped(rows, (count, n)))
    index = emitter.emit(graph.TopKOp(kind, rows, k))
    back = [order.index(i) for i in range(len(shape))]
    return [
        emitter.transposed(emitter.reshaped(part, (*outer, k)), back)
        for part in (_gathered(emitter, rows, index), index)
    ]


def _gathered(emitter: Emitter, rows: Value, index: Value) -> Value:
    (count, n), (_, k) = shape_of_value(rows), shape_of_value(index)
    starts = n * np.arange(count, dtype=np.int64).reshape(count, 1)
    at = emitter.add(index, emitter.constant(starts, "starts"))
    column = emitter.reshaped(rows, (count * n, 1))
    return emitter.reshaped(emitter.taken(column, at), (count, k))


constant_operands(
    {"NonMaxSuppression": [2, 3, 4]},
    "the maximum number of boxes and both thresholds must be constants",
    COMPUTED_REMEDY,
)


@operator("NonMaxSuppression")
def non_max_suppression(node: Node, emitter: Emitter) -> Value:
    """
    Import NonMaxSuppression. The result has the number of rows that the model declares, or the
    largest possible number; unused rows are -1.
    """
    boxes, scores = emitter.shape(0), emitter.shape(1)
    if len(boxes) != 3 or len(scores) != 3 or boxes[2] != 4 or boxes[::2] != (scores[0], 4):
        raise node.wrong(f"boxes of {list(boxes)} and scores of {list(scores)}")
    limit = emitter.integers(2)[0] if node.has_input(2) else 0
    if limit < 1:
        raise node.unsupported(f"max_output_boxes_per_class must be at least 1, got {limit}")
    overlap = float(emitter.floats(3).reshape(-1)[0]) if node.has_input(3) else 0.0
    lowest = float(emitter.floats(4).reshape(-1)[0]) if node.has_input(4) else -inf
    parts: list[Value] = [emitter.part(emitter.value(0), 2, i, 1) for i in range(4)]
    if node.flag("center_point_box"):
        x, y, width, height = parts
        half = emitter.number(0.5)
        halves = [(y, emitter.mul(height, half)), (x, emitter.mul(width, half))]
        parts = [*(emitter.sub(*pair) for pair in halves), *(emitter.add(*pair) for pair in halves)]
    sides = [
        emitter.binary(kind, parts[i], parts[i + 2])
        for kind in (Binary.MIN, Binary.MAX)
        for i in range(2)
    ]
    corners = emitter.materialize(emitter.joined(sides, 2))
    declared = emitter.declared.get(node.outputs[0])
    limit = min(limit, boxes[1])
    rows = declared[0] if declared else scores[0] * scores[1] * limit
    return emitter.emit(SuppressOp(corners, emitter.tensor(1), rows, limit, (overlap, lowest)))


constant_operands(
    {"CumSum": [1], "CumProd": [1]}, "the axis must be a constant", "make it an initializer"
)

MAX_CUMULATED = 1 << 10
"""Maximum number of elements along an axis that are added sequentially."""


@operator("CumSum", "CumProd")
def cumulate(node: Node, emitter: Emitter) -> Value:
    """
    Import CumSum or CumProd along an axis, in either direction. Sums of integers need fewer
    operations.
    """
    x = emitter.value(0)
    shape = shape_of_value(x)
    axis = node.axis(int(emitter.array(1).reshape(-1)[0]), len(shape))
    backwards, exclusive = node.flag("reverse"), node.flag("exclusive")
    if node.operator == "CumSum" and dtype_of_value(x).kind in "iu":
        turned = emitter.reversed(x, axis) if backwards else x
        sums = emitter.running_sum(turned, axis)
        sums = emitter.sub(sums, turned) if exclusive else sums
        return emitter.reversed(sums, axis) if backwards else sums
    extent = shape[axis]
    if extent > MAX_CUMULATED:
        raise node.unsupported(f"{extent} elements, expected at most {MAX_CUMULATED}; split it")
    kind = Binary.ADD if node.operator == "CumSum" else Binary.MUL
    neutral = np.full(
        [1 if i == axis else n for i, n in enumerate(shape)],
        node.operator == "CumProd",
        dtype_of_value(x),
    )
    order = range(extent)[::-1] if backwards else range(extent)
    parts = [emitter.part(x, axis, i, 1) for i in order]
    found: list[Value] = [emitter.constant(neutral, "start")] if exclusive else [parts.pop(0)]
    for part in parts[: extent - 1]:
        first = exclusive and len(found) == 1
        found.append(part if first else emitter.binary(kind, found[-1], part))
    return emitter.joined(found[::-1] if backwards else found, axis)
