"""
Scales that are computed at run time: they are float32 values like any other, and so is the
arithmetic with them. What comes out is plain integers.
"""

from collections.abc import Sequence
from math import inf, prod

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness

from ceras_ir.dialects.graph import Compare, Function, Reduce, numpy_dtype
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import Emitter, shape_of_value
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.registry import operator
from ceras_ir.frontends.onnx.values import Value

UI8 = IntegerType(8, Signedness.UNSIGNED)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: Node, emitter: Emitter) -> Sequence[Value]:
    """To uint8, from the least element or 0 to the greatest or 0; at scale 1 where all are 0."""
    with emitter.in_float():
        return dynamically_quantized(emitter, emitter.value(0))


def dynamically_quantized(emitter: Emitter, x: Value) -> tuple[Value, Value, Value]:
    """`x` in uint8, its scale, and its zero point."""
    compose = Composer(emitter)
    flat, zero = emitter.reshaped(x, (prod(shape_of_value(x)),)), compose.number(0)
    low = compose.unary(Function.CLIP, compose.reduce(Reduce.MIN, flat, [0]), -inf, 0.0)
    high = compose.unary(Function.CLIP, compose.reduce(Reduce.MAX, flat, [0]), 0.0, inf)
    span = compose.sub(high, low)
    is_zero = compose.compare(Compare.EQUAL, span, zero)
    scale = compose.select(is_zero, compose.number(1), compose.div(span, compose.number(255)))
    steps = compose.div(compose.sub(zero, low), scale)
    point = compose.cast(compose.unary(Function.ROUND, steps), UI8)
    stored = quantized_by(emitter, x, scale, point, UI8)
    return stored, emitter.reshaped(scale, ()), emitter.reshaped(point, ())


def quantized_by(
    emitter: Emitter, x: Value, scale: Value, point: Value | None, storage: IntegerType
) -> Value:
    """`round(x / scale) + zero point` with ties to even, saturated."""
    compose = Composer(emitter)
    steps = compose.unary(Function.ROUND, compose.div(x, scale))
    if point is not None:
        steps = compose.add(steps, compose.cast(point))
    bounds = np.iinfo(numpy_dtype(storage).name)
    clipped = compose.unary(Function.CLIP, steps, float(bounds.min), float(bounds.max))
    return emitter.reshaped(compose.cast(clipped, storage), shape_of_value(x))


def dequantized_by(emitter: Emitter, x: Value, scale: Value, point: Value | None) -> Value:
    """`(x - zero point) * scale`"""
    compose = Composer(emitter)
    centred = compose.cast(x)
    if point is not None:
        centred = compose.sub(centred, compose.cast(point))
    return emitter.reshaped(compose.mul(centred, scale), shape_of_value(x))


def computed_scale(node: Node, emitter: Emitter) -> tuple[Value, Value | None] | None:
    """Scale and zero point of a node that computes either of them, else None."""
    given = [i for i in (1, 2) if node.has_input(i)]
    return None if all(node.is_constant(i) for i in given) else scale_of(node, emitter)


def scale_of(node: Node, emitter: Emitter) -> tuple[Value, Value | None]:
    """Scale and zero point of a node, as what the elements of its operand are multiplied by."""
    if node.integer("block_size", 0):
        raise node.unsupported(
            "blocks with a scale each, of what is computed; give one, or one for each channel"
        )
    values = [_along(node, emitter, i, len(emitter.shape(0))) for i in (1, 2) if node.has_input(i)]
    return values[0], values[1] if len(values) > 1 else None


def _along(node: Node, emitter: Emitter, index: int, rank: int) -> Value:
    """Operand `index`, one number or one for each index of the node's `axis`."""
    count, behind = prod(emitter.shape(index)), 0
    if count > 1:
        behind = rank - 1 - node.axis(node.integer("axis", 1), rank)
    return emitter.reshaped(emitter.value(index), (count, *(1,) * behind))
