"""
Nodes that compute nothing: constants, the shapes of values, and sequences of tensors.

Sequences are lists of a program. How many tensors there are is known at import, and so a sequence
is no value of the IR: operators on it select the tensors that they mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx

from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import (
    WHERE_COMPUTED,
    constant_operands,
    operator,
    rule,
)
from ceras_ir.frontends.onnx.emission.values import Constant, TensorList, Value, shape_of_value
from ceras_ir.frontends.onnx.model.node import Node


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


MAX_TENSORS = 1 << 12
"""Of a sequence."""

constant_operands(
    {"SequenceAt": [1], "SequenceErase": [1], "SequenceInsert": [2], "SplitToSequence": [1]},
    "places and sizes must be constants",
    WHERE_COMPUTED,
)


@dataclass(frozen=True)
class _SequencePlace:
    """Where an operator looks into a sequence."""

    tensors: list[Value]
    index: int


def _tensors(node: Node, emitter: Emitter) -> list[Value]:
    value = emitter.values[node.inputs[0]]
    if not isinstance(value, TensorList):
        raise node.wrong(f"'{node.inputs[0]}' is a tensor, expected a sequence")
    return list(value.tensors)


def _place(node: Node, emitter: Emitter, operand: int, *, behind: bool = False) -> _SequencePlace:
    """The place that `operand` says, by default the last one, or the one `behind` it."""
    tensors = _tensors(node, emitter)
    count = len(tensors) + behind
    index = int(emitter.array(operand).item()) if node.has_input(operand) else count - 1
    if not -len(tensors) <= index < count:
        raise node.wrong(f"place {index} of a sequence of {len(tensors)}")
    return _SequencePlace(tensors, index + len(tensors) if index < 0 else index)


def _sequence(node: Node, tensors: Sequence[Value]) -> Value:
    if len(tensors) > MAX_TENSORS:
        raise node.unsupported(f"a sequence of {len(tensors)}; at most {MAX_TENSORS}")
    return TensorList.holding(node.outputs[0], tensors)


@operator("SequenceEmpty")
def sequence_empty(node: Node, emitter: Emitter) -> Value:
    """A sequence of nothing yet."""
    node.ignore("dtype")
    return _sequence(node, ())


@operator("SequenceConstruct")
def sequence_construct(node: Node, emitter: Emitter) -> Value:
    """The operands, one after the other."""
    return _sequence(node, [emitter.value(i) for i in range(len(node.inputs))])


@operator("SequenceInsert")
def sequence_insert(node: Node, emitter: Emitter) -> Value:
    """One tensor more, at a constant place."""
    place = _place(node, emitter, 2, behind=True)
    place.tensors.insert(place.index, emitter.value(1))
    return _sequence(node, place.tensors)


@operator("SequenceErase")
def sequence_erase(node: Node, emitter: Emitter) -> Value:
    """One tensor less, at a constant place."""
    place = _place(node, emitter, 1)
    return _sequence(node, [v for i, v in enumerate(place.tensors) if i != place.index])


@operator("SequenceAt")
def sequence_at(node: Node, emitter: Emitter) -> Value:
    """The tensor at a constant place."""
    place = _place(node, emitter, 1)
    return place.tensors[place.index]


@operator("SequenceLength")
def sequence_length(node: Node, emitter: Emitter) -> Value:
    """How many tensors there are, which is known."""
    return Constant.of(node.outputs[0], np.array(len(_tensors(node, emitter)), np.int64))


@operator("SplitToSequence")
def split_to_sequence(node: Node, emitter: Emitter) -> Value:
    """
    Parts of given sizes, of one size with a smaller last one, or of 1. Those of 1, though it were
    said, are without the dimension where `keepdims` is 0, as torch.unbind means it.
    """
    shape, keep = emitter.shape(0), node.flag("keepdims", True)
    axis = node.axis(node.integer("axis", 0), len(shape))
    extent, sizes = shape[axis], [1] * shape[axis]
    given = emitter.array(1) if node.has_input(1) else None
    if given is not None and given.ndim:
        sizes, keep = list(emitter.integers(1)), True
    elif given is not None:
        (size,) = emitter.integers(1)
        if size < 1:
            raise node.wrong(f"parts of {size} elements")
        keep = keep or size > 1
        sizes = [min(size, extent - start) for start in range(0, extent, size)]
    if sum(sizes) != extent or any(size < 0 for size in sizes):
        raise node.wrong(f"sizes {sizes} of an extent of {extent}")
    start = 0
    parts: list[Value] = []
    for size in sizes:
        parts.append(emitter.part(emitter.value(0), axis, start, size))
        start += size
    if not keep:
        rest = [n for i, n in enumerate(shape) if i != axis]
        parts = [emitter.reshaped(part, rest) for part in parts]
    return _sequence(node, parts)


@operator("ConcatFromSequence")
def concat_from_sequence(node: Node, emitter: Emitter) -> Value:
    """The tensors side by side along an axis, or along a new one."""
    tensors, new = _tensors(node, emitter), node.flag("new_axis")
    if not tensors:
        raise node.wrong("a sequence of no tensors")
    rank = len(shape_of_value(tensors[0])) + new
    axis = node.axis(node.integer("axis", 0), rank)
    if new:
        shapes = [list(shape_of_value(tensor)) for tensor in tensors]
        pairs = zip(tensors, shapes, strict=True)
        tensors = [emitter.reshaped(v, [*s[:axis], 1, *s[axis:]]) for v, s in pairs]
    if all(isinstance(tensor, Constant) for tensor in tensors):
        arrays = [tensor.load() for tensor in tensors if isinstance(tensor, Constant)]
        return emitter.constant(np.concatenate(arrays, axis), node.outputs[0])
    return emitter.joined(tensors, axis)
