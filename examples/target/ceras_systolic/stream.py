"""Create the instructions of a layer: loops over tiles, outputs, channels and taps."""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ceras_ir.dialects.graph import LinearOperation, constant_array, quantized_element
from ceras_systolic.machine import Instruction, Op
from ceras_systolic.tile_for_array import Layer


def packed_constants(op: LinearOperation, size: int) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
    """
    Return weights in loading order, `[outputs/size, channels/size, taps, size, size]` padded with
    zeros, and the bias including the contribution of zero points.
    """
    layer, weights = Layer.of(op), constant_array(op.weights)
    assert weights is not None
    outputs, channels = layer.result[3], layer.input[3]
    taps = weights.reshape(outputs, -1, channels).astype(np.int64)
    bias = -zero_point(op) * taps.sum(axis=(1, 2))
    if op.bias is not None and (added := constant_array(op.bias)) is not None:
        bias += added
    if op.residual is not None and (element := quantized_element(op.residual)) is not None:
        bias -= element.zero_point << op.residual_shifts[0]
    taps = np.pad(taps, [(0, -outputs % size), (0, 0), (0, -channels % size)])
    blocks = taps.reshape(-(-outputs // size), size, taps.shape[1], -1, size)
    # Sums wrap around, so the bias may wrap around too.
    bias = np.pad(bias, (0, -outputs % size)).astype(np.int32)
    return blocks.transpose(0, 3, 2, 4, 1).astype(np.int8), bias


def zero_point(op: LinearOperation) -> int:
    """Return the stored integer of the input that represents zero."""
    element = quantized_element(op.input)
    assert element is not None
    return element.zero_point


def layer_stream(
    op: LinearOperation, tile: int, at: Sequence[int], size: int
) -> Iterator[Instruction]:
    """
    Create the stream of a layer in tiles of so many rows.

    The input, residual, result, weights and bias are `at` these addresses. Each element of the
    result
    is written exactly a single time.
    """
    layer, requant = Layer.of(op), op.requant
    assert requant is not None
    rescaling = requant.net_shifts[0], requant.zero_point.data, requant.low.data, requant.high.data
    yield Instruction(Op.CONFIG, (zero_point(op), *rescaling))
    (batch, all_rows, columns, outputs), channels = layer.result, layer.input[3]
    (down, right), vectors = layer.strides, -(-channels // size)
    taps, (_, width) = [*product(*map(range, layer.kernel))], layer.window(1)
    for n, top in product(range(batch), range(0, all_rows, tile)):
        rows = min(tile, all_rows - top)
        height, _ = layer.window(rows)
        for k, y in product(range(vectors), range(height)):
            start, *parts = _line(layer, n, top * down + y)
            place, cols = (k * height + y) * width, min(size, channels - k * size)
            words = (at[0] + start + k * size, channels, place, *parts, cols)
            yield Instruction(Op.MVIN, words)
        weights, count = vectors * height * width, vectors * len(taps) * size
        for o in range(0, outputs, size):
            first = (n * all_rows + top) * columns * outputs + o
            block = (outputs, 0, rows * columns, min(size, outputs - o))
            yield Instruction(Op.PRELOAD, (at[4] + 4 * o, 0, rows * columns))
            if op.residual is not None:
                words = (at[1] + first, *block, op.residual_shifts[0])
                yield Instruction(Op.ADD, words)
            words = (at[3] + o * count, size, weights, 0, count, 0, size)
            yield Instruction(Op.MVIN, words)
            for k, (t, (i, j)) in product(range(vectors), enumerate(taps)):
                b = weights + (k * len(taps) + t) * size
                for y, x in product(range(rows), range(0, columns, size)):
                    line = k * height + y * down + i * layer.dilations[0]
                    a = line * width + x * right + j * layer.dilations[1]
                    words = (a, right, b, y * columns + x, min(size, columns - x))
                    yield Instruction(Op.COMPUTE, words)
            yield Instruction(Op.MVOUT, (at[2] + first, *block))


def _line(layer: Layer, n: int, line: int) -> tuple[int, int, int, int]:
    """Locate a row of the padded input: the address and the columns of padding, image, padding."""
    (_, height, width, channels), (top, left, _, _) = layer.input, layer.padding
    (_, wide), y = layer.window(1), line - top
    inside = min(width, wide - left) if 0 <= y < height else 0
    if inside <= 0:
        return 0, wide, 0, 0
    return (n * height + y) * width * channels, left, inside, wide - left - inside
