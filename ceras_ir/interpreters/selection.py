"""
Select, reduce, compare, cast, normalize rows, choose boxes, evaluate trees: the meaning in numpy.
"""

from collections.abc import Iterator
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    impl,
    register_impls,
)

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.normalization import (
    FRACTION,
    RECIPROCAL,
    IntegerNormalizeOp,
    IntegerSoftmaxOp,
    NormalizeOp,
)
from ceras_ir.dialects.graph.operation import shape_of, stored_element
from ceras_ir.interpreters.graph import cast, combine, compare
from ceras_ir.interpreters.windows import index_of_extreme, reduce_rows
from ceras_ir.network import integer
from ceras_ir.network.resampling import border_indices

Array = NDArray[np.generic]

COMBINED = {
    graph.Reduce.SUM: graph.Binary.ADD,
    graph.Reduce.PRODUCT: graph.Binary.MUL,
    graph.Reduce.MAX: graph.Binary.MAX,
    graph.Reduce.MIN: graph.Binary.MIN,
}
"""The elementwise operation that a reduction repeats."""


def chosen(condition: NDArray[np.bool_], lhs: Array, rhs: Array) -> Array:
    """`graph.select`."""
    left, right, where = np.broadcast_arrays(lhs, rhs, condition)
    result = right.copy()
    np.copyto(result, left, where=where)
    return result


def _turns(places: NDArray[np.int64]) -> Iterator[NDArray[np.intp]]:
    """Split positions into groups: the first of each place, then the second, and so on."""
    order = np.argsort(places, kind="stable")
    counts = np.unique(places, return_counts=True)[1]
    starts = np.cumsum(counts) - counts
    for turn in range(counts.max(initial=0)):
        yield order[starts[counts > turn] + turn]


@register_impls
class SelectionFunctions(InterpreterFunctions):
    """One method per operation; arrays have the stored type of their elements."""

    @impl(graph.SliceOp)
    def slice(self, interpreter: Interpreter, op: graph.SliceOp, args: PythonValues):
        (x,) = args
        for axis, (start, stride, size) in enumerate(
            zip(
                op.starts.get_values(),
                op.strides.get_values(),
                graph.shape_of(op.result),
                strict=True,
            )
        ):
            end = start + size * stride
            taken = slice(start, end if end >= 0 else None, stride)
            x = x[(slice(None),) * axis + (taken,)]
        return (np.ascontiguousarray(x).reshape(graph.shape_of(op.result)),)

    @impl(graph.GatherOp)
    def gather(self, interpreter: Interpreter, op: graph.GatherOp, args: PythonValues):
        return (np.take(args[0], op.indices.get_values(), axis=op.axis.value.data),)

    @impl(graph.TakeOp)
    def take(self, interpreter: Interpreter, op: graph.TakeOp, args: PythonValues):
        x, indices = args
        rows = np.int64(len(x))
        given: NDArray[np.int64] = indices.astype(np.int64)
        counted = np.where(given < 0, given + rows, given)
        return (np.take(x, np.minimum(np.maximum(counted, 0), rows - 1), axis=0),)

    @impl(graph.PutOp)
    def put(self, interpreter: Interpreter, op: graph.PutOp, args: PythonValues):
        x, indices, rows = args
        result: Array = x.copy()
        count = len(x)
        given: NDArray[np.int64] = indices.astype(np.int64)
        places = np.where(given < 0, given + count, given)
        inside = (places >= 0) & (places < count)
        places, rows = places[inside], rows[inside]
        if (kind := op.function) is None:
            # numpy keeps the last row of equal indices.
            result[places] = rows
            return (result,)
        for turn in _turns(places):
            at = places[turn]
            result[at] = combine(COMBINED[kind], result[at], rows[turn])
        return (result,)

    @impl(graph.PadOp)
    def pad(self, interpreter: Interpreter, op: graph.PadOp, args: PythonValues):
        (x,) = args
        low, high = op.low.get_values(), op.high.get_values()
        if op.function is not graph.Pad.CONSTANT:
            for axis, before in enumerate(low):
                indices = border_indices(op.function, x.shape[axis], before, high[axis])
                x = np.take(x, indices, axis=axis)
            return (x,)
        result = np.full(graph.shape_of(op.result), op.stored_value, x.dtype)
        inside = tuple(
            slice(a, a + (n - 1) * (i + 1) + 1, i + 1)
            for n, a, i in zip(x.shape, low, op.interior.get_values(), strict=True)
        )
        result[inside] = x
        return (result,)

    @impl(graph.ReduceOp)
    def reduce(self, interpreter: Interpreter, op: graph.ReduceOp, args: PythonValues):
        (x,) = args
        axes = op.axes.get_values()
        kept = [i for i in range(x.ndim) if i not in axes]
        shape = graph.shape_of(op.result)
        rows = x.transpose([*axes, *kept]).reshape(-1, prod(shape))
        return (reduce_rows(op.function, rows).reshape(shape),)

    @impl(graph.ArgOp)
    def arg(self, interpreter: Interpreter, op: graph.ArgOp, args: PythonValues):
        x: Array = np.moveaxis(args[0], op.axis.value.data, 0)
        index = index_of_extreme(op.function, x.reshape(len(x), -1), last=op.takes_last)
        return (index.reshape(graph.shape_of(op.result)),)

    @impl(graph.TopKOp)
    def top_k(self, interpreter: Interpreter, op: graph.TopKOp, args: PythonValues):
        x: Array = args[0]
        if op.function is graph.Reduce.MAX:
            # Backwards, so that of equal elements the last here is the first there.
            order = x.shape[-1] - 1 - np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]
        else:
            order = np.argsort(x, axis=-1, kind="stable")
        is_nan = np.not_equal(x, x)
        if is_nan.any():
            behind = np.take_along_axis(is_nan, order, -1)
            order = np.take_along_axis(order, np.argsort(behind, axis=-1, kind="stable"), -1)
        count = graph.shape_of(op.result)[-1]
        return (np.ascontiguousarray(order[..., :count], np.int64),)

    @impl(graph.CompareOp)
    def compare(self, interpreter: Interpreter, op: graph.CompareOp, args: PythonValues):
        return (compare(op.function, args[0], args[1]),)

    @impl(graph.SelectOp)
    def select(self, interpreter: Interpreter, op: graph.SelectOp, args: PythonValues):
        return (chosen(*args),)

    @impl(graph.CastOp)
    def cast(self, interpreter: Interpreter, op: graph.CastOp, args: PythonValues):
        return (cast(args[0], graph.numpy_dtype(graph.element_of(op.result))),)


Integers = NDArray[np.int64]


def _mean(x: NDArray[np.float32]) -> NDArray[np.float32]:
    # cumsum adds in index order; np.sum would add in pairs.
    total = np.cumsum(x, axis=-1, dtype=np.float32)[..., -1:]
    return total / np.float32(x.shape[-1])


def normalize(
    x: NDArray[np.float32], epsilon: float, *, centred: bool
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """`graph.normalize` before its scale, and what was divided by."""
    c = x - _mean(x) if centred else x
    deviation = np.sqrt(np.add(_mean(c * c), np.float32(epsilon), dtype=np.float32))
    return np.divide(c, deviation), deviation


def _shifted(x: Integers, shift: int | Integers) -> Integers:
    """To the left, or to the right and rounded half up."""
    shift = np.asarray(shift, np.int64)
    right = np.maximum(-shift, 0)
    half = np.where(right > 0, np.left_shift(1, np.maximum(right - 1, 0)), 0)
    return np.right_shift(np.left_shift(x, np.maximum(shift, 0)) + half, right)


def _shifted_evenly(x: Integers, by: Integers) -> Integers:
    """By twice as many bits to the right, or to the left if below 0."""
    right = np.right_shift(x, np.maximum(2 * by, 0))
    return np.left_shift(right, np.maximum(-2 * by, 0))


def _log2(x: Integers) -> Integers:
    """Of the highest bit that is set, the number."""
    result = np.zeros_like(x)
    for step in (32, 16, 8, 4, 2, 1):
        high = np.right_shift(x, step) > 0
        result = np.where(high, result + step, result)
        x = np.where(high, np.right_shift(x, step), x)
    return result


@register_impls
class NormalizationFunctions(InterpreterFunctions):
    """One method per operation."""

    @impl(NormalizeOp)
    def normalize(self, interpreter: Interpreter, op: NormalizeOp, args: PythonValues):
        x, scale, *bias = args
        y, _ = normalize(x, op.epsilon.value.data, centred=op.is_centred)
        y = y * scale
        return (y + bias[0] if bias else y,)

    @impl(IntegerNormalizeOp)
    def integer_normalize(
        self, interpreter: Interpreter, op: IntegerNormalizeOp, args: PythonValues
    ):
        stored, scale, bias = args
        element = stored_element(op.input)
        q: Integers = stored.astype(np.int64) - integer.zero_points(element, stored.ndim)
        if op.is_centred:
            q = q * q.shape[-1] - q.sum(axis=-1, keepdims=True)
        c = _shifted(q, op.shift)
        w = (c * c).sum(axis=-1, keepdims=True) + op.epsilon.value.data
        t = (_log2(w) - 30) >> 1
        even: Integers = _shifted_evenly(w, t)
        # Below 2^32, so that the root in double precision is off by less than what is cut.
        root = np.floor(np.sqrt(even.astype(np.float64))).astype(np.int64)
        m = (op.root << 17) // root
        z = _shifted(c * m, FRACTION - 17 - op.root_shift - t)
        total = z * scale.astype(np.int64) + bias.astype(np.int64)
        return (integer.requantize(total, op.requant, stored_element(op.result)),)

    @impl(IntegerSoftmaxOp)
    def integer_softmax(self, interpreter: Interpreter, op: IntegerSoftmaxOp, args: PythonValues):
        stored, table = args
        axis, q = op.axis.value.data, stored.astype(np.int64)
        d = np.minimum(q.max(axis=axis, keepdims=True) - q, shape_of(op.table)[0] - 1)
        e: Integers = table.astype(np.int64)[d]
        reciprocal = ((1 << RECIPROCAL) - 1) // e.sum(axis=axis, keepdims=True)
        return (integer.requantize(e * reciprocal, op.requant, stored_element(op.result)),)


def chosen_boxes(
    boxes: NDArray[np.float32], scores: NDArray[np.float32], most: int, overlap: np.float32
) -> list[int]:
    """The boxes [N, 4] of one image and class that are chosen, in their order; -inf is no score."""
    left = scores.copy()
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], np.float32(0))
    areas = sides[:, 0] * sides[:, 1]
    found: list[int] = []
    while len(found) < most and left.max() > -np.inf:
        best = int(left.argmax())
        found.append(best)
        first = np.maximum(boxes[:, :2], boxes[best, :2])
        last = np.minimum(boxes[:, 2:], boxes[best, 2:])
        shared = np.maximum(last - first, np.float32(0)).prod(axis=1, dtype=np.float32)
        union = areas[best] + areas - shared
        counts = (shared > 0) & (areas > 0) & (areas[best] > 0) & (union > 0)
        left[counts & (shared / union > overlap)] = -np.inf
        left[best] = -np.inf
    return found


@register_impls
class DetectionFunctions(InterpreterFunctions):
    """`graph.suppress`."""

    @impl(graph.SuppressOp)
    def suppress(self, interpreter: Interpreter, op: graph.SuppressOp, args: PythonValues):
        boxes, scores = args
        least, overlap = np.float32(op.least.value.data), np.float32(op.overlap.value.data)
        most = op.most.value.data
        rows = [
            (image, kind, box)
            for image, kinds in enumerate(np.where(scores > least, scores, -np.inf))
            for kind, of_kind in enumerate(kinds)
            for box in chosen_boxes(boxes[image], of_kind.astype(np.float32), most, overlap)
        ]
        result = np.full(graph.shape_of(op.result), -1, np.int64)
        kept = rows[: len(result)]
        if kept:
            result[: len(kept)] = kept
        return (result,)


@register_impls
class TreeFunctions(InterpreterFunctions):
    @impl(graph.TreeEnsembleOp)
    def tree_ensemble(self, interpreter: Interpreter, op: graph.TreeEnsembleOp, args: PythonValues):
        x, features, thresholds, children, roots, columns, leaves = args
        count = len(x)
        feature: NDArray[np.int64] = features.astype(np.int64)
        threshold: NDArray[np.float32] = thresholds
        at: NDArray[np.int64] = np.tile(roots.astype(np.int64), (count, 1))
        while (inner := at >= 0).any():
            # All rows of all trees take one step; those at a leaf stay.
            row, tree = np.nonzero(inner)
            node = at[row, tree]
            f, bound = feature[node], threshold[node]
            value: NDArray[np.float32] = x[row, np.where(f < 0, -1 - f, f)]
            is_right = np.where(f < 0, value > bound, ~(value <= bound))
            at[row, tree] = np.where(is_right, children[node, 1], children[node, 0])
        result = np.zeros(graph.shape_of(op.result), np.float32)
        width = leaves.shape[1]
        for tree, first in enumerate(columns.tolist()):
            result[:, first : first + width] += leaves[-1 - at[:, tree]]
        return (result,)
