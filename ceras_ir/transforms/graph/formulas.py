"""Compute elementwise operations in double precision, by which passes recognize functions."""

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from math import erf, pi, sqrt

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Compare, Function

Doubles = NDArray[np.float64]
Formula = Callable[[Doubles, Sequence[float]], Doubles]


def _erf(x: Doubles) -> Doubles:
    return np.array([erf(v) for v in x.reshape(-1).tolist()]).reshape(x.shape)


def _sigmoid(x: Doubles) -> Doubles:
    return np.exp(np.minimum(x, 0.0)) / (1.0 + np.exp(-np.abs(x)))


def _softplus(x: Doubles) -> Doubles:
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


FORMULAS: dict[Function, Formula] = {
    Function.RELU: lambda x, _: np.maximum(x, 0.0),
    Function.CLIP: lambda x, p: np.clip(x, p[0], p[1]),
    Function.LEAKY_RELU: lambda x, p: np.where(x >= 0.0, x, p[0] * x),
    Function.SIGMOID: lambda x, _: _sigmoid(x),
    Function.TANH: lambda x, _: np.tanh(x),
    Function.SWISH: lambda x, _: x * _sigmoid(x),
    Function.HARD_SIGMOID: lambda x, p: np.clip(p[0] * x + p[1], 0.0, 1.0),
    Function.HARD_SWISH: lambda x, _: x * np.clip(x / 6.0 + 0.5, 0.0, 1.0),
    Function.EXP: lambda x, _: np.exp(x),
    Function.LOG: lambda x, _: np.log(x),
    Function.ERF: lambda x, _: _erf(x),
    Function.SQRT: lambda x, _: np.sqrt(x),
    Function.ABS: lambda x, _: np.abs(x),
    Function.ELU: lambda x, p: np.where(x >= 0.0, x, p[0] * np.expm1(np.minimum(x, 0.0))),
    Function.SOFTPLUS: lambda x, _: _softplus(x),
    Function.SOFTSIGN: lambda x, _: x / (1.0 + np.abs(x)),
    Function.MISH: lambda x, _: x * np.tanh(_softplus(x)),
    Function.GELU: lambda x, _: 0.5 * x * (1.0 + _erf(x * sqrt(0.5))),
    Function.GELU_TANH: lambda x, _: (
        0.5 * x * (1.0 + np.tanh(sqrt(2.0 / pi) * (x + 0.044715 * x**3)))
    ),
}
"""Formulas of functions of an argument and the parameters."""

DOUBLE_BINARY: dict[Binary, Callable[[Doubles, Doubles], Doubles]] = {
    Binary.ADD: np.add,
    Binary.SUB: np.subtract,
    Binary.MUL: np.multiply,
    Binary.DIV: np.divide,
    Binary.POW: np.power,
    Binary.MAX: np.maximum,
    Binary.MIN: np.minimum,
}

COMPARED: dict[Compare, Callable[[Doubles, Doubles], NDArray[np.bool_]]] = {
    Compare.EQUAL: np.equal,
    Compare.LESS: np.less,
    Compare.LESS_OR_EQUAL: np.less_equal,
}


def formula_of(op: Operation) -> Callable[..., Doubles] | None:
    """
    Return a function that computes the elementwise operation `op` in double precision from arrays
    of the operands, or `None` for other operations. Operations with equal functions and parameters
    usually get the same object, so that results can be shared.
    """
    match op:
        case graph.BinaryOp():
            return DOUBLE_BINARY[op.function]
        case graph.UnaryOp():
            # Unlike floats, texts distinguish the zeros.
            return _unary(op.function.data, *map(float.hex, op.function.values))
        case graph.SelectOp():
            return _select
        case graph.CastOp():
            return np.asarray
        case graph.CompareOp():
            return _comparison(op.function)
        case _:
            return None


@lru_cache(maxsize=1024)
def _unary(function: Function, *parameters: str) -> Callable[[Doubles], Doubles]:
    formula, values = FORMULAS[function], tuple(map(float.fromhex, parameters))
    return lambda x: formula(x, values)


def _select(condition: Doubles, x: Doubles, y: Doubles) -> Doubles:
    return np.where(condition != 0.0, x, y)


@cache
def _comparison(function: Compare) -> Callable[[Doubles, Doubles], Doubles]:
    compare = COMPARED[function]
    return lambda x, y: compare(x, y).astype(np.float64)


def elementwise(op: Operation, operands: Sequence[Doubles]) -> Doubles | None:
    """
    Compute the elementwise operation `op` in double precision for these operands. Return `None` if
    it has no formula in double precision.
    """
    formula = formula_of(op)
    return None if formula is None else formula(*operands)


def evaluated(
    value: SSAValue,
    known: dict[SSAValue, Doubles | None],
    constant: Callable[[SSAValue], Doubles | None],
    computed: Callable[[Operation, Sequence[Doubles]], Doubles | None],
    max_values: int,
) -> Doubles | None:
    """
    Compute `value` in double precision from the values in `known`, which is extended by
    intermediate values. `constant` returns the elements of a constant (or `None`), and `computed`
    evaluates an operation (or returns `None`).

    Return `None` if `value` depends on an unknown value, or if more than `max_values` values are
    needed.
    """

    def find(value: SSAValue) -> Doubles | None:
        if value in known:
            return known[value]
        known[value] = None  # A failed attempt is not repeated.
        owner = value.owner
        if (array := constant(value)) is not None:
            known[value] = array
        elif isinstance(owner, Operation) and len(known) <= max_values:
            operands = list[Doubles]()
            for operand in owner.operands:
                if (found := find(operand)) is None:
                    return None
                operands.append(found)
            known[value] = computed(owner, operands)
        return known[value]

    with np.errstate(all="ignore"):
        return find(value)
