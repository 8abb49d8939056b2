"""Elementwise functions of one argument."""

from math import inf, isnan

import numpy as np

from ceras_ir.dialects.graph import Function, FunctionAttr
from ceras_ir.frontends.onnx.emitter import Emitter
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.registry import operator, rule
from ceras_ir.frontends.onnx.values import Value

PLAIN = {
    "Exp": Function.EXP,
    "HardSwish": Function.HARD_SWISH,
    "Relu": Function.RELU,
    "Sigmoid": Function.SIGMOID,
    "Tanh": Function.TANH,
}
"""Operators without parameters."""


@operator(*PLAIN)
def plain(node: Node, emitter: Emitter) -> Value:
    """A function without parameters."""
    return emitter.unary(emitter.value(0), FunctionAttr(PLAIN[node.operator]))


@operator("LeakyRelu")
def leaky_relu(node: Node, emitter: Emitter) -> Value:
    """`alpha` is the slope below zero."""
    alpha = _finite(node, "alpha", 0.01)
    return emitter.unary(emitter.value(0), FunctionAttr(Function.LEAKY_RELU, [alpha]))


@operator("HardSigmoid")
def hard_sigmoid(node: Node, emitter: Emitter) -> Value:
    """`alpha` and `beta` are slope and offset; the defaults are those float32 numbers."""
    alpha = _finite(node, "alpha", float(np.float32(0.2)))
    beta = _finite(node, "beta", 0.5)
    return emitter.unary(emitter.value(0), FunctionAttr(Function.HARD_SIGMOID, [alpha, beta]))


@operator("Swish")
def swish(node: Node, emitter: Emitter) -> Value:
    """Opset 24's `x * sigmoid(alpha * x)`."""
    node.number("alpha", 1.0)
    return emitter.unary(emitter.value(0), FunctionAttr(Function.SWISH))


@rule("Swish")
def swish_alpha(node: Node) -> str | None:
    """alpha must be 1"""
    alpha = node.number("alpha", 1.0)
    return None if alpha == 1.0 else f"got {alpha}; write it as Mul, Sigmoid and Mul"


@rule("Clip")
def constant_bounds(node: Node) -> str | None:
    """bounds must be constants"""
    for i in (1, 2):
        if node.has_input(i) and not node.is_constant(i):
            return f"'{node.inputs[i]}' is computed; make it an initializer"
    return None


@operator("Clip")
def clip(node: Node, emitter: Emitter) -> Value:
    """Bounds are attributes before opset 11, then optional operands."""
    if node.opset < 11:
        low = node.number("min", -inf) if node.has_attribute("min") else -inf
        high = node.number("max", inf) if node.has_attribute("max") else inf
    else:
        low, high = _bound(node, emitter, 1, -inf), _bound(node, emitter, 2, inf)
    if isnan(low) or isnan(high):
        raise node.wrong(f"bounds must be numbers, got [{low}, {high}]")
    if low > high:
        raise node.unsupported(
            f"the lower bound {low} exceeds the upper bound {high}; a constant would do"
        )
    if (low, high) == (-inf, inf):
        return emitter.value(0)
    if (low, high) == (0.0, inf):
        return emitter.unary(emitter.value(0), FunctionAttr(Function.RELU))
    return emitter.unary(emitter.value(0), FunctionAttr(Function.CLIP, [low, high]))


def _bound(node: Node, emitter: Emitter, index: int, default: float) -> float:
    if not node.has_input(index):
        return default
    array = emitter.floats(index)
    if array.size != 1:
        raise node.wrong(f"bounds must be scalars, got shape {list(array.shape)}")
    return float(array.reshape(-1)[0])


def _finite(node: Node, name: str, default: float) -> float:
    value = node.number(name, default)
    if not -inf < value < inf:
        raise node.wrong(f"attribute '{name}' must be finite, got {value}")
    return value
