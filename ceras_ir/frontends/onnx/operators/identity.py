"""Nodes that compute nothing, constants, and the shapes of values."""

from math import prod

import numpy as np
import onnx

from ceras_ir.frontends.onnx.emitter import Emitter
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.registry import operator, rule
from ceras_ir.frontends.onnx.values import Constant, Value


@operator("Identity")
def identity(node: Node, emitter: Emitter) -> Value:
    """The operand itself."""
    return emitter.value(0)


@operator("Dropout")
def dropout(node: Node, emitter: Emitter) -> list[Value]:
    """The operand itself: inference drops nothing, and the mask is true throughout."""
    node.ignore("ratio", "seed", *("is_test",) * (node.opset < 7))
    share = emitter.array(1) if node.has_input(1) else np.array(0.5)
    if node.has_input(2) and emitter.array(2).any() and share.any():
        raise node.unsupported("training_mode must be false; export the model in eval mode")
    kind = np.bool_ if node.opset >= 10 else np.float32
    return [emitter.value(0), emitter.constant(np.ones(emitter.shape(0), kind), "mask")]


@rule("Constant")
def is_number(node: Node) -> str | None:
    """value must be a tensor, a number or a list of numbers"""
    for name in ("value_string", "value_strings"):
        if node.has_attribute(name):
            return f"got '{name}'; store it as a tensor of numbers"
    return None


def constant_tensor(node: Node) -> onnx.TensorProto | onnx.SparseTensorProto | None:
    """Return the tensor of a `Constant`, unless the value is a number, a text or a list."""
    if len(node.proto.attribute) != 1:
        raise node.wrong(f"has {len(node.proto.attribute)} attributes, expected a single value")
    return node.tensor("value") or node.sparse_tensor("sparse_value")


@operator("Constant")
def constant(node: Node, emitter: Emitter) -> Value:
    """A number or list; the importer itself reads tensors."""
    name = node.outputs[0]
    for integers in ("value_int", "value_ints"):
        if (found := node.numbers64(integers)) is not None:
            return Constant.of(name, found)
    if node.has_attribute("value_float"):
        return Constant.of(name, np.array(node.bound("value_float", 0.0), np.float32))
    if (floats := node.numbers("value_floats")) is not None:
        return Constant.of(name, np.array(floats, np.float32))
    raise node.wrong("has no value")


@operator("Shape")
def shape(node: Node, emitter: Emitter) -> Value:
    """Known, as all shapes are; `start` and `end` (opset 15) cut as Python does."""
    start, end = node.integer("start", 0), node.integer("end", len(emitter.shape(0)))
    extents = emitter.shape(0)[slice(start, end)]
    return Constant.of(node.outputs[0], np.array(extents, np.int64))


@operator("Size")
def size(node: Node, emitter: Emitter) -> Value:
    """The number of elements."""
    return Constant.of(node.outputs[0], np.array(prod(emitter.shape(0)), np.int64))
