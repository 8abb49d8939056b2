"""What `graph.recurrence` means, in numpy."""

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

Floats = NDArray[np.float32]


def _product(h: Floats, weights: Floats, bias: Floats | None) -> Floats:
    """`p` of the operation's documentation, [B, G * H]."""
    products: Floats = np.multiply(h[:, None, :], weights)
    # cumsum adds in index order; a sum that starts from 0 is never -0.
    total = np.cumsum(products, axis=-1, dtype=np.float32)[..., -1] + np.float32(0)
    return total if bias is None else np.add(total, bias)


@register_impls
class RecurrenceFunctions(InterpreterFunctions):
    @impl(graph.RecurrenceOp)
    def recurrence(self, interpreter: Interpreter, op: graph.RecurrenceOp, args: PythonValues):
        x, weights, h, *rest = args
        c = rest.pop(0) if op.cell is not None else h
        bias = rest.pop(0) if op.bias is not None else None
        kind, width = op.type_of_cell, h.shape[1]
        functions = [partial(apply_function, f) for f in op.functions]
        one = np.float32(1)
        result = np.empty(graph.shape_of(op.result), np.float32)
        for t, row in enumerate(x):
            match kind:
                case graph.Cell.RNN:
                    h = functions[0](row + _product(h, weights, bias))
                case graph.Cell.LSTM:
                    a = (row + _product(h, weights, bias)).reshape(-1, 4, width)
                    f, g, k = functions
                    c = f(a[:, 2]) * c + f(a[:, 0]) * g(a[:, 3])
                    h = f(a[:, 1]) * k(c)
                case graph.Cell.GRU | graph.Cell.GRU_RESET_FIRST:
                    f, g = functions
                    p = _product(h, weights, bias)
                    total = row + p
                    z, r = f(total[:, :width]), f(total[:, width : 2 * width])
                    last = p[:, 2 * width :]
                    if kind is graph.Cell.GRU:
                        last = r * last
                    else:
                        own = None if bias is None else bias[2 * width :]
                        last = _product(r * h, weights[2 * width :], own)
                    h = (one - z) * g(row[:, 2 * width :] + last) + z * h
            result[t] = h
        if kind is graph.Cell.LSTM:
            result[-1] = c
        return (result,)
