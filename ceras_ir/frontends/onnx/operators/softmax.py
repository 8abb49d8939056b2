"""Softmax in both of ONNX's meanings."""

from math import prod

from ceras_ir.dialects.graph import SoftmaxOp
from ceras_ir.frontends.onnx.emitter import Emitter
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.registry import operator
from ceras_ir.frontends.onnx.values import Value


@operator("Softmax")
def softmax(node: Node, emitter: Emitter) -> Value:
    """Along `axis`; before opset 13 over all dimensions from `axis` on, taken together."""
    shape = emitter.shape(0)
    flat = node.opset < 13
    axis = node.axis(node.integer("axis", 1 if flat else -1), len(shape))
    if not flat or prod(shape[axis + 1 :]) == 1:
        return emitter.emit(SoftmaxOp(emitter.tensor(0), axis))
    rows = emitter.reshaped(emitter.value(0), (prod(shape[:axis]), prod(shape[axis:])))
    return emitter.reshaped(emitter.emit(SoftmaxOp(emitter.materialize(rows), 1)), shape)
