"""Recognize activations by their values, in whatever operations exporters spell them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import erf

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Compare, Function
from ceras_ir.transforms.graph.one_function import replace_by_function
from ceras_ir.transforms.network_pass import NetworkPass
from ceras_ir.transforms.rebuilding import erase_dead

Reals = NDArray[np.float64]
Formula = Callable[..., Reals]

NEAR = 2.0**-20
"""How far values may be off, times one more than the magnitude of `x`."""
MOST_TERMS = 16
"""Operations that one function is looked for in."""

_FAR = 2.0 ** np.arange(4, 9)
POINTS: Reals = np.concatenate([-_FAR[::-1], np.linspace(-12, 12, 1 + 24 * 64), _FAR])
"""Where values are compared; beyond them these functions are lines to 2^-80."""

_erf = np.vectorize(erf, otypes=[np.float64])


def _sigmoid(x: Reals) -> Reals:
    return np.exp(np.minimum(x, 0.0)) / (1.0 + np.exp(-np.abs(x)))


def _softplus(x: Reals) -> Reals:
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def _hard_sigmoid(x: Reals, alpha: float, beta: float) -> Reals:
    return np.clip(alpha * x + beta, 0.0, 1.0)


FORMULAS: dict[Function, Formula] = {
    Function.RELU: lambda x: np.maximum(x, 0.0),
    Function.CLIP: lambda x, low, high: np.clip(x, low, high),
    Function.LEAKY_RELU: lambda x, alpha: np.where(x >= 0.0, x, alpha * x),
    Function.SIGMOID: _sigmoid,
    Function.TANH: np.tanh,
    Function.SWISH: lambda x: x * _sigmoid(x),
    Function.HARD_SIGMOID: _hard_sigmoid,
    Function.HARD_SWISH: lambda x: x * _hard_sigmoid(x, 1 / 6, 0.5),
    Function.EXP: np.exp,
    Function.LOG: np.log,
    Function.ERF: _erf,
    Function.SQRT: np.sqrt,
    Function.ABS: np.abs,
    Function.ELU: lambda x, alpha: np.where(x >= 0.0, x, alpha * np.expm1(np.minimum(x, 0.0))),
    Function.SOFTPLUS: _softplus,
    Function.SOFTSIGN: lambda x: x / (1.0 + np.abs(x)),
    Function.MISH: lambda x: x * np.tanh(_softplus(x)),
    Function.GELU: lambda x: 0.5 * x * (1.0 + _erf(x * np.sqrt(0.5))),
    Function.GELU_TANH: lambda x: (
        0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))
    ),
}
"""Functions, in double precision."""

COMBINED: dict[Binary, Callable[[Reals, Reals], Reals]] = {
    Binary.ADD: np.add,
    Binary.SUB: np.subtract,
    Binary.MUL: np.multiply,
    Binary.DIV: np.divide,
    Binary.POW: np.power,
    Binary.MAX: np.maximum,
    Binary.MIN: np.minimum,
}

COMPARED: dict[Compare, Callable[[Reals, Reals], NDArray[np.bool_]]] = {
    Compare.EQUAL: np.equal,
    Compare.LESS: np.less,
    Compare.LESS_OR_EQUAL: np.less_equal,
}

WHOLE = (
    Function.SIGMOID,
    Function.TANH,
    Function.SWISH,
    Function.HARD_SWISH,
    Function.SOFTPLUS,
    Function.SOFTSIGN,
    Function.MISH,
    Function.GELU,
    Function.GELU_TANH,
)
"""Activations without parameters that are looked for."""


@dataclass(frozen=True)
class FuseFunctionsPass(NetworkPass):
    """
    Replace elementwise operations on one value by one function of it, where that is an activation:
    sigmoid, tanh, swish, mish, softplus, softsign, gelu, elu or hard_swish.

    Exporters spell these in dozens of ways: `1 / (1 + exp(-x))`, `x / (1 + exp(-x))`,
    `x * tanh(log(1 + exp(x)))`, `where(x > 0, x, exp(x) - 1)`, `x * clip(x / 6 + 0.5, 0, 1)`. So
    operations are not compared but what they compute, in double precision: at 1547 points up to
    256 in magnitude it may be off by 2^-20 times 1 + abs(x). An exponential on the way, which
    exceeds float32 there, has a range that int8 has no steps for.

    Clips of a multiple and a sum stay, which a layer before them takes in. Off by what is compared
    and by the rounding of the parts.
    """

    name = "fuse-functions"

    def change(self, main: FuncOp) -> None:
        block = main.body.block
        # From the end: a whole function before its parts, such as swish before its sigmoid.
        for op in reversed(list(block.ops)):
            if op.results and op.results[0].uses and isinstance(op, graph.GraphOperation):
                _fuse(op)
        erase_dead(block)


def _fuse(op: graph.GraphOperation) -> None:
    if not isinstance(op, graph.BinaryOp | graph.UnaryOp | graph.SelectOp) or not _is_part(op):
        return
    for argument in _arguments(op):
        if argument.type != op.output.type:
            continue
        values = _evaluated(op.output, argument)
        function = None if values is None else _recognized(values)
        if function is None:
            continue
        if isinstance(op, graph.UnaryOp) and op.input is argument:
            return
        replace_by_function(op, argument, function)
        return


def _is_part(op: Operation) -> bool:
    """Whether an operation computes each element of its result by a formula that is known."""
    constants = [v for v in op.operands if isinstance(v.owner, graph.ConstantOp)]
    # Numbers for each channel, such as those of a batch normalization.
    if any(graph.constant_number(value) is None for value in constants):
        return False
    match op:
        case graph.BinaryOp():
            return _is_float(op.result) and op.activation is None and op.function in COMBINED
        case graph.UnaryOp():
            is_known = op.function.kind in FORMULAS and op.function.affine is None
            return is_known and op.channel_exponents is None and _is_float(op.result)
        case graph.SelectOp():
            return _is_float(op.result)
        case graph.CastOp():
            return _is_float(op.result) and isinstance(op.input.owner, graph.CompareOp)
        case graph.CompareOp():
            return _is_float(op.lhs)
        case _:
            return False


def _is_float(value: SSAValue) -> bool:
    return graph.element_of(value) == f32


def _arguments(op: graph.GraphOperation) -> Iterator[SSAValue]:
    """What `op` may be a function of, the farthest first; nothing for a single operation."""
    inside: list[Operation] = [op]
    values = dict[SSAValue, None]()
    for at in inside:
        if len(inside) > MOST_TERMS:
            break
        for value in at.operands:
            owner = value.owner
            if isinstance(owner, graph.ConstantOp):
                continue
            values[value] = None
            if isinstance(owner, Operation) and _is_part(owner) and owner not in inside:
                inside.append(owner)
    return reversed(values) if len(inside) > 1 else iter(())


def _evaluated(value: SSAValue, argument: SSAValue) -> Reals | None:
    """The values at `POINTS` of the argument; None for what depends on something else."""
    known: dict[SSAValue, Reals | None] = {argument: POINTS}
    with np.errstate(all="ignore"):
        return _value_of(value, known, [2 * MOST_TERMS])


def _value_of(
    value: SSAValue, known: dict[SSAValue, Reals | None], left: list[int]
) -> Reals | None:
    if value in known:
        return known[value]
    left[0] -= 1
    known[value] = None
    owner = value.owner
    if (number := graph.constant_number(value)) is not None:
        known[value] = np.full(POINTS.shape, number)
    elif isinstance(owner, Operation) and _is_part(owner) and left[0] >= 0:
        operands = list[Reals]()
        for operand in owner.operands:
            if (found := _value_of(operand, known, left)) is None:
                return None
            operands.append(found)
        known[value] = _computed(owner, operands)
    return known[value]


def _computed(op: Operation, operands: Sequence[Reals]) -> Reals | None:
    match op:
        case graph.BinaryOp():
            return COMBINED[op.function](operands[0], operands[1])
        case graph.UnaryOp():
            return FORMULAS[op.function.kind](operands[0], *op.function.values)
        case graph.SelectOp():
            return np.where(operands[0] != 0.0, operands[1], operands[2])
        case graph.CastOp():
            return operands[0]
        case graph.CompareOp():
            return COMPARED[op.function](operands[0], operands[1]).astype(np.float64)
        case _:
            return None


def _recognized(values: Reals) -> graph.FunctionAttr | None:
    """The activation that has these values."""
    if not np.isfinite(values).all():
        return None
    candidates: list[tuple[Function, tuple[float, ...]]] = [(kind, ()) for kind in WHOLE]
    if values[0] < -NEAR:
        candidates.append((Function.ELU, (-float(values[0]),)))
    for kind, parameters in candidates:
        expected = FORMULAS[kind](POINTS, *parameters)
        if (np.abs(values - expected) <= NEAR * (1.0 + np.abs(POINTS))).all():
            return graph.FunctionAttr(kind, parameters)
    return None
