"""
Decide whether elementwise operations compute a given function, for each consumer of the result.

A consumer can be a logarithm, a reciprocal or a sign. A small absolute error is therefore no
equality: `max(x, 1e-7)` is not a ReLU. Two conditions are tested at float32 numbers of each binade
and sign, at infinities and NaN, and on both sides of each boundary between branches.

1. *The functions are equal over the reals*, to a relative 2^-40. Constants of activations that have
   no float32 form, such as the root of 1/2, are unrounded first.
2. *Their float32 results differ by rounding only.* Infinities and NaN agree, and so do the signs of
   zeros if a quotient or a power can depend on them. An infinity that results from a finite number
   is exempt: an intermediate result exceeded float32, and the function has no intermediate result.

The first condition detects each epsilon. The second detects a rounding that is intended, such as
`(x + 2^23) - 2^23`. Between two tested points both functions are compositions of a few analytic
functions without a boundary.
"""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from functools import cache, lru_cache
from math import inf, nan
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Compare, Function, FunctionAttr
from ceras_ir.interpreters.elementwise import evaluate
from ceras_ir.interpreters.float_functions import apply_function
from ceras_ir.network.distinct import distinct
from ceras_ir.transforms.graph import formulas
from ceras_ir.transforms.graph.formulas import Doubles

# Formulas of real functions, called within `localcontext(REALS)`. They define the function, not
# the float32 implementation. Unlike float64 formulas, which round `1 + exp(-50)` to 1, they are
# accurate in the tails.

PRECISION_DIGITS = 75
"""Decimal digits; 1 plus the smallest float32 number, 1e-45, keeps 30 digits of it."""

REALS = Context(prec=PRECISION_DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
"""Overflow gives an infinity and an undefined result gives NaN, as in IEEE 754."""

ZERO, CUBIC, HALF, ONE, TWO, SIX = map(Decimal, ("0", "0.044715", "0.5", "1", "2", "6"))

RealFormula = Callable[[Decimal, Sequence[Decimal]], Decimal]


def _clip(x: Decimal, low: Decimal, high: Decimal) -> Decimal:
    return min(max(x, low), high)


MAX_KEPT = 1 << 12
"""The number of kept results per function: most arguments occur twice, with both signs."""


@lru_cache(MAX_KEPT)
def _decay(magnitude: Decimal) -> Decimal:
    return (-magnitude).exp()


def _sigmoid(x: Decimal) -> Decimal:
    power = _decay(abs(x))
    return (power if x < ZERO else ONE) / (ONE + power)


def _tanh(x: Decimal) -> Decimal:
    power = _decay(TWO * abs(x))
    return ((ONE - power) / (ONE + power)).copy_sign(x)


def _softplus(x: Decimal) -> Decimal:
    return max(x, ZERO) + (ONE + _decay(abs(x))).ln()


PI = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899863"
)

MAX_ERF_ARGUMENT = 16
"""From here on `1 - erf(x)` is below 1e-112."""


def erf(x: Decimal) -> Decimal:
    """
    Return the Gauss error function by the Taylor series. The working precision grows with x,
    because the terms are as large as `exp(x^2)` before they cancel.
    """
    if not x or not x.is_finite() or abs(x) >= MAX_ERF_ARGUMENT:
        return x if not x or x.is_nan() else ONE.copy_sign(x)
    return _erf_series(abs(x)).copy_sign(x)


@lru_cache(MAX_KEPT)
def _erf_series(x: Decimal) -> Decimal:
    wide = REALS.copy()
    wide.prec = PRECISION_DIGITS + int(x * x / 2) + 5
    negative_square = wide.multiply(x, -x)
    term, total, k = x, x, 0
    while term.adjusted() > total.adjusted() - wide.prec:
        k += 1
        term = wide.divide(wide.multiply(term, negative_square), Decimal(k))
        total = wide.add(total, wide.divide(term, Decimal(2 * k + 1)))
    return TWO * total / PI.sqrt()


REAL_FORMULAS: dict[Function, RealFormula] = {
    Function.RELU: lambda x, _: max(x, ZERO),
    Function.CLIP: lambda x, p: _clip(x, p[0], p[1]),
    Function.LEAKY_RELU: lambda x, p: x if x >= ZERO else p[0] * x,
    Function.SIGMOID: lambda x, _: _sigmoid(x),
    Function.TANH: lambda x, _: _tanh(x),
    Function.SWISH: lambda x, _: x * _sigmoid(x),
    Function.HARD_SIGMOID: lambda x, p: _clip(p[0] * x + p[1], ZERO, ONE),
    Function.HARD_SWISH: lambda x, _: x * _clip(x / SIX + HALF, ZERO, ONE),
    Function.EXP: lambda x, _: x.exp(),
    Function.LOG: lambda x, _: x.ln(),
    Function.ERF: lambda x, _: erf(x),
    Function.SQRT: lambda x, _: x.sqrt(),
    Function.ABS: lambda x, _: abs(x),
    Function.ELU: lambda x, p: x if x >= ZERO else p[0] * (x.exp() - ONE),
    Function.SOFTPLUS: lambda x, _: _softplus(x),
    Function.SOFTSIGN: lambda x, _: x / (ONE + abs(x)),
    Function.MISH: lambda x, _: x * _tanh(_softplus(x)),
    Function.GELU: lambda x, _: HALF * x * (ONE + erf(x * HALF.sqrt())),
    Function.GELU_TANH: lambda x, _: (
        HALF * x * (ONE + _tanh((TWO / PI).sqrt() * (x + CUBIC * x * x * x)))
    ),
}
"""Formulas of functions of an argument and of the parameters in the IR."""

REAL_COMBINED: dict[Binary, Callable[[Decimal, Decimal], Decimal]] = {
    Binary.ADD: operator.add,
    Binary.SUB: operator.sub,
    Binary.MUL: operator.mul,
    Binary.DIV: lambda x, y: x / y,
    Binary.POW: lambda x, y: x**y,
    Binary.MAX: max,
    Binary.MIN: min,
}

REAL_COMPARED: dict[Compare, Callable[[Decimal, Decimal], Decimal]] = {
    Compare.LESS: lambda x, y: Decimal(x < y),
    Compare.LESS_OR_EQUAL: lambda x, y: Decimal(x <= y),
}


@cache
def irrational_constants() -> tuple[Decimal, ...]:
    """
    Return the constants in formulas of activations that float32 cannot represent, such as the root
    of 1/2. Multiples by powers of two are not listed.
    """
    # 1/3, the roots of 1/2 and of 2/pi, 0.044715, and the product with the root of 2/pi.
    root = (TWO / PI).sqrt()
    return ONE / 3, HALF.sqrt(), root, CUBIC, CUBIC * root


@cache
def unrounded(number: float, relative: Decimal) -> Decimal:
    """
    If `number` is a rounded constant of an activation, such as the root of 1/2, return the precise
    constant, otherwise `number`. The relative difference must be at most `relative`.
    """
    exact = Decimal(number)
    if not number or not exact.is_finite():
        return exact
    for constant in irrational_constants():
        ratio = abs(exact) / constant
        power = TWO ** round(ratio.log10() / TWO.log10())
        if abs(ratio / power - ONE) <= relative:
            return (constant * power).copy_sign(exact)
    return exact


Array = NDArray[np.generic]
Floats = NDArray[np.float32]
T = TypeVar("T")

EQUAL = Decimal(2) ** -40
"""Relative difference of equal real functions; parameters are computed in float64."""
CONSTANT_ROUNDING = Decimal(2) ** -22
"""The relative difference of a float32 constant from the real constant: two ulp."""
MIN_SUBNORMAL = Decimal(2) ** -149
"""The smallest positive float32 number; results below half of it are 0."""
FLOAT32_ROUNDING = 2.0**-20
"""Difference of float32 results by rounding, as a multiple of `1 + abs(x)`: eight ulp."""
MAX_ARGUMENT_EXPONENT = 128
"""Arguments are below 2^128."""

_BINADES = [2.0**e * (1.0 + 0.37 * (e & 1)) for e in range(-149, MAX_ARGUMENT_EXPONENT)]
GRID: Floats = distinct(
    np.array([*_BINADES, *(-x for x in _BINADES), *np.linspace(-16, 16, 129)], np.float32)
)
"""A number of each binade, and multiples of 1/4 up to 16, in ascending order."""
SPECIAL: Floats = np.array([0.0, -0.0, inf, -inf, nan], np.float32)

BRANCHES: Mapping[Function, Callable[[Sequence[float]], Sequence[float]]] = {
    Function.CLIP: lambda p: p,
    Function.HARD_SIGMOID: lambda p: (-p[1] / p[0], (1.0 - p[1]) / p[0]) if p[0] else (),
    Function.HARD_SWISH: lambda _: (-3.0, 3.0),
}
"""Arguments at which a function changes the formula, other than 0."""

EVEN_AT_ZERO = (Function.ABS, Function.EXP, Function.SIGMOID, Function.SOFTPLUS, Function.COS)
"""Functions that are equal for both zeros."""


class Formula:
    """
    The elementwise operations that compute `result` from the value `argument` and from scalar
    constants, as a function of a single variable.
    """

    def __init__(self, result: SSAValue, argument: SSAValue):
        self.result, self.argument = result, argument
        self.ops = list(_in_order(result, argument))

    @property
    def key(self) -> str:
        """
        A text of the operations and constants. Formulas with the same operations have the same
        text, so that a result can be shared.
        """
        numbers = {self.argument: "x"} | {op.results[0]: str(i) for i, op in enumerate(self.ops)}

        def operand(value: SSAValue) -> str:
            return numbers.get(value) or repr(graph.constant_number(value))

        lines = [
            f"{op.name} {op.properties} {' '.join(map(operand, op.operands))}" for op in self.ops
        ]
        return "\n".join(lines)

    def evaluate(
        self,
        argument: T,
        constant: Callable[[SSAValue], T],
        compute: Callable[[Operation, Sequence[T]], T],
    ) -> dict[SSAValue, T]:
        """
        Return the results of all operations if the argument is `argument`, by value. `constant`
        converts a constant to the type of numbers in use (floats or decimals), and `compute`
        evaluates an operation.
        """
        values = {self.argument: argument}
        for op in self.ops:
            operands = [values[v] if v in values else constant(v) for v in op.operands]
            values[op.results[0]] = compute(op, operands)
        return values


class FunctionEquality:
    """
    Checks whether operations of a network compute the same function as a function of `graph`, such
    as swish, for all consumers. Results are cached.
    """

    def __init__(self, main: FuncOp):
        self._known: dict[tuple[str, FunctionAttr, bool], bool] = {}
        self._signed = _divisors(main)

    def computes(self, result: SSAValue, argument: SSAValue, function: FunctionAttr) -> bool:
        """
        Return whether the operations from `argument` to `result` compute `function`: equal over the
        reals, and in float32 up to rounding, at many test arguments.
        """
        formula = Formula(result, argument)
        has_sign = formula.result in self._signed
        key = formula.key, function, has_sign
        if key not in self._known:
            self._known[key] = self._computes(formula, function, has_sign)
        return self._known[key]

    def _computes(self, formula: Formula, function: FunctionAttr, has_sign: bool) -> bool:
        with np.errstate(all="ignore"):
            points = np.concatenate([SPECIAL, GRID, _beside_boundaries(formula)])
            found, expected = _results(formula, points), apply_function(function, points)
            difference = np.abs(found - expected)
            near = np.isfinite(difference) & (
                difference <= FLOAT32_ROUNDING * (1.0 + np.abs(points))
            )
            # Only the operations have intermediate results, which can exceed float32.
            overflows = np.isinf(found) & np.isfinite(expected) & np.isfinite(points)
        agrees = near | (found == expected) | (np.isnan(found) & np.isnan(expected)) | overflows
        if has_sign:
            is_zero = (found == 0) & (expected == 0)
            agrees &= ~is_zero | (np.signbit(found) == np.signbit(expected))
        if not agrees.all():
            return False
        with localcontext(REALS):
            return _equals(formula, function, points[np.isfinite(points)])


def _results(formula: Formula, points: Floats) -> Floats:
    def constant(value: SSAValue) -> Array:
        return graph.known_array(value).reshape(-1)

    return formula.evaluate(points, constant, evaluate)[formula.result].astype(np.float32)


def _divisors(main: FuncOp) -> set[SSAValue]:
    # Values of which the sign of zero can decide between the infinities of a quotient.
    found = set[SSAValue]()
    for op in reversed(list(main.body.block.ops)):
        if not isinstance(op, graph.GraphOperation) or isinstance(op, graph.CallingOperation):
            found.update(op.operands if op.results else ())
        elif not found.isdisjoint(op.results) and not _forgets_sign(op):
            found.update(op.operands)
        if isinstance(op, graph.BinaryOp) and op.function in (Binary.DIV, Binary.POW):
            exponent = graph.constant_number(op.rhs)
            if op.function is Binary.DIV:
                found.add(op.rhs)
            elif exponent is None or exponent < 0:
                found.update(op.operands)
    return found


def _forgets_sign(op: Operation) -> bool:
    # The result is equal for both zeros.
    if isinstance(op, graph.UnaryOp):
        return op.function.data in EVEN_AT_ZERO
    is_sum = isinstance(op, graph.BinaryOp) and op.function in (Binary.ADD, Binary.SUB)
    return is_sum and any(graph.constant_number(v) not in (None, 0.0) for v in op.operands)


def _in_order(result: SSAValue, argument: SSAValue) -> Iterator[Operation]:
    # The operations between two values, each after the operands.
    done = {argument}

    def visit(value: SSAValue) -> Iterator[Operation]:
        op = value.owner
        if value in done or not isinstance(op, Operation) or isinstance(op, graph.ConstantOp):
            return
        done.add(value)
        for operand in op.operands:
            yield from visit(operand)
        yield op

    return visit(result)


def _equals(formula: Formula, function: FunctionAttr, points: Floats) -> bool:
    arguments = [Decimal(x) for x in points.tolist()]

    def constant(value: SSAValue) -> Sequence[Decimal]:
        return [_real_constant(value)] * len(arguments)

    def compute(op: Operation, operands: Sequence[Sequence[Decimal]]) -> Sequence[Decimal]:
        return list(map(_real_function(op), *operands))

    found = formula.evaluate(arguments, constant, compute)[formula.result]
    expected = map(_real_unary(function), arguments)
    return all(
        abs(x - y) <= max(abs(y) * EQUAL, MIN_SUBNORMAL / 2)
        for x, y in zip(found, expected, strict=True)
    )


def _known_number(value: SSAValue) -> float:
    number = graph.constant_number(value)
    assert number is not None
    return number


def _real_constant(value: SSAValue) -> Decimal:
    return unrounded(_known_number(value), CONSTANT_ROUNDING)


def _parameters(function: FunctionAttr) -> list[Decimal]:
    return [unrounded(p, CONSTANT_ROUNDING) for p in function.values]


def _real_unary(function: FunctionAttr) -> Callable[[Decimal], Decimal]:
    formula, parameters = REAL_FORMULAS[function.data], _parameters(function)
    return lambda x: formula(x, parameters)


def _selected(condition: Decimal, x: Decimal, y: Decimal) -> Decimal:
    return x if condition else y


def _real_function(op: Operation) -> Callable[..., Decimal]:
    match op:
        case graph.BinaryOp():
            return REAL_COMBINED[op.function]
        case graph.UnaryOp():
            return _real_unary(op.function)
        case graph.CompareOp():
            return REAL_COMPARED[op.function]
        case graph.SelectOp():
            return _selected
        case _:
            assert isinstance(op, graph.CastOp)
            return Decimal


def _beside_boundaries(formula: Formula) -> Floats:
    # Float32 numbers on both sides of each change of branch and sign, by bisection of the grid.
    def differences(points: Floats) -> Doubles:
        values = formula.evaluate(points.astype(np.float64), _constant, _float64)
        found = [d for op in formula.ops for d in _differences(op, values)]
        return np.array([np.broadcast_to(d, points.shape) for d in found])

    found = differences(GRID)
    signs = np.sign(found)
    rows, at = np.nonzero((signs[:, :-1] != signs[:, 1:]) & np.isfinite(found[:, :-1]))
    low, high = _ordinals(GRID)[at], _ordinals(GRID)[at + 1]
    for _ in range(32):
        middle = (low + high) // 2
        found = differences(_numbers(middle))[rows, np.arange(len(rows))]
        is_low = np.sign(found) == signs[rows, at]
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    boundaries = np.concatenate([low, high])
    return _numbers(distinct(boundaries[:, None] + np.arange(-2, 3)))


def _differences(op: Operation, values: Mapping[SSAValue, Doubles]) -> Iterator[Doubles]:
    # Values of which the signs decide the branch that an operation computes.
    operands = [values[v] if v in values else _constant(v) for v in op.operands]
    yield from (values[v] for v in op.operands if v in values)
    is_extremum = isinstance(op, graph.BinaryOp) and op.function in (Binary.MAX, Binary.MIN)
    if isinstance(op, graph.CompareOp) or is_extremum:
        yield operands[0] - operands[1]
    elif isinstance(op, graph.UnaryOp) and op.function.data in BRANCHES:
        for branch in BRANCHES[op.function.data](op.function.values):
            yield operands[0] - branch


def _constant(value: SSAValue) -> Doubles:
    return np.array(_known_number(value))


def _float64(op: Operation, operands: Sequence[Doubles]) -> Doubles:
    value = formulas.elementwise(op, operands)
    assert value is not None
    return value


def _ordinals(numbers: Floats) -> NDArray[np.int64]:
    # Float32 values are numbered in ascending order; both zeros have number 0.
    bits = numbers.view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def _numbers(ordinals: NDArray[np.int64]) -> Floats:
    bits = np.where(ordinals < 0, -ordinals + 0x80000000, ordinals)
    return bits.astype(np.uint32).view(np.float32)
