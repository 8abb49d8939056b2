"""
Define the operations of the `graph` dialect in numpy, which backends must match.

`elementwise.py` has elementwise operations on floats and plain integers.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import i32
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    impl,
    register_impls,
)

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.pooling import Pool, average_requant
from ceras_ir.dialects.quant import UniformType
from ceras_ir.interpreters.elementwise import combine, combined, elementwise, threshold
from ceras_ir.interpreters.float_functions import MAX_CACHED_ELEMENTS, apply_function, softmax
from ceras_ir.interpreters.windows import (
    Reals,
    Window,
    convolve,
    convolve_in_order,
    counts,
    exact_type,
    window_maximum,
    window_sum,
)
from ceras_ir.network import integer
from ceras_ir.network.distinct import distinct
from ceras_ir.network.integer import shift_swish

Array = NDArray[np.generic]


# Subtract the zero point, in 64 bits.
def _centred(array: Array, element: UniformType) -> NDArray[np.int64]:
    return array.astype(np.int64) - integer.zero_points(element, array.ndim)


# Gaps between elements would change the order of sums in numpy.
def _compact(array: Array) -> NDArray[np.float32]:
    return array.astype(np.float32, copy=not array.flags.c_contiguous)


def _products(
    op: graph.LinearOperation, x: Reals, weights: Reals, window: Window | None, samples: int
) -> Reals:
    # Weights that are not stored have no product; this matters only for inputs not finite.
    encoded = None if op.is_quantized else op.encoded_weights
    if encoded is not None and np.isfinite(x).all():
        encoded = None
    if op.ordered is not None or encoded is not None:
        stored = None if encoded is None else encoded.stored
        x, weights = x.astype(np.float32), weights.astype(np.float32)
        return _ordered_products(op, x, weights, window, stored)
    if window is None:
        rows = x.reshape(samples, len(x) // samples, -1) @ weights.swapaxes(-1, -2)
        return rows.reshape(len(x), -1)
    assert isinstance(op, graph.Conv2dOp)
    return convolve(x, weights, window, op.group_count, samples)


# A matrix product is a convolution with a single-element window.
def _ordered_products(
    op: graph.LinearOperation,
    x: NDArray[np.float32],
    weights: NDArray[np.float32],
    window: Window | None,
    stored: NDArray[np.bool_] | None,
) -> NDArray[np.float32]:
    if window is not None:
        assert isinstance(op, graph.Conv2dOp)
        return convolve_in_order(x, weights, window, op.group_count, stored)
    point = Window.of((1, 1), (1, 1), (0, 0, 0, 0), (1, 1))
    products = None if stored is None else stored[:, None, None]
    return convolve_in_order(x[:, None, None], weights[:, None, None], point, 1, products)[:, 0, 0]


# Bias, residual and activation are applied in place to pieces that fit the cache.
def _finished(
    sums: NDArray[np.float32],
    addends: Sequence[NDArray[np.float32]],
    activation: graph.FunctionAttr | None,
) -> NDArray[np.float32]:
    assert sums.flags.c_contiguous
    rows = sums.reshape(prod(sums.shape[:-1]), sums.shape[-1])
    added = [v.reshape(rows.shape) if v.shape == sums.shape else v for v in addends]
    step = max(1, MAX_CACHED_ELEMENTS // max(rows.shape[1], 1))
    for start in range(0, len(rows), step):
        piece = rows[start : start + step]
        for v in added:
            piece += v[start : start + step] if v.ndim == 2 else v
        if activation is not None:
            apply_function(activation, piece, out=piece)
    return sums


def float_layer(
    op: graph.LinearOperation,
    x: Array,
    weights: Array,
    bias: Array | None,
    residual: Array | None,
    window: Window | None,
    samples: int = 1,
) -> NDArray[np.float32]:
    """
    Evaluate a layer of floats. `window` is that of a convolution. `x`, `residual` and the result
    have several samples, which are concatenated along the first axis. The result has the
    bits of separate calls: a product of matrices for each sample. The weights of a product of two
    activations are [samples, N, K].
    """
    acc = _products(op, _compact(x), _compact(weights), window, samples)
    if op.weight_scale is not None:
        acc *= np.float32(op.weight_scale)
    total = acc.astype(np.float32, copy=False)
    addends = [v.astype(np.float32, copy=False) for v in (bias, residual) if v is not None]
    return _finished(total, addends, op.activation)


def _looked_up(stored: Array, tables: Array, rows: tuple[int, ...] | None) -> Array:
    half = tables.shape[1] // 2
    index = stored.astype(np.int64)
    if stored.dtype != np.uint8:
        index = np.clip(index, -half, half - 1) + half
    return tables[0 if rows is None else np.array(rows), index]


@register_impls
class GraphFunctions(InterpreterFunctions):
    """
    Interprets the operations of `graph`, with a method for each. Operands and results are arrays of
    the stored type, such as int8 for quantized elements.
    """

    @impl(graph.ConstantOp)
    def constant(self, interpreter: Interpreter, op: graph.ConstantOp, args: PythonValues):
        return (op.array(),)

    @impl(graph.Conv2dOp)
    def conv2d(self, interpreter: Interpreter, op: graph.Conv2dOp, args: PythonValues):
        x, weights, *rest = args
        return self._linear(op, x, weights, rest, Window.of_operation(op))

    @impl(graph.MatmulOp)
    def matmul(self, interpreter: Interpreter, op: graph.MatmulOp, args: PythonValues):
        x, weights, *rest = args
        return self._linear(op, x, weights, rest, None)

    @impl(graph.StridedMatmulOp)
    def strided_matmul(
        self, interpreter: Interpreter, op: graph.StridedMatmulOp, args: PythonValues
    ):
        x, weights, *rest = args
        (_, k), (_, n) = graph.shape_of(op.input), graph.shape_of(op.result)
        row, column = op.strides.get_values()
        at = op.offset.value.data + row * np.arange(n)[:, None] + column * np.arange(k)
        return self._linear(op, x, weights.reshape(-1)[at], rest, None)

    def _linear(
        self,
        op: graph.LinearOperation,
        x: Array,
        weights: Array,
        rest: list[Array],
        window: Window | None,
    ) -> tuple[Array]:
        bias = rest.pop(0) if op.bias is not None else None
        residual = rest.pop(0) if op.residual is not None else None
        if not op.is_quantized:
            return (float_layer(op, x, weights, bias, residual, window),)
        x_int = _centred(x, graph.stored_element(op.input))
        w_int = _centred(weights, graph.stored_element(op.weights))
        real = exact_type(w_int, int(np.abs(x_int).max(initial=1)))
        acc = _products(op, x_int.astype(real), w_int.astype(real), window, 1).astype(np.int64)
        if bias is not None:
            acc += bias.astype(np.int64)
        if residual is not None:
            assert op.residual is not None
            moved = _centred(residual, graph.stored_element(op.residual))
            acc += moved << np.array(op.residual_shifts)
        assert op.requant is not None
        if (tables := op.tables) is None:
            return (integer.requantize(acc, op.requant, graph.stored_element(op.result)),)
        stored = integer.requantize(acc, op.requant, UniformType(1.0))
        return (_looked_up(stored, tables, op.channel_rows),)

    @impl(graph.Pool2dOp)
    def pool2d(self, interpreter: Interpreter, op: graph.Pool2dOp, args: PythonValues):
        (x,) = args
        window = Window.of_operation(op)
        if op.function is Pool.MAX:
            lowest = -np.inf if x.dtype == np.float32 else np.iinfo(x.dtype).min
            return (window_maximum(window, window.padded(x, lowest)),)
        if not op.is_quantized:
            total = window_sum(window, window.padded(x, 0))
            return (total / self._divisors(op, x, window).astype(np.float32),)
        divisors = self._divisors(op, x, window)
        if op.divides is not None:
            assert op.requant is not None
            total = window_sum(window, window.padded(x.astype(np.int64), 0))
            half = divisors // 2
            # The division of C drops the fraction, and so does that of magnitudes.
            stored = np.sign(total) * ((np.abs(total) + half) // divisors)
            low, high = op.requant.low.data, op.requant.high.data
            return (np.clip(stored, low, high).astype(x.dtype),)
        total = window_sum(window, window.padded(_centred(x, graph.stored_element(op.input)), 0))
        result = np.empty(total.shape, graph.numpy_dtype(graph.element_of(op.result)))
        for count in distinct(divisors):
            at = np.broadcast_to(divisors == count, total.shape)
            requant = average_requant(op, int(count))
            result[at] = integer.requantize(total[at], requant, graph.stored_element(op.result))
        return (result,)

    @staticmethod
    def _divisors(op: graph.Pool2dOp, x: Array, window: Window) -> NDArray[np.int64]:
        if op.includes_padding:
            return np.full((1, 1, 1, 1), window.kernel[0] * window.kernel[1], np.int64)
        return counts(x.shape[1], x.shape[2], window)[None, :, :, None]

    @impl(graph.UnaryOp)
    def unary(self, interpreter: Interpreter, op: graph.UnaryOp, args: PythonValues):
        return (elementwise(op, args[0]),)

    @impl(graph.BinaryOp)
    def binary(self, interpreter: Interpreter, op: graph.BinaryOp, args: PythonValues):
        if op.requant is None:
            return (combined(op, args[0], args[1]),)
        lhs = _centred(args[0], graph.stored_element(op.lhs)) * op.factors[0]
        rhs = _centred(args[1], graph.stored_element(op.rhs)) * op.factors[1]
        if op.addends is not None:
            sums = UniformType(1.0, storage=i32)
            lhs, rhs = (
                integer.requantize(v, r, sums).astype(np.int64)
                for v, r in zip((lhs, rhs), op.addends, strict=True)
            )
        result = combine(op.function, lhs, rhs)
        return (integer.requantize(result, op.requant, graph.stored_element(op.result)),)

    @impl(graph.LookupOp)
    def lookup(self, interpreter: Interpreter, op: graph.LookupOp, args: PythonValues):
        return (_looked_up(args[0], op.tables, op.channel_rows),)

    @impl(graph.ThresholdOp)
    def threshold(self, interpreter: Interpreter, op: graph.ThresholdOp, args: PythonValues):
        return (threshold(op, args[0], args[1]),)

    @impl(graph.ShiftSwishOp)
    def shift_swish(self, interpreter: Interpreter, op: graph.ShiftSwishOp, args: PythonValues):
        result = shift_swish(args[0].astype(np.int64), op.channel_bends)
        return (integer.requantize(result, op.requant, graph.stored_element(op.result)),)

    @impl(graph.SoftmaxOp)
    def softmax(self, interpreter: Interpreter, op: graph.SoftmaxOp, args: PythonValues):
        return (softmax(args[0], op.axis.value.data),)

    @impl(graph.ReshapeOp)
    def reshape(self, interpreter: Interpreter, op: graph.ReshapeOp, args: PythonValues):
        return (args[0].reshape(graph.shape_of(op.result)),)

    @impl(graph.TransposeOp)
    def transpose(self, interpreter: Interpreter, op: graph.TransposeOp, args: PythonValues):
        return (np.ascontiguousarray(args[0].transpose(op.permutation.get_values())),)

    @impl(graph.ConcatOp)
    def concat(self, interpreter: Interpreter, op: graph.ConcatOp, args: PythonValues):
        return (np.concatenate(args, axis=op.axis.value.data),)

    @impl(graph.QuantizeOp)
    def quantize(self, interpreter: Interpreter, op: graph.QuantizeOp, args: PythonValues):
        return (integer.quantize(args[0], graph.stored_element(op.result), op.mode),)

    @impl(graph.ScaledQuantizeOp)
    def scaled_quantize(
        self, interpreter: Interpreter, op: graph.ScaledQuantizeOp, args: PythonValues
    ):
        product = args[0] * np.float32(op.factor.value.data)
        return (integer.quantize(product, graph.stored_element(op.result)),)

    @impl(graph.DequantizeOp)
    def dequantize(self, interpreter: Interpreter, op: graph.DequantizeOp, args: PythonValues):
        return (integer.dequantize(args[0], graph.stored_element(op.input)),)

    @impl(graph.RequantizeOp)
    def requantize(self, interpreter: Interpreter, op: graph.RequantizeOp, args: PythonValues):
        centred = _centred(args[0], graph.stored_element(op.input))
        return (integer.requantize(centred, op.requant, graph.stored_element(op.result)),)
