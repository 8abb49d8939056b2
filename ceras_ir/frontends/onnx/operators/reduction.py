"""Reductions along axes, and the index of the greatest or least element."""

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import f32

from ceras_ir.dialects.graph import ArgOp, Compare, Function, Pool, Pool2dOp, Reduce, shape_of
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import Emitter, shape_of_value
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.registry import operator, rule
from ceras_ir.frontends.onnx.values import Value

Reduction = Callable[[Composer, Value, Sequence[int]], Value]


def _plain(kind: Reduce) -> Reduction:
    return lambda c, x, axes: c.reduce(kind, x, axes)


_sum = _plain(Reduce.SUM)

GREATEST = float(np.finfo(np.float32).max)
"""The greatest finite float32."""


def _log_sum_exp(c: Composer, x: Value, axes: Sequence[int]) -> Value:
    # Infinity minus infinity is NaN.
    most = c.unary(Function.CLIP, c.reduce(Reduce.MAX, x, axes), -GREATEST, GREATEST)
    total = _sum(c, c.unary(Function.EXP, c.sub(x, most)), axes)
    return c.add(c.unary(Function.LOG, total), most)


def _absolute(c: Composer, x: Value) -> Value:
    return c.unary(Function.ABS, x)


REDUCTIONS: dict[str, Reduction] = {
    "ReduceSum": _sum,
    "ReduceProd": _plain(Reduce.PRODUCT),
    "ReduceMax": _plain(Reduce.MAX),
    "ReduceMin": _plain(Reduce.MIN),
    "ReduceMean": lambda c, x, axes: c.mean(x, axes),
    "ReduceL1": lambda c, x, axes: _sum(c, _absolute(c, x), axes),
    "ReduceL2": lambda c, x, axes: c.unary(Function.SQRT, _sum(c, c.mul(x, x), axes)),
    "ReduceSumSquare": lambda c, x, axes: _sum(c, c.mul(x, x), axes),
    "ReduceLogSum": lambda c, x, axes: c.unary(Function.LOG, _sum(c, x, axes)),
    "ReduceLogSumExp": _log_sum_exp,
}
AXES_OPERAND_SINCE = {"ReduceSum": 13}
"""The opset in which axes became an operand; 18 for the others."""


@rule("Squeeze", "Unsqueeze", *REDUCTIONS)
def constant_axes(node: Node) -> str | None:
    """axes must be constants"""
    if node.has_input(1) and not node.is_constant(1):
        return "they are computed; make them an initializer"
    return None


@operator(*REDUCTIONS)
def reduce(node: Node, emitter: Emitter) -> Value:
    """Along `axes`, or all; means and maxima over height and width are poolings."""
    shape, value = emitter.shape(0), emitter.value(0)
    if node.opset < AXES_OPERAND_SINCE.get(node.operator, 18):
        given = node.integers("axes")
    else:
        given = emitter.integers(1) if node.has_input(1) else None
    keep, all_without_axes = node.flag("keepdims", True), not node.flag("noop_with_empty_axes")
    if not given and not all_without_axes:
        # What is not reduced is still squared, or its logarithm taken.
        return REDUCTIONS[node.operator](Composer(emitter), value, ())
    axes = {node.axis(a, len(shape), "axes") for a in given or range(len(shape))}
    pooled = _pooled(node, emitter, axes)
    if pooled is not None:
        result = pooled
    elif not shape:
        result = REDUCTIONS[node.operator](Composer(emitter), emitter.reshaped(value, (1,)), (0,))
        return emitter.reshaped(result, ())
    else:
        result = REDUCTIONS[node.operator](Composer(emitter), value, sorted(axes))
    if keep:
        return result
    return emitter.reshaped(result, [n for i, n in enumerate(shape) if i not in axes])


def _pooled(node: Node, emitter: Emitter, axes: set[int]) -> Value | None:
    """A pooling over the whole of a feature map, which can be quantized."""
    kinds = {"ReduceMean": Pool.AVERAGE, "ReduceMax": Pool.MAX}
    shape, value = emitter.shape(0), emitter.value(0)
    kind = kinds.get(node.operator)
    if kind is None or not emitter.is_float(value) or len(shape) != 4:
        return None
    if axes == {2, 3}:
        features = emitter.feature_map(value)
        op = Pool2dOp(kind, features, shape_of(features)[1:3], result_element=f32)
        return emitter.from_feature_map(emitter.emit(op), 4)
    if axes == {1, 2} and shape[3] != 1:
        # The model is NHWC already.
        return emitter.emit(Pool2dOp(kind, emitter.tensor(0), shape[1:3], result_element=f32))
    return None


@operator("ArgMax", "ArgMin")
def arg(node: Node, emitter: Emitter) -> Value:
    """The first index of the extreme, or the last with `select_last_index`."""
    shape = emitter.shape(0)
    axis = node.axis(node.integer("axis", 0), len(shape))
    kind = Reduce.MAX if node.operator == "ArgMax" else Reduce.MIN
    last = node.flag("select_last_index")
    keep = node.flag("keepdims", True)
    result = emitter.emit(ArgOp(kind, emitter.tensor(0), axis, last=last))
    return result if keep else emitter.reshaped(result, [*shape[:axis], *shape[axis + 1 :]])


@operator("Hardmax")
def hardmax(node: Node, emitter: Emitter) -> Value:
    """1 at the first greatest element along `axis`, else 0."""
    shape = emitter.shape(0)
    flat = node.opset < 13
    axis = node.axis(node.integer("axis", 1 if flat else -1), len(shape))
    value = emitter.value(0)
    if flat:
        rows = int(np.prod(shape[:axis])), int(np.prod(shape[axis:]))
        value, axis = emitter.reshaped(value, rows), 1
    compose = Composer(emitter)
    current = shape_of_value(value)
    first = emitter.emit(ArgOp(Reduce.MAX, emitter.materialize(value), axis))
    compose.check_indices(current[axis])
    column = [-1 if i == axis else 1 for i in range(len(current))]
    places = emitter.constant(np.arange(current[axis]).reshape(column), "places")
    chosen = compose.cast(compose.compare(Compare.EQUAL, places, first))
    return emitter.reshaped(chosen, shape)
