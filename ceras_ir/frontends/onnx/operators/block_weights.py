"""Weights of few bits in blocks, as ONNX Runtime's quantizer writes them: products and rows."""

from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ceras_ir.frontends.onnx.emitter import Emitter
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.operators.gathering import gathered_along
from ceras_ir.frontends.onnx.operators.matrix import product_of
from ceras_ir.frontends.onnx.operators.quantized import MICROSOFT
from ceras_ir.frontends.onnx.registry import constant_operands, operator, rule
from ceras_ir.frontends.onnx.tensors import Array, unpacked
from ceras_ir.frontends.onnx.values import Constant, Value

Floats: TypeAlias = NDArray[np.float32]

NAME = f"{MICROSOFT}MatMulNBits"
TABLE = f"{MICROSOFT}GatherBlockQuantized"

WIDTHS = (2, 4, 8)
"""Bits of a weight."""

constant_operands(
    {NAME: range(1, 6)},
    "weights, scales, zero points and bias must be constants",
    "make it an initializer",
)
constant_operands(
    {TABLE: (0, 2, 3)},
    "the table, scales and zero points must be constants",
    "make it an initializer",
)


@rule(TABLE)
def known_table_width(node: Node) -> str | None:
    """bits must be 2, 4 or 8"""
    bits = node.integer("bits", 4)
    return None if bits in WIDTHS else f"bits is {bits}; quantize with 4"


@rule(NAME)
def known_width(node: Node) -> str | None:
    """bits must be 2, 4 or 8, and there is no index of groups"""
    if (reason := known_table_width(node)) is not None:
        return reason
    return "g_idx is given; quantize without reordering" if node.has_input(4) else None


@operator(NAME)
def matmul_n_bits(node: Node, emitter: Emitter) -> Value:
    """
    `graph.matmul` with weights `(q - zero point) * scale` in float; the default zero point is half
    of what the bits can hold.
    """
    node.ignore("accuracy_level", "weight_prepacked")
    k, n, size = (node.integer(name, 0) for name in ("K", "N", "block_size"))
    bits = node.integer("bits", 4)
    shape = emitter.shape(0)
    if min(k, n, size) < 1 or size * bits % 8 or shape[-1:] != (k,):
        raise node.wrong(f"K = {k}, N = {n}, block_size = {size} and rows of {list(shape)}")
    blocks = -(-k // size)
    packed, scales = emitter.array(1), emitter.array(2)
    if packed.dtype != np.uint8 or packed.size != n * blocks * size * bits // 8:
        raise node.wrong(f"weights of shape {list(packed.shape)} and {packed.dtype}")
    if scales.size != n * blocks:
        raise node.wrong(f"scales of shape {list(scales.shape)}, expected {[n, blocks]}")
    numbers = unpacked(packed.reshape(-1).astype(np.uint8), n * blocks * size, bits)
    real = numbers.reshape(n, blocks, size).astype(np.float32)
    real -= _points(node, emitter, n, blocks, bits)
    real *= scales.astype(np.float32).reshape(n, blocks, 1)
    weights = Constant.of(node.inputs[1], np.ascontiguousarray(real.reshape(n, -1)[:, :k]))
    bias = emitter.value(5) if node.has_input(5) else None
    rows = emitter.reshaped(emitter.value(0), (prod(shape[:-1]), k))
    return emitter.reshaped(product_of(emitter, rows, weights, bias), (*shape[:-1], n))


def _points(node: Node, emitter: Emitter, n: int, blocks: int, bits: int) -> Floats:
    """The zero point of each block: floats, or `bits` bits in rows of whole bytes."""
    if not node.has_input(3):
        return np.full((n, blocks, 1), 1 << bits - 1, np.float32)
    points = emitter.array(3)
    if points.dtype != np.uint8:
        if points.size != n * blocks:
            raise node.wrong(f"zero points of shape {list(points.shape)}, expected {[n, blocks]}")
        return points.astype(np.float32).reshape(n, blocks, 1)
    row = -(-blocks * bits // 8)
    if points.size != n * row:
        raise node.wrong(f"zero points of shape {list(points.shape)}, expected {[n, row]} bytes")
    count = row * (8 // bits)
    whole = unpacked(points.reshape(-1).astype(np.uint8), n * count, bits).reshape(n, count)
    return whole[:, :blocks].astype(np.float32).reshape(n, blocks, 1)


@operator(TABLE)
def gather_block_quantized(node: Node, emitter: Emitter) -> Value:
    """
    Rows of a table of floats, `(q - zero point) * scale`; the default zero point is half of what
    the bits of a byte can hold, and 0 for elements of four bits.
    """
    stored, scales = emitter.array(0), emitter.array(2)
    bits, size = node.integer("bits", 4), node.integer("block_size", 128)
    axis = node.axis(node.integer("quantize_axis", 1), stored.ndim, "quantize_axis")
    if stored.dtype.name not in ("uint8", "int4", "uint4"):
        raise node.wrong(f"a table of {stored.dtype}, expected uint8, int4 or uint4")
    in_bytes = stored.dtype == np.uint8
    numbers = _apart(stored, bits) if in_bytes else stored
    blocks = list(numbers.shape)
    blocks[axis] = -(-blocks[axis] // max(size, 1))
    if size < 1 or list(scales.shape) != blocks:
        raise node.wrong(f"scales of shape {list(scales.shape)}, expected {blocks}")
    points: Array = np.full(blocks, 1 << bits - 1 if in_bytes else 0)
    if node.has_input(3):
        points = emitter.array(3)
        if points.dtype != stored.dtype:
            raise node.wrong(f"zero points of {points.dtype}, expected {stored.dtype}")
        points = _apart(points, bits)[..., : blocks[-1]] if in_bytes and points.ndim else points
        if list(points.shape) != blocks:
            raise node.wrong(f"zero points of shape {list(points.shape)}, expected {blocks}")

    def repeated(values: Array) -> Floats:
        whole = np.repeat(values.astype(np.float32), size, axis)
        return whole.take(range(numbers.shape[axis]), axis).astype(np.float32)

    floats: Floats = numbers.astype(np.float32)
    real = (floats - repeated(points)) * repeated(scales)
    table = Constant.of(node.inputs[0], real)
    return gathered_along(node, emitter, table, node.integer("gather_axis", 0))


def _apart(stored: Array, bits: int) -> Array:
    """Numbers of `bits` bits that lie in the bytes of the last dimension."""
    flat, per_byte = stored.reshape(-1).astype(np.uint8), 8 // bits
    shape = (*stored.shape[:-1], stored.shape[-1] * per_byte)
    return unpacked(flat, stored.size * per_byte, bits).reshape(shape)
