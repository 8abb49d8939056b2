"""The definition of `graph.recurrence`, in numpy."""

from collections.abc import Callable, Sequence
from functools import partial

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
from ceras_ir.interpreters.float_functions import apply_function
from ceras_ir.interpreters.windows import combined_in_order

Floats = NDArray[np.float32]

Product = Callable[[Floats, slice], Floats]
"""`p` of the operation's documentation for a state [B, H] and some rows of the weights."""


def _product(op: graph.RecurrenceOp, weights: NDArray[np.number], bias: Floats | None) -> Product:
    """How the layer `op` multiplies its state."""
    if (exponents := op.exponents) is not None:
        multiply = _of_fixed_scale(weights.astype(np.int64), *exponents)
    elif (scales := op.scales) is not None:
        multiply = _of_dynamic_scale(weights.astype(np.int64), *scales)
    else:
        multiply = _of_floats(weights)

    def product(h: Floats, rows: slice) -> Floats:
        total = multiply(h, rows)
        return total if bias is None else np.add(total, bias[rows])

    return product


def _of_floats(weights: NDArray[np.number]) -> Product:
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


LEVELS = 255
"""The difference of the maximum and the minimum integer of a dynamically quantized state."""


def _of_dynamic_scale(weights: NDArray[np.int64], scales: Floats, zero_point: int) -> Product:
    moved, zero = weights - zero_point, np.float32(0)
    every = np.broadcast_to(scales, len(weights))

    def multiply(h: Floats, rows: slice) -> Floats:
        with np.errstate(all="ignore"):
            low, high = (f.reduce(h, axis=None, initial=zero) for f in (np.fmin, np.fmax))
            scale = np.array((high - low) / np.float32(LEVELS) if high - low else 1, np.float32)
            middle = int(_rounded(np.divide(zero - low, scale), 0, LEVELS))
            q = _rounded(np.divide(h, scale), -middle, LEVELS - middle).astype(np.int64)
            return (q @ moved[rows].T).astype(np.float32) * np.multiply(scale, every[rows])

    return multiply


def _rounded(x: Floats, low: int, high: int) -> Floats:
    """The nearest integers, ties to even, within bounds; NaN counts as 0."""
    return np.rint(np.clip(np.where(np.isnan(x), np.float32(0), x), low, high), dtype=np.float32)


@register_impls
class RecurrenceFunctions(InterpreterFunctions):
    @impl(graph.RecurrenceOp)
    def recurrence(self, interpreter: Interpreter, op: graph.RecurrenceOp, args: PythonValues):
        x, weights, h, *rest = args
        c = rest.pop(0) if op.cell is not None else h
        bias = rest.pop(0) if op.bias is not None else None
        kind, width = op.type_of_cell, h.shape[1]
        functions = [partial(apply_function, f) for f in op.functions]
        one, every = np.float32(1), slice(None)
        product = _product(op, weights, bias)
        result = np.empty(graph.shape_of(op.result), np.float32)
        for t, row in enumerate(x):
            match kind:
                case graph.Cell.RNN:
                    h = functions[0](row + product(h, every))
                case graph.Cell.LSTM:
                    a = (row + product(h, every)).reshape(-1, 4, width)
                    f, g, k = functions
                    c = f(a[:, 2]) * c + f(a[:, 0]) * g(a[:, 3])
                    h = f(a[:, 1]) * k(c)
                case graph.Cell.GRU | graph.Cell.GRU_RESET_FIRST:
                    f, g = functions
                    p = product(h, every)
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
        return (result,)
