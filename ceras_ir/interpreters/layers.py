"""Define recurrent layers, normalization, box suppression and tree ensembles in numpy."""

from collections.abc import Callable, Sequence
from typing import TypeVar

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
from ceras_ir.dialects.graph.fixed_point import SUM_SHIFT, FixedPointSoftmaxOp
from ceras_ir.dialects.graph.normalization import (
    FRACTION_BITS,
    RECIPROCAL_BITS,
    IntegerNormalizeOp,
    IntegerSoftmaxOp,
    NormalizeOp,
)
from ceras_ir.dialects.graph.operation import shape_of, stored_element
from ceras_ir.interpreters.float_functions import evaluator, is_for_statistics
from ceras_ir.interpreters.windows import combined_in_order
from ceras_ir.network import integer

T = TypeVar("T")

Floats = NDArray[np.float32]

Product = Callable[[Floats, slice], Floats]
"""The value `p` of a `graph.recurrence` for a state [B, H] and a slice of the weights."""


def _product(
    op: graph.RecurrenceOp, weights: NDArray[np.number], bias: Floats | None, samples: int
) -> Product:
    if (exponents := op.exponents) is not None:
        multiply = _of_fixed_scale(weights.astype(np.int64), *exponents)
    elif (scales := op.scales) is not None:
        multiply = _of_dynamic_scale(weights.astype(np.int64), *scales)
    else:
        multiply = _of_floats(weights, samples)

    def product(h: Floats, rows: slice) -> Floats:
        total = multiply(h, rows)
        return total if bias is None else np.add(total, bias[rows])

    return product


def _of_floats(weights: NDArray[np.number], samples: int) -> Product:
    if is_for_statistics():
        columns = weights.astype(np.float32, copy=False).T

        def by_sample(h: Floats, rows: slice) -> Floats:
            split = h.reshape(samples, len(h) // samples, -1)
            return (split @ columns[:, rows]).reshape(len(h), -1)

        return by_sample

    def multiply(h: Floats, rows: slice) -> Floats:
        products: Floats = np.multiply(h.T[:, :, None], weights[rows].T[:, None, :])
        total = combined_in_order(np.add, products.reshape(len(products), -1))
        # A sum that starts from 0 is never -0.
        return total.reshape(len(h), -1) + np.float32(0)

    return multiply


def _of_fixed_scale(weights: NDArray[np.int64], state: int, exponents: Sequence[int]) -> Product:
    bound = graph.RecurrenceOp.STATE_BOUND
    scales = np.exp2(np.array(exponents, np.float32) + np.float32(state))

    def multiply(h: Floats, rows: slice) -> Floats:
        steps = np.nan_to_num(h * np.float32(2.0**-state), nan=0, posinf=bound, neginf=-bound)
        q = np.clip(np.rint(steps), -bound, bound - 1).astype(np.int64)
        return (q @ weights[rows].T).astype(np.float32) * scales[rows]

    return multiply


MAX_LEVEL = 255
"""The difference of the highest and the lowest integer of a dynamically quantized state."""


def _of_dynamic_scale(weights: NDArray[np.int64], scales: Floats, zero_point: int) -> Product:
    moved, zero = weights - zero_point, np.float32(0)
    row_scales = np.broadcast_to(scales, len(weights))

    def multiply(h: Floats, rows: slice) -> Floats:
        with np.errstate(all="ignore"):
            low, high = (f.reduce(h, axis=None, initial=zero) for f in (np.fmin, np.fmax))
            scale = np.array((high - low) / np.float32(MAX_LEVEL) if high - low else 1, np.float32)
            middle = int(_rounded(np.divide(zero - low, scale), 0, MAX_LEVEL))
            q = _rounded(np.divide(h, scale), -middle, MAX_LEVEL - middle).astype(np.int64)
            return (q @ moved[rows].T).astype(np.float32) * np.multiply(scale, row_scales[rows])

    return multiply


def _rounded(x: Floats, low: int, high: int) -> Floats:
    return np.rint(np.clip(np.where(np.isnan(x), np.float32(0), x), low, high), dtype=np.float32)


def recurrence(
    op: graph.RecurrenceOp,
    x: Floats,
    weights: NDArray[np.number],
    states: tuple[Floats, Floats],
    bias: Floats | None,
    samples: int = 1,
) -> Floats:
    """
    Evaluate `graph.recurrence`. `x` [T, B, G], both `states` [B, H] and the result have
    several samples, which are concatenated along the axis B. The result has the bits of separate
    calls, unless the state is quantized dynamically.
    """
    h, c = states
    kind, width = op.cell_kind, h.shape[1]
    functions = [evaluator(f) for f in op.functions]
    one, all_rows = np.float32(1), slice(None)
    product = _product(op, weights, bias, samples)
    result = np.empty((graph.shape_of(op.result)[0], *h.shape), np.float32)
    for t, row in enumerate(x):
        match kind:
            case graph.Cell.RNN:
                h = functions[0](row + product(h, all_rows))
            case graph.Cell.LSTM:
                a = (row + product(h, all_rows)).reshape(-1, 4, width)
                f, g, k = functions
                c = np.add(f(a[:, 2]) * c, f(a[:, 0]) * g(a[:, 3]))
                h = f(a[:, 1]) * k(c)
            case graph.Cell.GRU | graph.Cell.GRU_RESET_FIRST:
                f, g = functions
                p = product(h, all_rows)
                total = row + p
                z, r = f(total[:, :width]), f(total[:, width : 2 * width])
                last = p[:, 2 * width :]
                if kind is graph.Cell.GRU:
                    last = r * last
                else:
                    last = product(r * h, slice(2 * width, None))
                h = (one - z) * g(row[:, 2 * width :] + last) + z * h
        result[t] = h
    if kind is graph.Cell.LSTM:
        result[-1] = c
    return result


def recurrence_operands(
    op: graph.RecurrenceOp, operands: Sequence[T]
) -> tuple[T, T, T, T, T | None]:
    """Return the operands `x`, weights, state, cell state (or the state) and bias."""
    x, weights, h, *rest = operands
    c = rest.pop(0) if op.cell is not None else h
    return x, weights, h, c, rest.pop(0) if op.bias is not None else None


@register_impls
class RecurrenceFunctions(InterpreterFunctions):
    @impl(graph.RecurrenceOp)
    def recurrence(self, interpreter: Interpreter, op: graph.RecurrenceOp, args: PythonValues):
        x, weights, h, c, bias = recurrence_operands(op, args)
        return (recurrence(op, x, weights, (h, c), bias),)


Integers = NDArray[np.int64]


def _mean(x: NDArray[np.float32]) -> NDArray[np.float32]:
    # cumsum adds in index order; np.sum would add in pairs.
    total = np.cumsum(x, axis=-1, dtype=np.float32)[..., -1:]
    return total / np.float32(x.shape[-1])


def normalize(
    x: NDArray[np.float32], epsilon: float, *, centred: bool
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """
    Return the normalized rows of `graph.normalize` before the multiplication by `scale`, and the
    divisor (the root of the mean square plus `epsilon`) of each row. If `centred`, the mean is
    subtracted first.
    """
    c = x - _mean(x) if centred else x
    deviation = np.sqrt(np.add(_mean(c * c), np.float32(epsilon), dtype=np.float32))
    return np.divide(c, deviation), deviation


def _shifted(x: Integers, shift: int | Integers) -> Integers:
    shift = np.asarray(shift, np.int64)
    right = np.maximum(-shift, 0)
    half = np.where(right > 0, np.left_shift(1, np.maximum(right - 1, 0)), 0)
    return np.right_shift(np.left_shift(x, np.maximum(shift, 0)) + half, right)


def _shifted_evenly(x: Integers, by: Integers) -> Integers:
    right = np.right_shift(x, np.maximum(2 * by, 0))
    return np.left_shift(right, np.maximum(-2 * by, 0))


def _log2(x: Integers) -> Integers:
    result = np.zeros_like(x)
    for step in (32, 16, 8, 4, 2, 1):
        high = np.right_shift(x, step) > 0
        result = np.where(high, result + step, result)
        x = np.where(high, np.right_shift(x, step), x)
    return result


@register_impls
class NormalizationFunctions(InterpreterFunctions):
    """Interprets normalizations and integer row functions."""

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
        # Below 2^32 the floor of a root in double precision is exact.
        root = np.floor(np.sqrt(even.astype(np.float64))).astype(np.int64)
        m = (op.root << 17) // root
        z = _shifted(c * m, FRACTION_BITS - 17 - op.root_shift - t)
        total = z * scale.astype(np.int64) + bias.astype(np.int64)
        return (integer.requantize(total, op.requant, stored_element(op.result)),)

    @impl(IntegerSoftmaxOp)
    def integer_softmax(self, interpreter: Interpreter, op: IntegerSoftmaxOp, args: PythonValues):
        stored, table = args
        axis, q = op.axis.value.data, stored.astype(np.int64)
        d = np.minimum(q.max(axis=axis, keepdims=True) - q, shape_of(op.table)[0] - 1)
        e: Integers = table.astype(np.int64)[d]
        reciprocal = ((1 << RECIPROCAL_BITS) - 1) // e.sum(axis=axis, keepdims=True)
        return (integer.requantize(e * reciprocal, op.requant, stored_element(op.result)),)

    @impl(FixedPointSoftmaxOp)
    def fixed_point_softmax(
        self, interpreter: Interpreter, op: FixedPointSoftmaxOp, args: PythonValues
    ):
        stored, table = args
        q, element = stored.astype(np.int64), stored_element(op.result)
        e: Integers = table.astype(np.int64)[q.max(axis=-1, keepdims=True) - q]
        s = ((e + (1 << SUM_SHIFT - 1)) >> SUM_SHIFT).sum(axis=-1, keepdims=True)
        zeros = 31 - _log2(s)
        x = integer.newton_reciprocal(np.left_shift(s, zeros) >> 1)
        product = integer.high_product(np.minimum(2 * x, (1 << 31) - 1), e)
        shift = 43 - element.storage.width.data - zeros
        rounded = (product + np.left_shift(1, shift - 1)) >> shift
        return (
            np.clip(rounded + element.low, element.low, element.high).astype(
                graph.numpy_dtype(element)
            ),
        )


def chosen_boxes(
    boxes: NDArray[np.float32], scores: NDArray[np.float32], count: int, overlap: np.float32
) -> list[int]:
    """
    Select boxes [N, 4] of a class in an image by non-maximum suppression, and return the indices of
    at most `count` boxes, the highest score first. A box with a score of -inf is no candidate.
    Boxes with a ratio of intersection to union with a selected box above `overlap` are removed.
    """
    candidates = scores.copy()
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], np.float32(0))
    areas = sides[:, 0] * sides[:, 1]
    found: list[int] = []
    while len(found) < count and candidates.max() > -np.inf:
        best = int(candidates.argmax())
        found.append(best)
        first = np.maximum(boxes[:, :2], boxes[best, :2])
        last = np.minimum(boxes[:, 2:], boxes[best, 2:])
        shared = np.maximum(last - first, np.float32(0)).prod(axis=1, dtype=np.float32)
        union = areas[best] + areas - shared
        overlaps = (shared > 0) & (areas > 0) & (areas[best] > 0) & (union > 0)
        candidates[overlaps & (shared / union > overlap)] = -np.inf
        candidates[best] = -np.inf
    return found


@register_impls
class DetectionFunctions(InterpreterFunctions):
    """Interprets `graph.suppress`, the selection of boxes of a detection network."""

    @impl(graph.SuppressOp)
    def suppress(self, interpreter: Interpreter, op: graph.SuppressOp, args: PythonValues):
        boxes, scores = args
        threshold, overlap = np.float32(op.least.value.data), np.float32(op.overlap.value.data)
        max_boxes = op.most.value.data
        rows = [
            (image, kind, box)
            for image, kinds in enumerate(np.where(scores > threshold, scores, -np.inf))
            for kind, of_kind in enumerate(kinds)
            for box in chosen_boxes(boxes[image], of_kind.astype(np.float32), max_boxes, overlap)
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
            # Each row advances in each tree, unless it has reached a leaf.
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
