"""Import elementwise functions, including trigonometric and hyperbolic functions."""

from collections.abc import Sequence
from math import inf, isnan

import numpy as np

from ceras_ir.dialects.graph import Binary, Compare, Function
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.quantization import clipped, is_quantized
from ceras_ir.frontends.onnx.emission.registry import OperatorImporter, operator
from ceras_ir.frontends.onnx.emission.values import MAX_FLOAT32, Constant, Value, shape_of_value
from ceras_ir.frontends.onnx.model.node import Node

LAYER_FUNCTIONS = {
    "Relu": Function.RELU,
    "Tanh": Function.TANH,
    "Sigmoid": Function.SIGMOID,
    "LeakyRelu": Function.LEAKY_RELU,
    "HardSigmoid": Function.HARD_SIGMOID,
    "Elu": Function.ELU,
    "Softplus": Function.SOFTPLUS,
    "Softsign": Function.SOFTSIGN,
    "ThresholdedRelu": Function.THRESHOLDED_RELU,
}
"""Functions in recurrent and fused layers, by the names of their operators."""

OPERATORS_WITH_RULES = ("Abs", "Celu", "Relu", "Sign")
"""Operators with importers that check more than attributes."""


def _register_functions() -> None:
    known: dict[str, list[Function]] = {}
    for function in Function:
        if (onnx := function.facts.onnx) is not None and onnx.name not in OPERATORS_WITH_RULES:
            known.setdefault(onnx.name, []).append(function)
    for name, functions in known.items():
        operator(name)(_importer(functions))


def _importer(functions: Sequence[Function]) -> OperatorImporter:
    """
    Return the importer of an ONNX operator that computes one of `functions`; if there are several,
    an attribute of the node chooses.
    """

    def function(node: Node, emitter: Emitter) -> Value:
        chosen, parameters = _function(node, functions)
        return emitter.unary(chosen, emitter.value(0), *parameters)

    names = " or ".join(f"`{f}`" for f in functions)
    if (onnx := functions[0].facts.onnx) is not None and onnx.mode is not None:
        names += f", depending on `{onnx.mode[0]}`"
    given = ", ".join(f"`{name}` (by default {n:.7g})" for name, n in defaults_of(functions[0]))
    function.__doc__ = f"Emit the function {names}" + (f" with {given}." if given else ".")
    return function


def defaults_of(function: Function) -> Sequence[tuple[str, float]]:
    """Return the name and the default of each parameter of an elementwise function in ONNX."""
    onnx = function.facts.onnx
    return [] if onnx is None else list(zip(function.facts.parameters, onnx.defaults, strict=True))


def _function(node: Node, functions: Sequence[Function]) -> tuple[Function, Sequence[float]]:
    chosen, onnx = functions[0], functions[0].facts.onnx
    if onnx is not None and onnx.mode is not None:
        attribute, default = onnx.mode
        modes = {f.facts.onnx.mode[1]: f for f in functions if f.facts.onnx and f.facts.onnx.mode}
        if (mode := node.string(attribute, default)) not in modes:
            known = " or ".join(modes)
            raise node.wrong(f"attribute '{attribute}' must be {known}, got '{mode}'")
        chosen = modes[mode]
    return chosen, [node.number(name, n) for name, n in defaults_of(functions[0])]


@operator("Celu")
def celu(node: Node, emitter: Emitter) -> Value:
    """Import Celu: the function `celu` with `alpha` (by default 1), which must not be 0."""
    function, (alpha,) = _function(node, [Function.CELU])
    if alpha == 0.0:
        raise node.wrong("attribute 'alpha' must not be 0")
    return emitter.unary(function, emitter.value(0), alpha)


@operator("Relu")
def relu(node: Node, emitter: Emitter) -> Value:
    """
    Import Relu as the function `relu`. For a quantized value, clamp the stored integers instead.
    """
    value = emitter.value(0)
    if is_quantized(value):
        return clipped(emitter, value, 0, inf)
    return emitter.unary(Function.RELU, value)


@operator("Erfc")
def erfc(node: Node, emitter: Emitter) -> Value:
    """Emit `1 + erf(-x)`. ONNX has no such operator, but tf2onnx writes it in the GELU of Keras."""
    opposite = emitter.mul(emitter.value(0), emitter.number(-1.0))
    return emitter.add(emitter.unary(Function.ERF, opposite), emitter.number(1.0))


@operator("Swish")
def swish(node: Node, emitter: Emitter) -> Value:
    """Import Swish (opset 24): `x * sigmoid(alpha * x)`."""
    alpha, value = node.number("alpha", 1.0), emitter.value(0)
    if alpha == 1.0:
        return emitter.unary(Function.SWISH, value)
    inner = emitter.mul(value, emitter.number(alpha))
    return emitter.mul(value, emitter.unary(Function.SIGMOID, inner))


@operator("Selu")
def selu(node: Node, emitter: Emitter) -> Value:
    """Import Selu: `gamma` times the function `elu`."""
    elu = emitter.unary(Function.ELU, emitter.value(0), node.number("alpha", 1.6732632))
    return emitter.mul(elu, emitter.number(node.number("gamma", 1.0507010)))


@operator("PRelu")
def prelu(node: Node, emitter: Emitter) -> Value:
    """
    Import PRelu: `max(x, 0) + slope * min(x, 0)`, in which either summand is 0. An equal constant
    slope for all elements becomes `leaky_relu`.
    """
    value, slope = emitter.value(0), emitter.value(1)
    shape, extents = emitter.shape(0), emitter.shape(1)
    if node.opset < 7 and len(extents) == 1 and len(shape) > 1:
        slope = emitter.reshaped(slope, (*extents, *(1,) * (len(shape) - 2)))
    if isinstance(slope, Constant) and slope.dtype == np.float32:
        numbers = slope.load()
        if numbers.size and bool((numbers == numbers.reshape(-1)[0]).all()):
            number = float(numbers.reshape(-1)[0])
            if -inf < number < inf and len(shape_of_value(slope)) <= len(shape):
                return emitter.unary(Function.LEAKY_RELU, value, number)
    below = emitter.mul(emitter.unary(Function.CLIP, value, -inf, 0.0), slope)
    return emitter.add(emitter.unary(Function.RELU, value), below)


@operator("Clip")
def clip(node: Node, emitter: Emitter) -> Value:
    """
    Import Clip with optional bounds; if they cross, the upper has precedence. The bounds of a
    quantized value are integers.
    """
    value = emitter.value(0)
    if node.opset < 11:
        # The defaults are finite, so an infinite value becomes the largest finite value.
        low, high = node.bound("min", -MAX_FLOAT32), node.bound("max", MAX_FLOAT32)
    else:
        is_computed = any(node.has_input(i) and not node.is_constant(i) for i in (1, 2))
        if is_computed or not (emitter.is_float(value) or is_quantized(value)):
            for i, kind in ((1, Binary.MAX), (2, Binary.MIN)):
                if node.has_input(i):
                    value = emitter.binary(kind, value, emitter.value(i))
            return value
        low, high = _bound(node, emitter, 1, -inf), _bound(node, emitter, 2, inf)
    if isnan(low) or isnan(high):
        raise node.wrong(f"bounds must be numbers, got [{low}, {high}]")
    if is_quantized(value):
        return clipped(emitter, value, low, high)
    low = min(low, high)
    if (low, high) == (-inf, inf):
        return value
    if (low, high) == (0.0, inf):
        return emitter.unary(Function.RELU, value)
    return emitter.unary(Function.CLIP, value, low, high)


def _bound(node: Node, emitter: Emitter, index: int, default: float) -> float:
    if not node.has_input(index):
        return default
    array = emitter.array(index) if is_quantized(emitter.value(0)) else emitter.floats(index)
    if array.size != 1:
        raise node.wrong(f"bounds must be scalars, got shape {list(array.shape)}")
    return float(array.reshape(-1)[0])


_register_functions()


MAX_SERIES_ARGUMENT = 0.25
"""Below this magnitude a series is more precise than logarithms, which cancel."""


def tan(c: Emitter, x: Value) -> Value:
    return c.div(c.unary(Function.SIN, x), c.unary(Function.COS, x))


def asin(c: Emitter, x: Value) -> Value:
    one = c.number(1)
    root = c.unary(Function.SQRT, c.mul(c.sub(one, x), c.add(one, x)))
    return c.unary(Function.ATAN, c.div(x, root))


def acos(c: Emitter, x: Value) -> Value:
    """Return twice the arc tangent of `sqrt((1 - x) / (1 + x))`, which is precise near 1."""
    one = c.number(1)
    root = c.unary(Function.SQRT, c.div(c.sub(one, x), c.add(one, x)))
    return c.mul(c.number(2), c.unary(Function.ATAN, root))


def sinh(c: Emitter, x: Value) -> Value:
    """Return `-t * (t + 2) / (2 * (t + 1))` with `t = exp(-abs(x)) - 1`, which does not cancel."""
    a = c.unary(Function.ABS, x)
    t = c.unary(Function.ELU, c.sub(c.number(0), a), 1.0)
    top = c.mul(t, c.add(t, c.number(2)))
    y = c.div(top, c.mul(c.number(-2), c.add(t, c.number(1))))
    return c.mul(y, c.unary(Function.SIGN, x))


def cosh(c: Emitter, x: Value) -> Value:
    e = c.unary(Function.EXP, c.unary(Function.ABS, x))
    return c.add(c.mul(c.number(0.5), e), c.div(c.number(0.5), e))


def asinh(c: Emitter, x: Value) -> Value:
    """Return `log(a + sqrt(a * a + 1))`; near 0, the first terms of the series."""
    a = c.unary(Function.ABS, x)
    root = c.unary(Function.SQRT, c.add(c.mul(a, a), c.number(1)))
    far = c.mul(c.unary(Function.LOG, c.add(a, root)), c.unary(Function.SIGN, x))
    return _unless_near(c, x, far, (-1 / 6, 3 / 40, -15 / 336, 105 / 3456))


def acosh(c: Emitter, x: Value) -> Value:
    one = c.number(1)
    root = c.unary(Function.SQRT, c.mul(c.sub(x, one), c.add(x, one)))
    return c.unary(Function.LOG, c.add(x, root))


def atanh(c: Emitter, x: Value) -> Value:
    """Return `log((1 + x) / (1 - x)) / 2`; near 0, the first terms of the series."""
    one = c.number(1)
    ratio = c.div(c.add(one, x), c.sub(one, x))
    far = c.mul(c.number(0.5), c.unary(Function.LOG, ratio))
    return _unless_near(c, x, far, (1 / 3, 1 / 5, 1 / 7, 1 / 9))


def _unless_near(c: Emitter, x: Value, far: Value, series: tuple[float, ...]) -> Value:
    """
    Return the power series `x + x^3 * series(x^2)` for small magnitudes of `x`, else `far`.
    `series` has the coefficients, the lowest power first.
    """
    s = c.mul(x, x)
    p: Value = c.number(series[-1])
    for coefficient in series[-2::-1]:
        p = c.add(c.mul(p, s), c.number(coefficient))
    near = c.add(c.mul(c.mul(p, s), x), x)
    is_near = c.compare(Compare.LESS, s, c.number(MAX_SERIES_ARGUMENT * MAX_SERIES_ARGUMENT))
    return c.select(is_near, near, far)


_FUNCTIONS = (tan, asin, acos, sinh, cosh, asinh, acosh, atanh)
COMPOSED = {function.__name__.capitalize(): function for function in _FUNCTIONS}


@operator(*COMPOSED)
def composed(node: Node, emitter: Emitter) -> Value:
    """
    Import a trigonometric or hyperbolic function as a composition of sine, cosine, arc tangent,
    exponential and logarithm.
    """
    return COMPOSED[node.operator](emitter, emitter.value(0))


@operator("IsNaN")
def is_nan(node: Node, emitter: Emitter) -> Value:
    """Import IsNaN: true for an element that is unequal to itself."""
    x = emitter.value(0)
    same = emitter.compare(Compare.EQUAL, x, x)
    return emitter.binary(Binary.XOR, same, emitter.number(1, same))


@operator("IsInf")
def is_infinite(node: Node, emitter: Emitter) -> Value:
    """
    Import IsInf: compare with infinity, of both signs or only of the sign that attributes select.
    """
    x = emitter.value(0)
    positive, negative = node.flag("detect_positive", True), node.flag("detect_negative", True)
    infinity = emitter.number(np.inf)
    if positive and negative:
        return emitter.compare(Compare.EQUAL, emitter.unary(Function.ABS, x), infinity)
    if not positive and not negative:
        return emitter.compare(Compare.LESS, infinity, x)
    return emitter.compare(Compare.EQUAL, x, infinity if positive else emitter.number(-np.inf))
