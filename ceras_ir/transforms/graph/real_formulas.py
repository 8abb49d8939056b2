"""
Compute elementwise functions of real numbers with `PRECISION` decimal digits.

A float64 formula rounds `1 + exp(-50)` to 1 and therefore cannot compare functions in their tails.
These formulas can. They define the mathematical function, not its float32 implementation. Call them
within `localcontext(REALS)`.
"""

from collections.abc import Callable, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from functools import cache

from ceras_ir.dialects.graph import Binary, Compare, Function

PRECISION = 75
"""The smallest float32 number is 1e-45: a sum with 1 keeps 30 digits of it."""

REALS = Context(prec=PRECISION, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
"""Overflow gives an infinity and an undefined result gives NaN, as in IEEE 754."""

ZERO, HALF, ONE, TWO, SIX = map(Decimal, ("0", "0.5", "1", "2", "6"))

Formula = Callable[[Decimal, Sequence[Decimal]], Decimal]


def _clip(x: Decimal, low: Decimal, high: Decimal) -> Decimal:
    return min(max(x, low), high)


def _sigmoid(x: Decimal) -> Decimal:
    return ONE / (ONE + (-x).exp())


def _tanh(x: Decimal) -> Decimal:
    power = (-TWO * abs(x)).exp()
    return ((ONE - power) / (ONE + power)).copy_sign(x)


def _softplus(x: Decimal) -> Decimal:
    return max(x, ZERO) + (ONE + (-abs(x)).exp()).ln()


@cache
def pi() -> Decimal:
    """Return pi by the formula of Machin: `4 * (4 * atan(1 / 5) - atan(1 / 239))`."""

    def inverse_tangent(n: int) -> Decimal:
        power = total = ONE / n
        for k in range(3, 4 * PRECISION, 2):
            power = -power / (n * n)
            total += power / k
        return total

    return 4 * (4 * inverse_tangent(5) - inverse_tangent(239))


MAX_ERF_ARGUMENT = 16
"""From here on `1 - erf(x)` is below 1e-112."""


def erf(x: Decimal) -> Decimal:
    """Return the error function by its Taylor series, of which no term exceeds `exp(x^2)`."""
    if not x or not x.is_finite() or abs(x) >= MAX_ERF_ARGUMENT:
        return x if not x or x.is_nan() else ONE.copy_sign(x)
    wide = REALS.copy()
    wide.prec = PRECISION + int(x * x / 2) + 5
    negative_square = wide.multiply(x, -x)
    term, total, k = x, x, 0
    while term.adjusted() > total.adjusted() - wide.prec:
        k += 1
        term = wide.divide(wide.multiply(term, negative_square), Decimal(k))
        total = wide.add(total, wide.divide(term, Decimal(2 * k + 1)))
    return TWO * total / pi().sqrt()


def _gelu(x: Decimal) -> Decimal:
    return HALF * x * (ONE + erf(x * HALF.sqrt()))


def _gelu_tanh(x: Decimal) -> Decimal:
    return HALF * x * (ONE + _tanh((TWO / pi()).sqrt() * (x + Decimal("0.044715") * x * x * x)))


FORMULAS: dict[Function, Formula] = {
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
    Function.GELU: lambda x, _: _gelu(x),
    Function.GELU_TANH: lambda x, _: _gelu_tanh(x),
}
"""Functions of an argument and of the parameters in the IR."""

COMBINED: dict[Binary, Callable[[Decimal, Decimal], Decimal]] = {
    Binary.ADD: lambda x, y: x + y,
    Binary.SUB: lambda x, y: x - y,
    Binary.MUL: lambda x, y: x * y,
    Binary.DIV: lambda x, y: x / y,
    Binary.POW: lambda x, y: x**y,
    Binary.MAX: max,
    Binary.MIN: min,
}

COMPARED: dict[Compare, Callable[[Decimal, Decimal], bool]] = {
    Compare.LESS: lambda x, y: x < y,
    Compare.LESS_OR_EQUAL: lambda x, y: x <= y,
}


@cache
def irrational_constants() -> tuple[Decimal, ...]:
    """
    Return the constants of activations that have no float32 form, up to a power of two.

    They are 1/3, the roots of 1/2 and of 2/pi, 0.044715, and its product with the root of 2/pi.
    """
    root, cubic = (TWO / pi()).sqrt(), Decimal("0.044715")
    return ONE / 3, HALF.sqrt(), root, cubic, cubic * root


@cache
def unrounded(number: float, relative: Decimal) -> Decimal:
    """Return the constant of an activation that is within `relative` of `number`, else `number`."""
    exact = Decimal(number)
    if not number or not exact.is_finite():
        return exact
    for constant in irrational_constants():
        ratio = abs(exact) / constant
        power = TWO ** round(ratio.log10() / TWO.log10())
        if abs(ratio / power - ONE) <= relative:
            return (constant * power).copy_sign(exact)
    return exact
