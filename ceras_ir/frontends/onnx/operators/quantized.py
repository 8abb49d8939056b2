"""QuantizeLinear and DequantizeLinear: where a model passes between real numbers and integers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import i32

from ceras_ir.dialects.graph import Binary, DequantizeOp, QuantizeOp
from ceras_ir.dialects.quant import UniformType
from ceras_ir.frontends.onnx.emitter import Emitter
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.operators.dynamic import (
    computed_scale,
    dequantized_by,
    quantized_by,
    scale_of,
)
from ceras_ir.frontends.onnx.quantization import (
    dequantized,
    is_computed_integer,
    quantized,
    real_numbers,
    storage_of,
    stored_type,
    uniform_type,
)
from ceras_ir.frontends.onnx.registry import operator
from ceras_ir.frontends.onnx.tensors import PACKED, Array, type_name
from ceras_ir.frontends.onnx.values import Constant, Value

MICROSOFT = "com.microsoft::"
"""The domain of ONNX Runtime's own operators."""


@operator("DequantizeLinear", f"{MICROSOFT}DequantizeLinear")
def dequantize_linear(node: Node, emitter: Emitter) -> Value:
    """
    `graph.dequantize`; for a constant, a constant that remembers its integers. With a scale that is
    computed, and of integers that are, such as rows of a table, arithmetic on floats.
    """
    node.ignore("output_dtype")
    value = emitter.value(0)
    if (computed := computed_scale(node, emitter)) is not None:
        return dequantized_by(emitter, value, *computed)
    if is_computed_integer(value):
        return dequantized_by(emitter, value, *scale_of(node, emitter))
    scale = emitter.array(1)
    point = emitter.array(2) if node.has_input(2) else None
    axis, block = node.integer("axis", 1), node.integer("block_size", 0)
    if isinstance(value, Constant) and value.dtype in PACKED.values():
        return _dequantized_halves(node, value, _Blocks(scale, point, axis, block))
    if block:
        storage = stored_type(emitter, value)
        return _dequantized_blocks(node, emitter, storage, _Blocks(scale, point, axis, block))
    return real_numbers(emitter, value, scale, point, axis)


@operator("QuantizeLinear", f"{MICROSOFT}QuantizeLinear")
def quantize_linear(node: Node, emitter: Emitter) -> Value:
    """
    `graph.quantize` to the type of the zero point, or of `output_dtype`, or to uint8. With a scale
    that is computed, arithmetic on floats.
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
    point = emitter.array(2) if node.has_input(2) else None
    axis, block = node.integer("axis", 1), node.integer("block_size", 0)
    if block:
        return _quantized_blocks(node, emitter, storage, _Blocks(scale, point, axis, block))
    element = uniform_type(emitter, storage, scale, point, emitter.shape(0), axis)
    return quantized(emitter, emitter.value(0), element, node.outputs[0])


@dataclass(frozen=True)
class _Blocks:
    """A scale and a zero point for every `size` elements along `axis`."""

    scale: Array
    point: Array | None
    axis: int
    size: int

    def spread(
        self, node: Node, shape: Sequence[int]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Scales and zero points of every element."""
        axis = node.axis(self.axis, len(shape))
        expected = tuple(
            -(-e // max(self.size, 1)) if i == axis else e for i, e in enumerate(shape)
        )
        point = np.zeros(expected, np.int64) if self.point is None else self.point
        if self.size < 1 or self.scale.shape != expected or point.shape != expected:
            raise node.wrong(f"scales of shape {list(self.scale.shape)}, expected {list(expected)}")
        scale = self.scale.astype(np.float32)
        if not np.isfinite(scale).all():
            raise node.wrong("scales must be finite")
        indices = np.arange(shape[axis]) // self.size
        return (
            np.take(scale, indices, axis),
            np.take(point.astype(np.float32), indices, axis),
        )


def _dequantized_halves(node: Node, value: Constant, blocks: _Blocks) -> Constant:
    """The same of constants of four bits, which become weights in float."""
    shape, scale = value.shape, blocks.scale
    if not blocks.size and scale.size > 1:
        axis = node.axis(blocks.axis, len(shape))
        column = [-1 if i == axis else 1 for i in range(len(shape))]
        if scale.ndim != 1 or scale.size != shape[axis]:
            raise node.wrong(f"scales of shape {list(scale.shape)}, expected [{shape[axis]}]")
        point = np.zeros(1) if blocks.point is None else blocks.point.astype(np.float32)
        real, offset = scale.astype(np.float32).reshape(column), point.reshape(column)
    elif blocks.size:
        real, offset = blocks.spread(node, shape)
    else:
        point = np.zeros(1) if blocks.point is None else blocks.point.astype(np.float32)
        real, offset = scale.astype(np.float32).reshape(()), point.reshape(())
    numbers = value.load().astype(np.float32)
    return Constant.of(node.outputs[0], ((numbers - offset) * real).astype(np.float32))


def _dequantized_blocks(node: Node, emitter: Emitter, storage: str, blocks: _Blocks) -> Value:
    """`(x - zero_point) * scale`, element by element, on integers as floats of scale 1."""
    scale, point = blocks.spread(node, emitter.shape(0))
    plain = UniformType(1.0, storage=storage_of(node, storage))
    value = dequantized(emitter, emitter.value(0), plain)
    if isinstance(value, Constant):
        real = (value.load().astype(np.float32) - point) * scale
        return Constant.of(node.outputs[0], real)
    centred = emitter.binary(Binary.SUB, value, emitter.constant(point, "zero_points"))
    return emitter.binary(Binary.MUL, centred, emitter.constant(scale, "scales"))


def _quantized_blocks(node: Node, emitter: Emitter, storage: str, blocks: _Blocks) -> Value:
    """`round(x / scale)` through 32-bit integers, then the zero points and the final clamp."""
    scale, point = blocks.spread(node, emitter.shape(0))
    if not scale.all():
        raise node.wrong("scales must not be zero")
    scaled = emitter.binary(Binary.DIV, emitter.value(0), emitter.constant(scale, "scales"))
    whole = emitter.emit(
        DequantizeOp(emitter.emit(QuantizeOp(scaled, UniformType(1.0, storage=i32))))
    )
    moved = emitter.binary(Binary.ADD, whole, emitter.constant(point, "zero_points"))
    return emitter.emit(QuantizeOp(moved, UniformType(1.0, storage=storage_of(node, storage))))
