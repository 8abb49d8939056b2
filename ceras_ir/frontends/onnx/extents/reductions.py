"""
Import reductions, softmax and normalizations on extents that data decide: elements outside of the
extents are neutral.

ONNX does not define all results for no elements. Here a mean is 0, as in ONNX Runtime, and a
maximum is minus infinity, or the smallest integer.
"""

from collections.abc import Sequence

import numpy as np

from ceras_ir.dialects.graph import Reduce
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.extents import Extent, Linear
from ceras_ir.frontends.onnx.emission.values import MAX_FLOAT32, Value, dtype_of_value
from ceras_ir.frontends.onnx.extents.registry import refused, sized, standard
from ceras_ir.frontends.onnx.extents.scalars import maximum, scalar
from ceras_ir.frontends.onnx.extents.statements import bounded, filled
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.operators.reduction import REDUCE_OPERATORS, reduced_axes

NEUTRAL = {"ReduceMax": -np.inf, "ReduceLogSumExp": -np.inf, "ReduceMin": np.inf, "ReduceProd": 1.0}
"""The neutral elements; 0 for other reductions."""


def _neutral(value: Value, number: float) -> float:
    dtype = dtype_of_value(value)
    if dtype.kind == "f" or abs(number) != np.inf:
        return number
    limits = np.iinfo(dtype.name)
    return limits.max if number > 0 else limits.min


def _count(emitter: Emitter, extents: Sequence[Extent], value: Value) -> Value:
    """Return the product of `extents`, at least 1, in the type of `value`."""
    total = scalar(emitter, 1)
    for extent in extents:
        total = emitter.mul(total, scalar(emitter, maximum(emitter, extent, 1)))
    return emitter.cast(total) if emitter.is_float(value) else total


def reduced(emitter: Emitter, operator: str, value: Value, axes: Sequence[int]) -> Value:
    """Reduce `value` along `axes`, which remain with extent 1."""
    extents = emitter.table.of(value)
    number = _neutral(value, NEUTRAL.get(operator, 0.0))
    inner = filled(emitter, value, extents, number, axes)
    if operator != "ReduceMean":
        return REDUCE_OPERATORS[operator](emitter, inner, axes)
    total = emitter.reduce(Reduce.SUM, inner, axes)
    return emitter.div(total, _count(emitter, [extents[a] for a in axes], value))


@sized(*REDUCE_OPERATORS)
def reduce(node: Node, emitter: Emitter) -> Value:
    """Import a reduction along `axes`, by default all."""
    value = emitter.value(0)
    extents = emitter.table.of(value)
    keep, axes = node.flag("keepdims", True), reduced_axes(node, emitter, len(extents))
    if axes is None:
        return bounded(emitter, REDUCE_OPERATORS[node.operator](emitter, value, ()), extents)
    result = reduced(emitter, node.operator, value, axes)
    kept = [1 if i in axes else e for i, e in enumerate(extents)]
    if keep:
        return bounded(emitter, result, kept)
    shape = [n for i, n in enumerate(emitter.shape(0)) if i not in axes]
    result = emitter.reshaped(result, shape)
    return bounded(emitter, result, [e for i, e in enumerate(extents) if i not in axes])


@sized("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: Node, emitter: Emitter) -> Value:
    """Import a global pooling: reduce all dimensions after the channels."""
    value = emitter.value(0)
    extents = emitter.table.of(value)
    operator = "ReduceMean" if node.operator == "GlobalAveragePool" else "ReduceMax"
    result = reduced(emitter, operator, value, range(2, len(extents)))
    return bounded(emitter, result, [*extents[:2], *(1,) * (len(extents) - 2)])


@sized("ArgMax", "ArgMin")
def arg(node: Node, emitter: Emitter) -> Value:
    """Import ArgMax or ArgMin."""
    value = emitter.value(0)
    extents = emitter.table.of(value)
    axis = node.axis(node.integer("axis", 0), len(extents))
    number = _neutral(value, -np.inf if node.operator == "ArgMax" else np.inf)
    if node.flag("select_last_index") and isinstance(extents[axis], Linear):
        raise refused(emitter, f"with select_last_index, of '{node.inputs[0]}'")
    result = standard(node, emitter, {0: filled(emitter, value, extents, number, [axis])})
    one = [1] if node.flag("keepdims", True) else []
    return bounded(emitter, result, [*extents[:axis], *one, *extents[axis + 1 :]])


MASKED_SCORE = -MAX_FLOAT32 / 2
"""The score of elements outside; the difference from any score is finite, the exponential 0."""


@sized("Softmax", "LogSoftmax")
def softmax(node: Node, emitter: Emitter) -> Value:
    """Import Softmax or LogSoftmax along `axis`; before opset 13 over all dimensions from it on."""
    value = emitter.value(0)
    extents = emitter.table.of(value)
    axis = node.axis(node.integer("axis", 1 if node.opset < 13 else -1), len(extents))
    axes = range(axis, len(extents) if node.opset < 13 else axis + 1)
    inner = filled(emitter, value, extents, MASKED_SCORE, axes)
    return bounded(emitter, standard(node, emitter, {0: inner}), extents)


@sized("LayerNormalization", "RMSNormalization", "LpNormalization")
def normalization(node: Node, emitter: Emitter) -> Value:
    """Import a normalization along axes with extents that are known."""
    extents = emitter.table.of(emitter.value(0))
    axis = node.axis(node.integer("axis", -1), len(extents))
    last = axis + 1 if node.operator == "LpNormalization" else len(extents)
    if any(isinstance(e, Linear) for e in extents[axis:last]):
        raise refused(emitter, f"of '{node.inputs[0]}'")
    return bounded(emitter, standard(node, emitter, {}), extents)
