"""Trigonometric and hyperbolic functions that are compositions of a few others."""

from collections.abc import Callable

import numpy as np

from ceras_ir.dialects.graph import Binary, Compare, Function
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import Emitter
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.registry import operator
from ceras_ir.frontends.onnx.values import Value

Composed = Callable[[Composer, Value], Value]

NEAR = 0.25
"""Below this magnitude a series is better than logarithms, which cancel."""


def tan(c: Composer, x: Value) -> Value:
    return c.div(c.unary(Function.SIN, x), c.unary(Function.COS, x))


def asin(c: Composer, x: Value) -> Value:
    one = c.number(1)
    root = c.unary(Function.SQRT, c.mul(c.sub(one, x), c.add(one, x)))
    return c.unary(Function.ATAN, c.div(x, root))


def acos(c: Composer, x: Value) -> Value:
    """Twice the arc of `sqrt((1 - x) / (1 + x))`, which is exact near 1."""
    one = c.number(1)
    root = c.unary(Function.SQRT, c.div(c.sub(one, x), c.add(one, x)))
    return c.mul(c.number(2), c.unary(Function.ATAN, root))


def sinh(c: Composer, x: Value) -> Value:
    """With `t = exp(-abs(x)) - 1`, which does not cancel: `-t * (t + 2) / (2 * (t + 1))`."""
    a = c.unary(Function.ABS, x)
    t = c.unary(Function.ELU, c.sub(c.number(0), a), 1.0)
    top = c.mul(t, c.add(t, c.number(2)))
    y = c.div(top, c.mul(c.number(-2), c.add(t, c.number(1))))
    return c.mul(y, c.unary(Function.SIGN, x))


def cosh(c: Composer, x: Value) -> Value:
    e = c.unary(Function.EXP, c.unary(Function.ABS, x))
    return c.add(c.mul(c.number(0.5), e), c.div(c.number(0.5), e))


def asinh(c: Composer, x: Value) -> Value:
    """`log(a + sqrt(a * a + 1))`, near 0 the first terms of the series."""
    a = c.unary(Function.ABS, x)
    root = c.unary(Function.SQRT, c.add(c.mul(a, a), c.number(1)))
    far = c.mul(c.unary(Function.LOG, c.add(a, root)), c.unary(Function.SIGN, x))
    return _unless_near(c, x, far, (-1 / 6, 3 / 40, -15 / 336, 105 / 3456))


def acosh(c: Composer, x: Value) -> Value:
    one = c.number(1)
    root = c.unary(Function.SQRT, c.mul(c.sub(x, one), c.add(x, one)))
    return c.unary(Function.LOG, c.add(x, root))


def atanh(c: Composer, x: Value) -> Value:
    """`log((1 + x) / (1 - x)) / 2`, near 0 the first terms of the series."""
    one = c.number(1)
    ratio = c.div(c.add(one, x), c.sub(one, x))
    far = c.mul(c.number(0.5), c.unary(Function.LOG, ratio))
    return _unless_near(c, x, far, (1 / 3, 1 / 5, 1 / 7, 1 / 9))


def _unless_near(c: Composer, x: Value, far: Value, series: tuple[float, ...]) -> Value:
    """`x + x^3 * (series in x^2)` below NEAR in magnitude, else `far`."""
    s = c.mul(x, x)
    p: Value = c.number(series[-1])
    for coefficient in series[-2::-1]:
        p = c.add(c.mul(p, s), c.number(coefficient))
    near = c.add(c.mul(c.mul(p, s), x), x)
    return c.select(c.compare(Compare.LESS, s, c.number(NEAR * NEAR)), near, far)


COMPOSED: dict[str, Composed] = {
    "Tan": tan,
    "Asin": asin,
    "Acos": acos,
    "Sinh": sinh,
    "Cosh": cosh,
    "Asinh": asinh,
    "Acosh": acosh,
    "Atanh": atanh,
}


@operator(*COMPOSED)
def composed(node: Node, emitter: Emitter) -> Value:
    """A composition of sine, cosine, arc tangent, exponential and logarithm."""
    return COMPOSED[node.operator](Composer(emitter), emitter.value(0))


@operator("IsNaN")
def is_nan(node: Node, emitter: Emitter) -> Value:
    """What does not equal itself."""
    compose, x = Composer(emitter), emitter.value(0)
    same = compose.compare(Compare.EQUAL, x, x)
    return emitter.binary(Binary.XOR, same, compose.number(1, same))


@operator("IsInf")
def is_infinite(node: Node, emitter: Emitter) -> Value:
    """A comparison with infinity, of either sign or one."""
    compose, x = Composer(emitter), emitter.value(0)
    positive, negative = node.flag("detect_positive", True), node.flag("detect_negative", True)
    infinity = compose.number(np.inf)
    if positive and negative:
        return compose.compare(Compare.EQUAL, compose.unary(Function.ABS, x), infinity)
    if not positive and not negative:
        return compose.compare(Compare.LESS, infinity, x)
    return compose.compare(Compare.EQUAL, x, infinity if positive else compose.number(-np.inf))
