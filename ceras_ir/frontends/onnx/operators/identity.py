"""
Import operators without arithmetic: constants, types, masks, shapes, and sequences of tensors.

Sequences are lists of the import. Their length is known, so a sequence is no value of the IR, and
operators on it select tensors.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
import onnx
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import Compare, numpy_dtype, plain_element
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import (
    COMPUTED_REMEDY,
    constant_operands,
    operator,
    rule,
)
from ceras_ir.frontends.onnx.emission.values import (
    Constant,
    TensorList,
    Value,
    dtype_of_value,
    shape_of_value,
)
from ceras_ir.frontends.onnx.model.model_file import type_name
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.model.signature import ELEMENT_TYPES
from ceras_ir.interpreters.elementwise import cast as meaning_of_cast


@operator("Identity")
def identity(node: Node, emitter: Emitter) -> Value:
    """Import an operator that returns the operand unchanged."""
    return emitter.value(0)


@operator("Dropout")
def dropout(node: Node, emitter: Emitter) -> list[Value]:
    """Import Dropout: in inference, the result is the operand, and the mask is true everywhere."""
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
    """
    Return the tensor of a Constant node, or `None` if the value is a number, a text or a list.
    """
    if len(node.proto.attribute) != 1:
        raise node.wrong(f"has {len(node.proto.attribute)} attributes, expected a single value")
    return node.tensor("value") or node.sparse_tensor("sparse_value")


@operator("Constant")
def constant(node: Node, emitter: Emitter) -> Value:
    """Import Constant with a number or list. The importer loads tensors itself."""
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
    """
    Import Shape: the extents of the operand, which are known at import, from `start` to `end`.
    """
    start, end = node.integer("start", 0), node.integer("end", len(emitter.shape(0)))
    extents = emitter.shape(0)[slice(start, end)]
    return Constant.of(node.outputs[0], np.array(extents, np.int64))


@operator("Size")
def size(node: Node, emitter: Emitter) -> Value:
    """Import Size: the number of elements, which is known at import."""
    return Constant.of(node.outputs[0], np.array(prod(emitter.shape(0)), np.int64))


MAX_TENSORS = 1 << 12
"""Maximum length of a sequence."""

constant_operands(
    {"SequenceAt": [1], "SequenceErase": [1], "SequenceInsert": [2], "SplitToSequence": [1]},
    "indices and sizes must be constants",
    COMPUTED_REMEDY,
)


def _tensors(node: Node, emitter: Emitter) -> list[Value]:
    value = emitter.values[node.inputs[0]]
    if not isinstance(value, TensorList):
        raise node.wrong(f"'{node.inputs[0]}' is a tensor, expected a sequence")
    return list(value.tensors)


def _place(
    node: Node, emitter: Emitter, operand: int, *, at_end: bool = False
) -> tuple[list[Value], int]:
    """
    Return the tensors of the sequence that is operand 0 of the node, and a constant index into it,
    which is operand number `operand`. If this operand is missing, the index is that of the last
    tensor, or with `at_end` the position after it. A negative index counts from the end. Refuse an
    index out of range.
    """
    tensors = _tensors(node, emitter)
    count = len(tensors) + at_end
    index = int(emitter.array(operand).item()) if node.has_input(operand) else count - 1
    if not -len(tensors) <= index < count:
        raise node.wrong(f"index {index} of a sequence of {len(tensors)}")
    return tensors, index + len(tensors) if index < 0 else index


def _sequence(node: Node, tensors: Sequence[Value]) -> Value:
    if len(tensors) > MAX_TENSORS:
        raise node.unsupported(f"{len(tensors)} tensors, expected at most {MAX_TENSORS}")
    return TensorList.holding(node.outputs[0], tensors)


@operator("SequenceEmpty")
def sequence_empty(node: Node, emitter: Emitter) -> Value:
    """Import SequenceEmpty: a sequence without tensors."""
    node.ignore("dtype")
    return _sequence(node, ())


@operator("SequenceConstruct")
def sequence_construct(node: Node, emitter: Emitter) -> Value:
    """Import SequenceConstruct: the sequence of the operands."""
    return _sequence(node, [emitter.value(i) for i in range(len(node.inputs))])


@operator("SequenceInsert")
def sequence_insert(node: Node, emitter: Emitter) -> Value:
    """Import SequenceInsert: insert a tensor at a constant index, by default at the end."""
    tensors, index = _place(node, emitter, 2, at_end=True)
    return _sequence(node, [*tensors[:index], emitter.value(1), *tensors[index:]])


@operator("SequenceErase")
def sequence_erase(node: Node, emitter: Emitter) -> Value:
    """Import SequenceErase: remove the tensor at a constant index, by default the last."""
    tensors, index = _place(node, emitter, 1)
    return _sequence(node, tensors[:index] + tensors[index + 1 :])


@operator("SequenceAt")
def sequence_at(node: Node, emitter: Emitter) -> Value:
    """Import SequenceAt: the tensor at a constant index."""
    tensors, index = _place(node, emitter, 1)
    return tensors[index]


@operator("SequenceLength")
def sequence_length(node: Node, emitter: Emitter) -> Value:
    """Import SequenceLength: the number of tensors, which is known at import."""
    return Constant.of(node.outputs[0], np.array(len(_tensors(node, emitter)), np.int64))


@operator("SplitToSequence")
def split_to_sequence(node: Node, emitter: Emitter) -> Value:
    """
    Import SplitToSequence: parts of the given sizes, parts of one size with a smaller last part, or
    parts of size 1. Parts of size 1 lose the dimension if `keepdims` is 0, as in torch.unbind.
    """
    shape, keep = emitter.shape(0), node.flag("keepdims", True)
    axis = node.axis(node.integer("axis", 0), len(shape))
    extent, sizes = shape[axis], [1] * shape[axis]
    given = emitter.optional_array(1)
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
    parts = emitter.split(emitter.value(0), axis, sizes)
    if not keep:
        rest = [n for i, n in enumerate(shape) if i != axis]
        parts = [emitter.reshaped(part, rest) for part in parts]
    return _sequence(node, parts)


@operator("ConcatFromSequence")
def concat_from_sequence(node: Node, emitter: Emitter) -> Value:
    """
    Import ConcatFromSequence: concatenate the tensors along an axis, or stack them along a new
    axis.
    """
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


constant_operands(
    {"OneHot": [1], "Trilu": [1]}, "depth and diagonal must be constants", "make it an initializer"
)


@operator("Trilu")
def triangle(node: Node, emitter: Emitter) -> Value:
    """
    Import Trilu: keep the elements above (`upper`) or below a diagonal of each matrix, and set the
    rest to 0.
    """
    x = emitter.value(0)
    shape = shape_of_value(x)
    k = int(emitter.array(1).reshape(-1)[0]) if node.has_input(1) else 0
    ones = np.ones(shape[-2:], np.bool_)
    mask = np.triu(ones, k) if node.flag("upper", True) else np.tril(ones, k)
    kept = emitter.constant(mask.reshape((1,) * (len(shape) - 2) + mask.shape), "mask")
    return emitter.select(kept, x, emitter.number(0, x))


@operator("OneHot")
def one_hot(node: Node, emitter: Emitter) -> Value:
    """
    Import OneHot: along a new axis of `depth` elements, the second of two values at the index, and
    the first elsewhere.
    """
    indices, values = emitter.value(0), emitter.value(2)
    shape = shape_of_value(indices)
    depth = int(emitter.array(1).reshape(-1)[0])
    axis = node.axis(node.integer("axis", -1), len(shape) + 1)
    lifted = emitter.reshaped(indices, (*shape[:axis], 1, *shape[axis:]))
    dtype = dtype_of_value(indices)
    zero, size = emitter.number(0, lifted), emitter.number(depth, lifted)
    below = emitter.compare(Compare.LESS, lifted, zero)
    wrapped = emitter.select(below, emitter.add(lifted, size), lifted)
    column = [-1 if i == axis else 1 for i in range(len(shape) + 1)]
    numbers = np.arange(depth).astype(dtype).reshape(column)
    hit = emitter.compare(Compare.EQUAL, wrapped, emitter.constant(numbers, "indices"))
    off, on = (emitter.part(values, 0, i, 1) for i in (0, 1))
    return emitter.select(hit, on, off)


@operator("EyeLike")
def eye(node: Node, emitter: Emitter) -> Value:
    """Import EyeLike: a constant matrix with ones on a diagonal, in the shape of the operand."""
    shape = emitter.shape(0)
    if len(shape) != 2:
        raise node.wrong(f"matrix expected, got shape {list(shape)}")
    dtypes = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float32, 11: np.float32}
    kind = node.integer("dtype", 0)
    dtype = np.dtype(dtypes[kind]) if kind in dtypes else dtype_of_value(emitter.value(0))
    array = np.eye(*shape, k=node.integer("k", 0)).astype(dtype)
    return Constant.of(node.outputs[0], array)


@rule("Cast")
def plain_target(node: Node) -> str | None:
    """the type must be a float of 16 to 64 bits, an integer of 8 to 64 bits or a boolean"""
    target = node.integer("to", 0)
    if target in ELEMENT_TYPES or target == onnx.TensorProto.STRING:
        return None
    return f"got {type_name(target)}; convert the model to float32"


@operator("Cast")
def cast(node: Node, emitter: Emitter) -> Value:
    """
    Import Cast. A float that becomes an integer is truncated, and saturates outside the range of
    the type.
    """
    node.ignore("saturate", "round_mode")
    value = emitter.value(0)
    is_text = value in emitter.labels if isinstance(value, SSAValue) else value.dtype.kind == "U"
    if is_text != (node.integer("to", 0) == onnx.TensorProto.STRING):
        raise node.unsupported("conversion between numbers and text; remove it from the model")
    if is_text:
        return value
    return emitter.cast(value, ELEMENT_TYPES[node.integer("to", 0)])


@operator("CastLike")
def cast_like(node: Node, emitter: Emitter) -> Value:
    """Import CastLike: Cast to the type of the second operand."""
    node.ignore("saturate", "round_mode")
    element = plain_element(dtype_of_value(emitter.value(1)))
    if element is None:
        raise node.unsupported("the type must be float32, an integer or a boolean")
    value = emitter.value(0)
    if not isinstance(value, Constant):
        return emitter.cast(value, element)
    # The result is constant, because only the type of the second operand matters.
    dtype = numpy_dtype(element)
    return emitter.constant(meaning_of_cast(value.load(), dtype), "constant")
