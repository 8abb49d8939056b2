"""What `graph.recurrence` means, in numpy."""

from collections.abc import Sequence
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


def _product(
    h: Floats,
    weights: NDArray[np.number],
    bias: Floats | None,
    exponents: tuple[int, Sequence[int]] | None,
) -> Floats:
    """`p` of the operation's documentation, [B, G * H]."""
    if exponents is not None:
        return _integer_product(h, weights, bias, *exponents)
    products: Floats = np.multiply(h[:, None, :], weights)
    # cumsum adds in index order; a sum that starts from 0 is never -0.
    total = np.cumsum(products, axis=-1, dtype=np.float32)[..., -1] + np.float32(0)
    return total if bias is None else np.add(total, bias)


def _integer_product(
    h: Floats,
    weights: NDArray[np.number],
    bias: Floats | None,
    state: int,
    rows: Sequence[int],
) -> Floats:
    bound = graph.RecurrenceOp.STATE_BOUND
    steps = np.nan_to_num(h * np.float32(2.0**-state), nan=0, posinf=bound, neginf=-bound)
    q = np.clip(np.rint(steps), -bound, bound - 1).astype(np.int64)
    scales = np.exp2(np.array(rows, np.float32) + np.float32(state))
    total: Floats = (q @ weights.T.astype(np.int64)).astype(np.float32) * scales
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
        product = partial(_product, exponents=op.exponents)
        result = np.empty(graph.shape_of(op.result), np.float32)
        for t, row in enumerate(x):
            match kind:
                case graph.Cell.RNN:
                    h = functions[0](row + product(h, weights, bias))
                case graph.Cell.LSTM:
                    a = (row + product(h, weights, bias)).reshape(-1, 4, width)
                    f, g, k = functions
                    c = f(a[:, 2]) * c + f(a[:, 0]) * g(a[:, 3])
                    h = f(a[:, 1]) * k(c)
                case graph.Cell.GRU | graph.Cell.GRU_RESET_FIRST:
                    f, g = functions
                    p = product(h, weights, bias)
                    total = row + p
                    z, r = f(total[:, :width]), f(total[:, width : 2 * width])
                    last = p[:, 2 * width :]
                    if kind is graph.Cell.GRU:
                        last = r * last
                    else:
                        own = None if bias is None else bias[2 * width :]
                        exponents = op.exponents and (
                            op.exponents[0],
                            op.exponents[1][2 * width :],
                        )
                        last = _product(r * h, weights[2 * width :], own, exponents)
                    h = (one - z) * g(row[:, 2 * width :] + last) + z * h
            result[t] = h
        if kind is graph.Cell.LSTM:
            result[-1] = c
        return (result,)
