"""Elementwise arithmetic with broadcasting."""

from functools import reduce

import numpy as np

from ceras_ir.dialects.graph import Binary
from ceras_ir.frontends.onnx.emitter import Emitter, shape_of_value
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.registry import operator, rule
from ceras_ir.frontends.onnx.values import Value

KINDS = {"Add": Binary.ADD, "Mul": Binary.MUL, "Sub": Binary.SUB}


@operator(*KINDS)
def binary(node: Node, emitter: Emitter) -> Value:
    """Sum, product or difference of two."""
    return emitter.binary(KINDS[node.operator], emitter.value(0), _aligned(node, emitter))


def _aligned(node: Node, emitter: Emitter) -> Value:
    """The second operand; before opset 7 its dimensions may start at `axis` of the first."""
    value = emitter.value(1)
    if node.opset >= 7:
        return value
    rank, shape = len(emitter.shape(0)), emitter.shape(1)
    start = node.integer("axis", rank - len(shape))
    if not node.flag("broadcast") or not shape:
        return value
    start = node.axis(start, rank)
    return emitter.reshaped(value, (*shape, *(1,) * (rank - start - len(shape))))


@operator("Sum")
def add_all(node: Node, emitter: Emitter) -> Value:
    """Any number of summands, added from the left."""
    operands = [emitter.value(i) for i in range(max(len(node.inputs), 1))]
    return reduce(lambda a, b: emitter.binary(Binary.ADD, a, b), operands)


@operator("Neg")
def negate(node: Node, emitter: Emitter) -> Value:
    """A product with -1, which is exact."""
    minus_one = emitter.constant(np.array(-1, np.float32), "minus_one")
    return emitter.binary(Binary.MUL, emitter.value(0), minus_one)


@rule("Div")
def constant_divisor(node: Node) -> str | None:
    """the divisor must be a constant"""
    if node.is_constant(1):
        return None
    return "it is computed; multiply by a reciprocal, or make it an initializer"


@operator("Div")
def divide(node: Node, emitter: Emitter) -> Value:
    """Division by a constant is a product with its reciprocal, rounded to float32 once more."""
    aligned = _aligned(node, emitter)
    divisor = emitter.floats(1).reshape(shape_of_value(aligned))
    with np.errstate(divide="ignore"):
        reciprocal = (1.0 / divisor.astype(np.float64)).astype(np.float32)
    if not np.isfinite(reciprocal).all():
        raise node.unsupported("a divisor is zero, or has no reciprocal in float32; replace it")
    return emitter.binary(Binary.MUL, emitter.value(0), emitter.constant(reciprocal, "reciprocal"))
