"""
Import products and lookups of ONNX Runtime with weights of 2, 4 or 8 bits in blocks.

The integers remain packed, and a product quantizes each block of the input to 8 bits, as ONNX
Runtime does with `accuracy_level` 4; other levels have the same results here. Weights with float
zero points, and tables that are looked up at constant indices or along another axis, become float
constants, with a note.
"""

from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ceras_ir.dialects.graph.blocks import BLOCK_WIDTHS, block_unit
from ceras_ir.dialects.quant import BYTE_BITS, packed, unpacked
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import MICROSOFT, constant_operands, operator, rule
from ceras_ir.frontends.onnx.emission.values import BlockedConstant, Constant, Value
from ceras_ir.frontends.onnx.model.model_file import Array
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.operators.indexing import gathered_along

Float32Array: TypeAlias = NDArray[np.float32]

MATMUL_N_BITS = f"{MICROSOFT}MatMulNBits"
GATHER_BLOCKS = f"{MICROSOFT}GatherBlockQuantized"

constant_operands(
    {MATMUL_N_BITS: range(1, 6)},
    "weights, scales, zero points and bias must be constants",
    "make it an initializer",
)
constant_operands(
    {GATHER_BLOCKS: (0, 2, 3)},
    "the table, scales and zero points must be constants",
    "make it an initializer",
)


@rule(GATHER_BLOCKS)
def known_table_width(node: Node) -> str | None:
    """bits must be 2, 4 or 8"""
    bits = node.integer("bits", 4)
    return None if bits in BLOCK_WIDTHS else f"bits is {bits}; quantize with 4"


@rule(MATMUL_N_BITS)
def known_width(node: Node) -> str | None:
    """bits must be 2, 4 or 8, and there must be no index of groups"""
    if (reason := known_table_width(node)) is not None:
        return reason
    return "g_idx is given; quantize without reordering" if node.has_input(4) else None


@operator(MATMUL_N_BITS)
def matmul_n_bits(node: Node, emitter: Emitter) -> Value:
    """
    Import MatMulNBits of ONNX Runtime: a product with weights `(q - zero point) * scale` of 2, 4 or
    8 bits. The default zero point is half of the range.
    """
    node.ignore("accuracy_level", "weight_prepacked")
    k, n, size = (node.integer(name, 0) for name in ("K", "N", "block_size"))
    bits = node.integer("bits", 4)
    shape = emitter.shape(0)
    if min(k, n, size) < 1 or size * bits % 8 or shape[-1:] != (k,):
        raise node.wrong(f"K = {k}, N = {n}, block_size = {size} and rows of {list(shape)}")
    blocks = -(-k // size)
    stored, scales = emitter.array(1), emitter.array(2)
    if stored.dtype != np.uint8 or stored.size != n * blocks * size * bits // 8:
        raise node.wrong(f"weights of shape {list(stored.shape)} and {stored.dtype}")
    if scales.size != n * blocks:
        raise node.wrong(f"scales of shape {list(scales.shape)}, expected {[n, blocks]}")
    points = _points(node, emitter, n, blocks, bits)
    rows = stored.reshape(n, -1).astype(np.uint8)
    weights = in_blocks(
        node, emitter, node.inputs[1], rows, scales.reshape(n, blocks), points, (k, bits, size)
    )
    flat = emitter.reshaped(emitter.value(0), (prod(shape[:-1]), k))
    product = emitter.product(flat, weights, emitter.optional(5))
    return emitter.reshaped(product, (*shape[:-1], n))


def in_blocks(
    node: Node,
    emitter: Emitter,
    name: str,
    rows: NDArray[np.uint8],
    scales: Array,
    points: Array | None,
    sizes: tuple[int, int, int],
) -> Constant:
    """
    Return the constant `name` [N, columns] of packed `rows` [N, bytes], with `scales` and `points`
    [N, blocks]; without `points`, they are half of the range. `sizes` are columns, the bits of an
    integer, and the elements of a block. Other blocks than those of `graph.block_matmul`, and float
    points, give a float constant.
    """
    columns, bits, size = sizes
    if not np.isfinite(scales.astype(np.float32)).all():
        raise node.wrong("scales must be finite")
    is_packed = size % block_unit(bits) == 0 and bits in BLOCK_WIDTHS
    if is_packed and (points is None or points.dtype.kind in "iu"):
        form = bits, size
        note = emitter.widened.append
        return BlockedConstant.of_rows(name, lambda: rows, columns, scales, points, form, note)
    if bits < BYTE_BITS:
        emitter.widened.append(name)
    integers = unpacked(rows.reshape(-1), rows.size * BYTE_BITS // bits, bits)
    real = integers.reshape(*scales.shape, size).astype(np.float32)
    real -= 1 << bits - 1 if points is None else points.astype(np.float32)[..., None]
    real *= scales.astype(np.float32)[..., None]
    return Constant.of(name, np.ascontiguousarray(real.reshape(len(rows), -1)[:, :columns]))


def packed_blocks(integers: NDArray[np.uint8], bits: int, size: int) -> NDArray[np.uint8]:
    """Return rows of integers [N, K], each packed in complete blocks of `size`: [N, bytes]."""
    rows, columns = integers.shape
    complete = np.zeros((rows, -(-columns // size) * size), np.uint8)
    complete[:, :columns] = integers
    return packed(complete, bits)


def _points(node: Node, emitter: Emitter, n: int, blocks: int, bits: int) -> Array | None:
    """
    Return the zero point of each block of weights, [n, blocks], from operand 3: floats, or integers
    of `bits` bits packed in rows of bytes. `None` if there is no such operand.
    """
    if not node.has_input(3):
        return None
    points = emitter.array(3)
    if points.dtype != np.uint8:
        if points.size != n * blocks:
            raise node.wrong(f"zero points of shape {list(points.shape)}, expected {[n, blocks]}")
        return points.astype(np.float32).reshape(n, blocks)
    row = -(-blocks * bits // 8)
    if points.size != n * row:
        raise node.wrong(f"zero points of shape {list(points.shape)}, expected {[n, row]} bytes")
    count = row * (8 // bits)
    integers = unpacked(points.reshape(-1).astype(np.uint8), n * count, bits).reshape(n, count)
    return integers[:, :blocks]


@operator(GATHER_BLOCKS)
def gather_block_quantized(node: Node, emitter: Emitter) -> Value:
    """
    Import GatherBlockQuantized of ONNX Runtime: gather rows of the table
    `(q - zero point) * scale`. The default zero point is half of the range of the bits in a byte,
    and 0 for elements of four bits.
    """
    stored, scales = emitter.array(0), emitter.array(2)
    bits, size = node.integer("bits", 4), node.integer("block_size", 128)
    axis = node.axis(node.integer("quantize_axis", 1), stored.ndim, "quantize_axis")
    if stored.dtype.name not in ("uint8", "int4", "uint4"):
        raise node.wrong(f"a table of {stored.dtype}, expected uint8, int4 or uint4")
    in_bytes = stored.dtype == np.uint8
    numbers = _unpack(stored, bits) if in_bytes else stored
    blocks = list(numbers.shape)
    blocks[axis] = -(-blocks[axis] // max(size, 1))
    if size < 1 or list(scales.shape) != blocks:
        raise node.wrong(f"scales of shape {list(scales.shape)}, expected {blocks}")
    points: Array = np.full(blocks, 1 << bits - 1 if in_bytes else 0)
    if node.has_input(3):
        points = emitter.array(3)
        if points.dtype != stored.dtype:
            raise node.wrong(f"zero points of {points.dtype}, expected {stored.dtype}")
        points = _unpack(points, bits)[..., : blocks[-1]] if in_bytes and points.ndim else points
        if list(points.shape) != blocks:
            raise node.wrong(f"zero points of shape {list(points.shape)}, expected {blocks}")

    along, unit = node.integer("gather_axis", 0), block_unit(bits)
    if numbers.ndim == 2 and axis == 1 and along == 0 and size % unit == 0:
        # The default zero point of elements of four bits is 0.
        low = 0 if in_bytes or stored.dtype.name == "uint4" else 1 << bits - 1
        moved = (points.astype(np.int16) + low).astype(np.uint8)
        rows = packed_blocks((numbers.astype(np.int16) + low).astype(np.uint8), bits, size)
        sizes = numbers.shape[1], bits, size
        table = in_blocks(node, emitter, node.inputs[0], rows, scales, moved, sizes)
        return gathered_along(node, emitter, table, along)
    if bits < BYTE_BITS:
        emitter.widened.append(node.inputs[0])

    def repeated(values: Array) -> Float32Array:
        wide = np.repeat(values.astype(np.float32), size, axis)
        return wide.take(range(numbers.shape[axis]), axis).astype(np.float32)

    floats: Float32Array = numbers.astype(np.float32)
    real = (floats - repeated(points)) * repeated(scales)
    table = Constant.of(node.inputs[0], real)
    return gathered_along(node, emitter, table, along)


def _unpack(stored: Array, bits: int) -> Array:
    flat, per_byte = stored.reshape(-1).astype(np.uint8), 8 // bits
    shape = (*stored.shape[:-1], stored.shape[-1] * per_byte)
    return unpacked(flat, stored.size * per_byte, bits).reshape(shape)
