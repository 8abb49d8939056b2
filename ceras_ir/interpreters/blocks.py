"""Define products and lookups with packed weights in blocks in numpy."""

import numpy as np
from numpy.typing import NDArray
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    impl,
    register_impls,
)

from ceras_ir.dialects import graph
from ceras_ir.interpreters.selection import clamped_rows

Floats = NDArray[np.float32]

HIGHEST = np.float32(127)
"""The magnitude of the largest integer of a quantized block."""

MIN_MAGNITUDE = np.float32(2.0**-100)
"""A block with smaller elements is zero. The reciprocal of its scale could be infinite."""

EXACT_SUM = 1 << 24
"""Sums of integers with smaller magnitudes are exact in float32."""


def quantized_blocks(x: Floats, size: int) -> tuple[Floats, Floats]:
    """
    Quantize blocks of `size` elements of the rows `x` [M, K] to 8 bits, as `graph.block_matmul`
    defines it. Return the integers [M, blocks, size], 0 after the end of a row, and the scales [M,
    blocks].
    """
    rows, columns = x.shape
    blocks = -(-columns // size)
    padded = np.zeros((rows, blocks * size), np.float32)
    padded[:, :columns] = x
    split = padded.reshape(rows, blocks, size)
    largest: Floats = np.abs(split).max(axis=2)
    is_used = np.isfinite(largest) & (largest >= MIN_MAGNITUDE)
    safe = np.where(is_used, largest, np.float32(1))
    integers = np.rint(np.where(is_used[..., None], split, 0) * (HIGHEST / safe)[..., None])
    unused = np.where(np.isfinite(largest), np.float32(0), np.float32(np.nan))
    return integers, np.where(is_used, safe / HIGHEST, unused)


def block_product(
    x: Floats, integers: NDArray[np.int16], scales: Floats, bias: Floats | None
) -> Floats:
    """
    Return the product of `x` [M, K] with weights of which the `integers` [N, blocks, size] are
    minus their zero points, as `graph.block_matmul` defines it.
    """
    size = integers.shape[2]
    q, steps = quantized_blocks(x, size)
    reach = max(int(np.abs(integers).max()), 1) * int(HIGHEST) * size
    exact = np.float32 if reach < EXACT_SUM else np.float64
    dots = np.matmul(q.transpose(1, 0, 2).astype(exact), integers.transpose(1, 2, 0).astype(exact))
    total = np.zeros((len(x), len(integers)), np.float32)
    with np.errstate(all="ignore"):
        for b, dot in enumerate(dots):
            total += dot.astype(np.float32) * np.multiply.outer(steps[:, b], scales[:, b])
        return total if bias is None else total + bias


@register_impls
class BlockFunctions(InterpreterFunctions):
    """Interprets operations on packed weights in blocks."""

    @impl(graph.BlockMatmulOp)
    def matmul(self, interpreter: Interpreter, op: graph.BlockMatmulOp, args: PythonValues):
        given = dict(zip(op.operands, args, strict=True))
        x = given[op.input].astype(np.float32, copy=False)
        bias = None if op.bias is None else given[op.bias]
        return (block_product(x, op.known_integers(), op.known_scales(), bias),)

    @impl(graph.BlockTakeOp)
    def take(self, interpreter: Interpreter, op: graph.BlockTakeOp, args: PythonValues):
        given = dict(zip(op.operands, args, strict=True))
        rows = clamped_rows(given[op.indices], graph.shape_of(op.weights)[0])
        return (op.known_weights(graph.shape_of(op.result)[1], rows),)
