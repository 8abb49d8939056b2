"""What the operations of `graph` on whole rows mean, in numpy."""

import numpy as np
from numpy.typing import NDArray
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    impl,
    register_impls,
)

from ceras_ir.dialects.graph.normalization import (
    FRACTION,
    RECIPROCAL,
    IntegerNormalizeOp,
    IntegerSoftmaxOp,
    NormalizeOp,
)
from ceras_ir.dialects.graph.operation import shape_of, stored_element
from ceras_ir.network import integer

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
