"""Softmax and its logarithm in both of ONNX's meanings."""

from math import prod

from ceras_ir.dialects.graph import Function, Reduce, SoftmaxOp
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import Emitter
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.registry import operator
from ceras_ir.frontends.onnx.values import Value


@operator("Softmax", "LogSoftmax")
def softmax(node: Node, emitter: Emitter) -> Value:
    """Along `axis`; before opset 13 over all dimensions from `axis` on, taken together."""
    shape = emitter.shape(0)
    flat = node.opset < 13
    axis = node.axis(node.integer("axis", 1 if flat else -1), len(shape))
    made = _log_softmax if node.operator == "LogSoftmax" else _softmax
    if not flat or prod(shape[axis + 1 :]) == 1:
        return made(emitter, emitter.value(0), axis)
    rows = emitter.reshaped(emitter.value(0), (prod(shape[:axis]), prod(shape[axis:])))
    return emitter.reshaped(made(emitter, rows, 1), shape)


def _softmax(emitter: Emitter, value: Value, axis: int) -> Value:
    return emitter.emit(SoftmaxOp(emitter.materialize(value), axis))


def _log_softmax(emitter: Emitter, value: Value, axis: int) -> Value:
    """`(x - max) - log(sum of exp(x - max))`"""
    compose = Composer(emitter)
    centred = compose.sub(value, compose.reduce(Reduce.MAX, value, [axis]))
    total = compose.reduce(Reduce.SUM, compose.unary(Function.EXP, centred), [axis])
    return compose.sub(centred, compose.unary(Function.LOG, total))
