"""The instructions of one layer: loops over tiles, outputs, chunks of channels and taps."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ceras_ir.dialects.graph import LinearOperation, constant_array, quantized_element
from ceras_systolic.isa import Instruction, Op
from ceras_systolic.layer import Layer, Tile


@dataclass(frozen=True)
class Addresses:
    """Where in memory a layer's operands are."""

    input: int
    residual: int
    result: int
    weights: int
    bias: int


def packed_constants(op: LinearOperation, size: int) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
    """
    Weights in the order in which they are loaded, `[outputs/size, channels/size, taps, size,
    size]` with zeros at the ends, and the bias with what zero points contribute.
    """
    layer, weights = Layer.of(op), constant_array(op.weights)
    assert weights is not None
    taps = weights.reshape(layer.outputs, -1, layer.channels).astype(np.int64)
    bias = np.zeros(-(-layer.outputs // size) * size, np.int64)
    if op.bias is not None and (added := constant_array(op.bias)) is not None:
        bias[: layer.outputs] = added
    bias[: layer.outputs] -= taps.sum(axis=(1, 2)) * zero_point(op)
    if op.residual is not None and (element := quantized_element(op.residual)) is not None:
        bias -= element.zero_point << op.residual_left_shift
    taps = np.pad(taps, [(0, -layer.outputs % size), (0, 0), (0, -layer.channels % size)])
    blocks = taps.reshape(len(bias) // size, size, taps.shape[1], -1, size)
    # Sums wrap around, so that the bias may.
    return blocks.transpose(0, 3, 2, 4, 1).astype(np.int8), bias.astype(np.int32)


def zero_point(op: LinearOperation) -> int:
    """The stored number of the input that stands for zero."""
    element = quantized_element(op.input)
    assert element is not None
    return element.zero_point


def layer_stream(
    op: LinearOperation, tile: Tile, at: Addresses, size: int
) -> Iterator[Instruction]:
    """The stream of a layer; the result is written completely, each element once."""
    layer, requant = Layer.of(op), op.requant
    assert requant is not None
    words = (requant.net_shifts[0], requant.zero_point.data, requant.low.data, requant.high.data)
    yield Instruction(Op.CONFIG, (zero_point(op), *words))
    taps = [*product(range(layer.kernel[0]), range(layer.kernel[1]))]
    vectors, block = -(-layer.channels // size), size * size
    corners = product(
        range(layer.batch),
        range(0, layer.rows, tile.rows),
        range(0, layer.columns, tile.columns),
    )
    loaded: object = None
    held: object = None
    for n, y0, x0 in corners:
        rows, columns = min(tile.rows, layer.rows - y0), min(tile.columns, layer.columns - x0)
        height, width = layer.window(rows, columns)
        weights = tile.depth * height * width
        # A tile as wide as the image is one run of pixels, else every row of it is.
        whole = columns == layer.columns
        runs = [(0, rows * columns)] if whole else [(y, columns) for y in range(rows)]
        first = (n * layer.rows + y0) * layer.columns + x0
        for o in range(0, layer.outputs, size):
            cols = min(size, layer.outputs - o)
            yield Instruction(Op.PRELOAD, (at.bias + 4 * o, 0, rows * columns))
            pixels = [(first + y * layer.columns, y * columns, count) for y, count in runs]
            moves = [(p * layer.outputs + o, layer.outputs, acc, c, cols) for p, acc, c in pixels]
            if op.residual is not None:
                for where, *rest in moves:
                    words = (at.residual + where, *rest, op.residual_left_shift)
                    yield Instruction(Op.ADD, words)
            for k0 in range(0, vectors, tile.depth):
                depth = min(tile.depth, vectors - k0)
                if loaded != (loaded := (n, y0, x0, k0)):
                    for k, y in product(range(depth), range(height)):
                        top = y0 * layer.strides[0] - layer.before[0] + y
                        left = x0 * layer.strides[1] - layer.before[1]
                        place = (k * height + y) * width
                        yield from _load(
                            layer, at.input, (n, top, left, (k0 + k) * size), width, place, size
                        )
                if held != (held := (o, k0, weights)):
                    chunk = at.weights + (o // size * vectors + k0) * len(taps) * block
                    count = depth * len(taps) * size
                    yield Instruction(Op.MVIN, (chunk, size, weights, count, size))
                for k, (t, (i, j)) in product(range(depth), enumerate(taps)):
                    b = weights + (k * len(taps) + t) * size
                    for y, x in product(range(rows), range(0, columns, size)):
                        row = k * height + y * layer.strides[0] + i * layer.dilations[0]
                        a = row * width + x * layer.strides[1] + j * layer.dilations[1]
                        count, acc = min(size, columns - x), y * columns + x
                        yield Instruction(Op.COMPUTE, (a, layer.strides[1], b, acc, count))
            for where, *rest in moves:
                yield Instruction(Op.MVOUT, (at.result + where, *rest))


def _load(
    layer: Layer, base: int, corner: tuple[int, int, int, int], width: int, place: int, size: int
) -> Iterator[Instruction]:
    """A row of a window into the scratchpad; what is outside of the image is padding."""
    n, y, x, channel = corner
    low, high = min(max(x, 0), x + width), max(min(x + width, layer.width), x)
    if not 0 <= y < layer.height or low >= high:
        yield Instruction(Op.FILL, (place, width))
        return
    if low > x:
        yield Instruction(Op.FILL, (place, low - x))
    pixel = (n * layer.height + y) * layer.width + low
    cols = min(size, layer.channels - channel)
    words = (base + pixel * layer.channels + channel, layer.channels, place + low - x)
    yield Instruction(Op.MVIN, (*words, high - low, cols))
    if high < x + width:
        yield Instruction(Op.FILL, (place + high - x, x + width - high))
