"""
How the array in Verilog goes through an operation: blocks of pixels, tiles of products and outputs.

The engine cuts layers in the same way when it fills the registers (`core/plan.cpp`).
"""

from dataclasses import dataclass, replace
from math import prod

from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.nnet.circuit_size import CircuitSize
from ceras_ir.backends.nnet.rules import is_product
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import shape_of
from ceras_ir.dialects.mem import block_of

PIXELS = 256
"""Of a block, at most: as many sums of each output are on chip."""
SUM_PIXELS = 64
"""The same of sums of two tensors, which wait for memory only: it is written early."""
CHAIN = 8
"""Rows of the array that add up in one column, where it has so many."""
SHORT = 4
"""Words of a row, which takes no less time than so many."""
ENOUGH_PIXELS = 64
"""A block of fewer waits for its weights rather than for the next block's rows."""


@dataclass(frozen=True)
class Window:
    """Kernel, strides, padding before and dilations of one axis."""

    kernel: int = 1
    stride: int = 1
    before: int = 0
    dilation: int = 1

    @property
    def extent(self) -> int:
        """From the first element under the window to the last."""
        return (self.kernel - 1) * self.dilation + 1


@dataclass(frozen=True)
class Layer:
    """What is read, computed and written; pitches are bytes from pixel to pixel."""

    images: int
    height: int
    width: int
    channels: int
    rows: int
    columns: int
    outputs: int
    input_pitch: int
    result_pitch: int
    residual_pitch: int = 0
    """0 without a residual."""
    down: Window = Window()
    across: Window = Window()
    multiplies: bool = True
    by_channel: bool = False
    """An output is made of the channel of its number alone."""
    most_pixels: int = PIXELS
    """Of a block."""
    tables: int = 0
    """Function tables of its channels, which come before everything else."""


@dataclass(frozen=True)
class Blocks:
    """A layer cut for an array of some size."""

    layer: Layer
    slots: int
    """Rows of the input that are on chip at a time."""
    rows: int
    """Of a block, of the result."""
    columns: int
    tiles: int
    """Of products, of one pixel."""
    output_tiles: int
    group: int
    """Tiles of outputs that are written together."""
    reads_apart: int = 1
    """From one pixel to the next."""
    reads_after: int = 0
    """The last pixel of a row."""

    @property
    def pixels(self) -> int:
        """Of a whole block."""
        return self.rows * self.columns

    def reads(self, rows: int, columns: int) -> int:
        """Cycles of a tile of products for so many pixels."""
        return rows * ((columns - 1) * self.reads_apart + 1 + self.reads_after)


def ceiling(size: int, unit: int) -> int:
    """How many units hold `size`."""
    return -(-size // unit)


def cut(layer: Layer, size: CircuitSize) -> Blocks | None:
    """The blocks of a layer; None where its rows do not fit on chip."""
    lanes, down = size.lanes, layer.down
    slots = size.line_bytes // max(layer.width * layer.channels, 1)
    if slots < down.extent:
        return None
    column_blocks = ceiling(layer.columns, layer.most_pixels)
    columns = ceiling(layer.columns, column_blocks)
    single = (slots - down.extent) // down.stride + 1
    twice = (single + 1) // 2
    rows = 1 if column_blocks > 1 else layer.most_pixels // layer.columns
    rows = min(rows, twice if twice * layer.columns >= ENOUGH_PIXELS else single, layer.rows)
    rows = ceiling(layer.rows, ceiling(layer.rows, rows))
    apart, after = 1, 0
    if layer.by_channel:
        row_tiles, apart, after = _taps_by_channel(layer, columns, lanes)
        tiles = down.kernel * row_tiles
    elif layer.across.dilation == 1:
        tiles = down.kernel * ceiling(layer.across.kernel * layer.channels, lanes)
    else:
        tiles = down.kernel * layer.across.kernel * ceiling(layer.channels, lanes)
    output_tiles = ceiling(layer.outputs, lanes)
    most = max(size.result_bytes // 2 // (rows * columns * lanes), 1)
    group = ceiling(output_tiles, ceiling(output_tiles, most))
    return Blocks(layer, slots, rows, columns, tiles, output_tiles, group, apart, after)


def _taps_by_channel(layer: Layer, columns: int, lanes: int) -> tuple[int, int, int]:
    """
    Tiles of a row of the window, reads from pixel to pixel, and reads after the last: a tap of each
    pixel at a time, or all positions under several taps where those are fewer reads.
    """
    across = layer.across
    tiles = ceiling(across.extent, min(lanes // 2, CHAIN))
    taps = ceiling(across.extent, tiles)
    reads = tiles * ((columns - 1) * across.stride + taps)
    if layer.multiplies and reads < across.kernel * columns:
        return tiles, across.stride, taps - 1
    return across.kernel, 1, 0


def layer_of(op: Operation, size: CircuitSize) -> Layer | None:
    """What the array does for an operation that the FPGA takes; None where it has no way."""
    match op:
        case graph.Conv2dOp() if op.group_count != 1 and not graph.is_depthwise(op):
            return None
        case graph.LinearOperation():
            by_channel = graph.is_depthwise(op)
            residual = 0 if op.residual is None else _pitch(op.residual)
            outputs = shape_of(op.weights)[0]
            pitches = (_pitch(op.input), _pitch(op.result), residual)
            if isinstance(op, graph.Conv2dOp) and (by_channel or not is_product(op)):
                images, height, width, channels = shape_of(op.input)
                rows, columns = shape_of(op.result)[1:3]
                down, across = _windows(op, shape_of(op.weights)[1:3])
                return Layer(
                    images, height, width, channels, rows, columns, outputs, *pitches, down, across,
                    by_channel=by_channel, tables=_table_count(op),
                )  # fmt: skip
            channels = prod(shape_of(op.weights)[1:])
            pixels = prod(shape_of(op.result)) // outputs
            image = _as_image(pixels, channels, outputs, pitches, size, multiplies=True)
            return None if image is None else replace(image, tables=_table_count(op))
        case graph.Pool2dOp():
            multiplier = 1 if op.requant is None else op.requant.multiplier.data
            if op.function is graph.Pool.AVERAGE and multiplier & (multiplier - 1):
                return None
            images, height, width, channels = shape_of(op.input)
            rows, columns = shape_of(op.result)[1:3]
            down, across = _windows(op, op.kernel.get_values())
            pitches = (_pitch(op.input), _pitch(op.result))
            return Layer(
                images, height, width, channels, rows, columns, channels, *pitches, 0, down, across,
                multiplies=False, by_channel=True,
            )  # fmt: skip
        case graph.BinaryOp():
            length = (1, *shape_of(op.result))[-1]
            numbers = prod(shape_of(op.result))
            pitches = (_pitch(op.lhs), _pitch(op.result), _pitch(op.rhs))
            if set(pitches) == {length}:
                # Without gaps any length of a pixel will do that divides them all.
                length = _even_length(numbers, size.lanes)
                pitches = (length, length, length)
            return _as_image(numbers // length, length, length, pitches, size, multiplies=False)
        case _:
            return None


def _table_count(op: graph.LinearOperation) -> int:
    """How many different tables the channels look up in."""
    tables = op.tables
    return 0 if tables is None else len({tables[i].tobytes() for i in op.channel_rows or (0,)})


def _even_length(numbers: int, lanes: int) -> int:
    best = 1
    for length in range(1, min(8 * lanes, numbers) + 1):
        if numbers % length == 0 and (length % lanes == 0 or best % lanes):
            best = length
    return best


def _as_image(
    pixels: int,
    channels: int,
    outputs: int,
    pitches: tuple[int, int, int],
    size: CircuitSize,
    *,
    multiplies: bool,
) -> Layer | None:
    """
    Pixels in a row, as rows of the width that fills blocks best; of those the least that is not
    short, or the greatest.
    """
    width = most = 0
    most_pixels = PIXELS if multiplies else SUM_PIXELS
    for w in range(1, min(most_pixels, pixels) + 1):
        if pixels % w or 2 * w * channels > size.line_bytes:
            continue
        rows = min(most_pixels // w, max(size.line_bytes // (w * channels) // 2, 1), pixels // w)
        is_short = width * channels < SHORT * size.bus_bytes
        if w * rows > most or (w * rows == most and is_short):
            most, width = w * rows, w
    if width == 0 and channels > size.line_bytes:
        return None
    width = width or 1
    height = pixels // width
    return Layer(
        1, height, width, channels, height, width, outputs, *pitches, multiplies=multiplies,
        by_channel=not multiplies, most_pixels=most_pixels,
    )  # fmt: skip


def _windows(op: graph.Conv2dOp | graph.Pool2dOp, kernel: tuple[int, ...]) -> tuple[Window, Window]:
    fields = (op.strides, op.padding, op.dilations)
    strides, padding, dilations = (field.get_values() for field in fields)
    down, across = (Window(kernel[i], strides[i], padding[i], dilations[i]) for i in range(2))
    return down, across


def _pitch(value: SSAValue) -> int:
    """Bytes from row to row, as memory has it, or without gaps where it has no place yet."""
    block = block_of(value)
    return (block.pitch.data if block is not None else 0) or (1, *shape_of(value))[-1]
