"""Recognize GELU, which exporters spell with an error function or a hyperbolic tangent."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import pi, sqrt
from typing import TypeAlias

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.network.ranges import copy_statistics
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.network_pass import NetworkPass
from ceras_ir.transforms.rebuilding import computed_between, erase_dead

Polynomial: TypeAlias = dict[int, float]
"""Exponent -> coefficient."""

NEAR = 2.0**-20
"""Relative; how far the coefficients may be off that exporters write."""
MOST_TERMS = 16
"""Operations that are looked at for one polynomial."""

FORMS: dict[graph.Function, tuple[graph.Function, Polynomial]] = {
    graph.Function.ERF: (graph.Function.GELU, {1: sqrt(0.5)}),
    graph.Function.TANH: (graph.Function.GELU_TANH, {1: sqrt(2 / pi), 3: sqrt(2 / pi) * 0.044715}),
}
"""Function in GELU -> GELU, and what of `x` it is a function of."""


@dataclass(frozen=True)
class FuseGeluPass(NetworkPass):
    """
    Replace `x * (f(p(x)) + 1) * 0.5`, multiplied in any order, by one function. It is gelu where
    `f(p(x))` is `erf(x / sqrt 2)`, and gelu_tanh where it is
    `tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))`, however the polynomial is spelled. Nothing else may
    read the product's factors.

    Off by the rounding of what is multiplied in another order.
    """

    name = "fuse-gelu"

    def change(self, main: FuncOp) -> None:
        block = main.body.block
        for inner in list(block.ops):
            if isinstance(inner, graph.UnaryOp):
                _fuse(inner)
        erase_dead(block)


def _fuse(op: graph.UnaryOp) -> None:
    form = FORMS.get(op.function.kind)
    if form is None or op.function.affine is not None:
        return
    kind, expected = form
    total = _only_reader(op.result, graph.Binary.ADD)
    if total is None or graph.constant_number(_other(total, op.result)) != 1.0:
        return
    last, factor, argument = total, 1.0, None
    while (product := _only_reader(last.result, graph.Binary.MUL)) is not None:
        other = _other(product, last.result)
        if (number := graph.constant_number(other)) is not None:
            factor *= number
        elif argument is not None:
            break
        else:
            found = (pair for pair in _multiples(other) if _is(op.input, pair[0], expected))
            argument, number = next(found, (None, 1.0))
            if argument is None:
                break
            factor *= number
        last = product
        if argument is not None and factor == 0.5:
            _replace(argument, kind, last)
            return


def _multiples(value: SSAValue) -> Iterator[tuple[SSAValue, float]]:
    """Every value that `value` is a multiple of, and the factor."""
    yield value, 1.0
    owner = value.owner
    if isinstance(owner, graph.BinaryOp) and owner.function is graph.Binary.MUL:
        for operand in owner.operands if owner.activation is None else ():
            if (number := graph.constant_number(_other(owner, operand))) is not None:
                yield operand, number


def _is(value: SSAValue, argument: SSAValue, expected: Polynomial) -> bool:
    """Whether `value` is this polynomial of `argument`."""
    got = _polynomial(value, argument, [MOST_TERMS])
    return got is not None and all(
        abs(got.get(i, 0.0) - expected.get(i, 0.0)) <= NEAR * expected.get(i, 0.0)
        for i in {*got, *expected}
    )


def _polynomial(value: SSAValue, argument: SSAValue, left: list[int]) -> Polynomial | None:
    """`value` as a polynomial of `argument`; None for what is none, or takes too long."""
    left[0] -= 1
    if value is argument:
        return {1: 1.0}
    if (number := graph.constant_number(value)) is not None:
        return {0: number}
    op = value.owner
    if not isinstance(op, graph.BinaryOp) or op.activation is not None or left[0] < 0:
        return None
    combine = COMBINED.get(op.function)
    lhs = None if combine is None else _polynomial(op.lhs, argument, left)
    rhs = None if lhs is None else _polynomial(op.rhs, argument, left)
    return None if combine is None or lhs is None or rhs is None else combine(lhs, rhs)


def _sum(a: Polynomial, b: Polynomial) -> Polynomial:
    return {i: a.get(i, 0.0) + b.get(i, 0.0) for i in {*a, *b}}


def _product(a: Polynomial, b: Polynomial) -> Polynomial:
    result: Polynomial = {}
    for i, x in a.items():
        for j, y in b.items():
            result[i + j] = result.get(i + j, 0.0) + x * y
    return result


def _quotient(a: Polynomial, b: Polynomial) -> Polynomial | None:
    divisor = b.get(0, 0.0)
    return {i: x / divisor for i, x in a.items()} if set(b) == {0} and divisor else None


def _power(a: Polynomial, b: Polynomial) -> Polynomial | None:
    count = b.get(0, 0.0)
    if set(b) != {0} or count not in (2.0, 3.0):
        return None
    square = _product(a, a)
    return square if count == 2.0 else _product(square, a)


COMBINED: dict[graph.Binary, Callable[[Polynomial, Polynomial], Polynomial | None]] = {
    graph.Binary.ADD: _sum,
    graph.Binary.MUL: _product,
    graph.Binary.DIV: _quotient,
    graph.Binary.POW: _power,
}


def _replace(argument: SSAValue, kind: graph.Function, last: graph.BinaryOp) -> None:
    if graph.shape_of(argument) != graph.shape_of(last.result):
        return
    gelu = graph.UnaryOp(argument, graph.FunctionAttr(kind))
    gelu.location = fused_location(last, *computed_between(last, argument))
    copy_statistics(last, gelu)
    Rewriter.insert_op(gelu, InsertPoint.before(last))
    gelu.result.name_hint = last.result.name_hint
    last.result.replace_all_uses_with(gelu.result)


def _only_reader(value: SSAValue, function: graph.Binary) -> graph.BinaryOp | None:
    if not value.has_one_use():
        return None
    reader: Operation = next(iter(value.uses)).operation
    if not isinstance(reader, graph.BinaryOp) or reader.function is not function:
        return None
    return None if reader.activation is not None or reader.is_quantized else reader


def _other(op: graph.BinaryOp, value: SSAValue) -> SSAValue:
    return op.rhs if op.lhs is value else op.lhs
