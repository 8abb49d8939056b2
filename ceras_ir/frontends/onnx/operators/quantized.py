"""
Import QuantizeLinear and DequantizeLinear, which convert between real values and integers.

Scales that are computed at run time are float32 values, and conversions with them are float
arithmetic; the result is plain integers. Weights of few bits keep their integers, as weights of 8
bits do. Matrices in blocks remain packed for products and lookups (`block_weights.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType, Signedness, i32

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, DequantizeOp, Function, QuantizeOp, Reduce, numpy_dtype
from ceras_ir.dialects.quant import BYTE_BITS, UniformType
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.quantization import (
    dequantized,
    is_computed_integer,
    quantized,
    real_numbers,
    storage_of,
    stored_type,
    uniform_type,
)
from ceras_ir.frontends.onnx.emission.registry import MICROSOFT, operator
from ceras_ir.frontends.onnx.emission.values import (
    Constant,
    Value,
    dtype_of_value,
    shape_of_value,
)
from ceras_ir.frontends.onnx.model.model_file import PACKED_TYPES, Array, type_name
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.operators.block_weights import in_blocks, packed_blocks


@operator("DequantizeLinear", f"{MICROSOFT}DequantizeLinear")
def dequantize_linear(node: Node, emitter: Emitter) -> Value:
    """
    Import DequantizeLinear as `graph.dequantize`, or as float arithmetic if the scale or the
    integers are computed at run time.
    """
    node.ignore("output_dtype")
    value = emitter.value(0)
    if (computed := computed_scale(node, emitter)) is not None:
        return dequantized_by(emitter, value, *computed)
    if is_computed_integer(value):
        return dequantized_by(emitter, value, *scale_of(node, emitter))
    scale = emitter.array(1)
    point = emitter.optional_array(2)
    axis, block = node.integer("axis", 1), node.integer("block_size", 0)
    # ONNX Runtime's quantizer for 4 bits gives a scale the sign of the extreme weight.
    if block or (
        np.any(scale.astype(np.float32) < 0) and dtype_of_value(value).name in PACKED_TYPES.values()
    ):
        return _dequantized_in_float(node, emitter, _Scales(scale, point, axis, block))
    return real_numbers(emitter, value, scale, point, axis)


@operator("QuantizeLinear", f"{MICROSOFT}QuantizeLinear")
def quantize_linear(node: Node, emitter: Emitter) -> Value:
    """
    Import QuantizeLinear as `graph.quantize`, or as float arithmetic if the scale is computed at
    run time.
    """
    node.ignore("saturate", "precision")
    declared = node.integer("output_dtype", 0)
    storage = "uint8"
    if node.has_input(2):
        storage = stored_type(emitter, emitter.value(2))
    elif declared:
        storage = type_name(declared)
    if declared and type_name(declared) != storage:
        raise node.wrong(f"the zero point is {storage}, but output_dtype {type_name(declared)}")
    if (computed := computed_scale(node, emitter)) is not None:
        return quantized_by(emitter, emitter.value(0), *computed, storage_of(node, storage))
    scale = emitter.array(1)
    point = emitter.optional_array(2)
    axis, block = node.integer("axis", 1), node.integer("block_size", 0)
    if block:
        return _quantized_blocks(node, emitter, storage, _Scales(scale, point, axis, block))
    element = uniform_type(emitter, storage, scale, point, emitter.shape(0), axis, narrow=True)
    return quantized(emitter, emitter.value(0), element, node.outputs[0])


@dataclass(frozen=True)
class _Scales:
    """
    Scales and zero points of blocks of `size` consecutive elements along `axis`. If `size` is 0,
    there is one of each for the tensor, or for each index of `axis`.
    """

    scale: Array
    point: Array | None
    axis: int
    size: int

    def spread(
        self, node: Node, shape: Sequence[int]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """
        Return the scale and the zero point of each element of a tensor of `shape`, in shapes that
        broadcast to it.
        """
        has_axis = self.size > 0 or self.scale.size > 1
        axis = node.axis(self.axis, len(shape)) if has_axis else 0
        expected = (shape[axis],) if has_axis else self.scale.shape
        if self.size:
            expected = tuple(
                -(-e // max(self.size, 1)) if i == axis else e for i, e in enumerate(shape)
            )
        point = np.zeros(expected, np.int64) if self.point is None else self.point
        if self.size < 0 or self.scale.shape != expected or point.shape != expected:
            raise node.wrong(f"scales of shape {list(self.scale.shape)}, expected {list(expected)}")
        scale, point = self.scale.astype(np.float32), point.astype(np.float32)
        if not np.isfinite(scale).all():
            raise node.wrong("scales must be finite")
        if self.size:
            indices = np.arange(shape[axis]) // self.size
            return np.take(scale, indices, axis), np.take(point, indices, axis)
        broadcast = [-1 if i == axis else 1 for i in range(len(shape))] if has_axis else []
        return scale.reshape(broadcast), point.reshape(broadcast)


def _dequantized_in_float(node: Node, emitter: Emitter, scales: _Scales) -> Value:
    """Return `(x - zero_point) * scale` for the first operand, as float arithmetic."""
    value, storage = emitter.value(0), stored_type(emitter, emitter.value(0))
    if scales.point is not None and scales.point.dtype.name != storage:
        raise node.wrong(f"the zero point is {scales.point.dtype.name}, expected {storage}")
    scale, point = scales.spread(node, emitter.shape(0))
    kind = storage_of(node, storage, narrow=isinstance(value, Constant))
    if isinstance(value, Constant):
        if scales.size and len(value.shape) == 2:
            return _packed(node, emitter, scales, value, kind)
        if kind.bitwidth < BYTE_BITS:
            emitter.widened.append(value.name)
        real = (value.load().astype(np.float32) - point) * scale
        return Constant.of(node.outputs[0], real.astype(np.float32))
    real = dequantized(emitter, value, UniformType(1.0, storage=kind))
    centred = emitter.binary(Binary.SUB, real, emitter.constant(point, "zero_points"))
    return emitter.binary(Binary.MUL, centred, emitter.constant(scale, "scales"))


def _packed(
    node: Node, emitter: Emitter, scales: _Scales, value: Constant, kind: IntegerType
) -> Constant:
    """Return the real values of a matrix in blocks of rows or columns, packed if possible."""
    is_turned = node.axis(scales.axis, 2) == 0
    bits, point = kind.bitwidth, scales.point
    low = 0 if kind.signedness.data == Signedness.UNSIGNED else 1 << bits - 1

    def stored(array: Array) -> NDArray[np.uint8]:
        rows = array.T if is_turned else array
        return (rows.astype(np.int16) + low).astype(np.uint8)

    points = stored(np.zeros(scales.scale.shape, np.int16) if point is None else point)
    rows, size = stored(value.load()), scales.size
    steps = scales.scale.T if is_turned else scales.scale
    sizes = rows.shape[1], bits, size
    found = in_blocks(
        node, emitter, value.name, packed_blocks(rows, bits, size), steps, points, sizes
    )
    return found.transposed((1, 0)) if is_turned else found


def _quantized_blocks(node: Node, emitter: Emitter, storage: str, scales: _Scales) -> Value:
    """
    Return the first operand quantized to `storage`: `round(x / scale)`, plus the zero point,
    clamped. Each block of elements has a scale and a zero point.
    """
    scale, point = scales.spread(node, emitter.shape(0))
    if not scale.all():
        raise node.wrong("scales must not be zero")
    scaled = emitter.binary(Binary.DIV, emitter.value(0), emitter.constant(scale, "scales"))
    integers = emitter.emit(QuantizeOp(scaled, UniformType(1.0, storage=i32)))
    rounded = emitter.emit(DequantizeOp(integers))
    moved = emitter.binary(Binary.ADD, rounded, emitter.constant(point, "zero_points"))
    return emitter.emit(QuantizeOp(moved, UniformType(1.0, storage=storage_of(node, storage))))


UI8 = IntegerType(8, Signedness.UNSIGNED)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    Import DynamicQuantizeLinear: quantize to uint8 by the range of the elements at run time, which
    is extended to 0. The scale is 1 if all elements are 0.
    """
    with emitter.in_float():
        return dynamically_quantized(emitter, emitter.value(0))


def dynamically_quantized(emitter: Emitter, x: Value) -> tuple[Value, Value, Value]:
    """
    Quantize `x` to uint8 by the range at run time. Return the integers, the scale, and the zero
    point.
    """
    flat, zero = emitter.reshaped(x, (prod(shape_of_value(x)),)), emitter.number(0)
    low = emitter.unary(Function.CLIP, emitter.reduce(Reduce.MIN, flat, [0]), -inf, 0.0)
    high = emitter.unary(Function.CLIP, emitter.reduce(Reduce.MAX, flat, [0]), 0.0, inf)
    span = emitter.sub(high, low)
    is_zero = emitter.compare(graph.Compare.EQUAL, span, zero)
    scale = emitter.select(is_zero, emitter.number(1), emitter.div(span, emitter.number(255)))
    steps = emitter.div(emitter.sub(zero, low), scale)
    point = emitter.cast(emitter.unary(Function.ROUND, steps), UI8)
    stored = quantized_by(emitter, x, scale, point, UI8)
    return stored, emitter.reshaped(scale, ()), emitter.reshaped(point, ())


def quantized_by(
    emitter: Emitter, x: Value, scale: Value, point: Value | None, storage: IntegerType
) -> Value:
    """
    Emit `round(x / scale) + point` with ties to even, saturated to the type `storage`. Scale and
    zero point are computed at run time.
    """
    steps = emitter.unary(Function.ROUND, emitter.div(x, scale))
    if point is not None:
        steps = emitter.add(steps, emitter.cast(point))
    bounds = np.iinfo(numpy_dtype(storage).name)
    clipped = emitter.unary(Function.CLIP, steps, float(bounds.min), float(bounds.max))
    return emitter.reshaped(emitter.cast(clipped, storage), shape_of_value(x))


def dequantized_by(emitter: Emitter, x: Value, scale: Value, point: Value | None) -> Value:
    """Emit `(x - point) * scale`. Scale and zero point are computed at run time."""
    centred = emitter.cast(x)
    if point is not None:
        centred = emitter.sub(centred, emitter.cast(point))
    return emitter.reshaped(emitter.mul(centred, scale), shape_of_value(x))


def computed_scale(node: Node, emitter: Emitter) -> tuple[Value, Value | None] | None:
    """
    Return the scale and the zero point of the node if either is computed at run time, else `None`.
    """
    given = [i for i in (1, 2) if node.has_input(i)]
    return None if all(node.is_constant(i) for i in given) else scale_of(node, emitter)


def scale_of(node: Node, emitter: Emitter) -> tuple[Value, Value | None]:
    """
    Return the scale and the zero point of the node (`None` if not given) in a shape that broadcasts
    to the elements.
    """
    if node.integer("block_size", 0):
        raise node.unsupported("blocks of a computed operand; use per-tensor or per-channel scales")
    values = [_along(node, emitter, i, len(emitter.shape(0))) for i in (1, 2) if node.has_input(i)]
    return values[0], values[1] if len(values) > 1 else None


def _along(node: Node, emitter: Emitter, index: int, rank: int) -> Value:
    """
    Return operand `index` in a shape that broadcasts to a tensor of `rank`: a scalar, or along the
    attribute `axis` of the node.
    """
    count, inner = prod(emitter.shape(index)), 0
    if count > 1:
        inner = rank - 1 - node.axis(node.integer("axis", 1), rank)
    return emitter.reshaped(emitter.value(index), (count, *(1,) * inner))
