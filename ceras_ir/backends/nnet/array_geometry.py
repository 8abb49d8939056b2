"""
How the array in Verilog goes through an operation: blocks of pixels, tiles of products and outputs.

The engine cuts layers in the same way when it fills the registers (`core/geometry.cpp`).
"""

from dataclasses import dataclass, replace
from math import prod

from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.nnet.circuit_size import CircuitSize
from ceras_ir.backends.nnet.rules import is_product
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import shape_of
from ceras_ir.dialects.mem import block_of
from ceras_ir.transforms.memory.analysis.slices import element_bytes

PIXELS = 256
"""Of a block, at most: as many sums of each output are on chip."""
SUM_PIXELS = 64
"""The same of sums of two tensors, which wait for memory only: it is written early."""
CHAIN = 8
"""Rows of the array that add up in one column, where it has so many."""
SHORT = 4
"""Words of a row, which takes no less time than so many."""
ALIGNMENT = 64
"""Of the memory that has all values."""
MOST_ROWS = 65535
"""What the register of them holds."""
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
class Line:
    """What the line buffer has of a row of the input: runs of bytes, side by side on chip."""

    runs: int
    run_bytes: int
    pitch: int
    """From run to run, in memory."""
    step: int
    """From line to line, in memory."""

    @property
    def bytes(self) -> int:
        """On chip."""
        return self.runs * self.run_bytes


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
    result_size: int = 1
    """Bytes of a result, which is a float where it is 4."""
    own_line: Line | None = None
    """Where it is not all pixels of a row, `input_pitch` bytes apart."""
    repeats: int = 1
    """Pixels of the result side by side that are the same one of the input."""
    starts: tuple[int, int, int] = (0, 0, 0)
    """Where input, result and residual begin, in bytes from a multiple of `ALIGNMENT`."""

    @property
    def line(self) -> Line:
        """What is read of a row of the input."""
        if self.own_line is not None:
            return self.own_line
        dense = self.input_pitch == self.channels
        runs, length = (1, self.width * self.channels) if dense else (self.width, self.channels)
        return Line(runs, length, self.input_pitch, self.width * self.input_pitch)


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
    slots = size.line_bytes // max(layer.line.bytes, 1)
    if slots < down.extent:
        return None
    most_pixels = _most_pixels(layer, size)
    # Pixels that are the same one stay together.
    own = layer.columns // layer.repeats
    columns = ceiling(own, ceiling(own, max(most_pixels // layer.repeats, 1))) * layer.repeats
    single = (slots - down.extent) // down.stride + 1 if down.stride else layer.rows
    twice = (single + 1) // 2
    rows = 1 if columns < layer.columns else most_pixels // layer.columns
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
    most = max(size.result_bytes // 2 // (rows * columns * lanes * layer.result_size), 1)
    group = ceiling(output_tiles, ceiling(output_tiles, most))
    return Blocks(layer, slots, rows, columns, tiles, output_tiles, group, apart, after)


def _most_pixels(layer: Layer, size: CircuitSize) -> int:
    """Of a block: a half of the result buffer holds a tile of outputs of each."""
    if layer.result_size == 1:
        return layer.most_pixels
    return min(layer.most_pixels, size.result_bytes // 2 // (size.lanes * layer.result_size))


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
            residual = 0 if op.residual is None else pitch_of(op.residual)
            outputs = shape_of(op.weights)[0]
            unit = element_bytes(op.results[0])
            pitches = (pitch_of(op.input), pitch_of(op.results[0]) * unit, residual)
            if isinstance(op, graph.Conv2dOp) and (by_channel or not is_product(op)):
                images, height, width, channels = shape_of(op.input)
                rows, columns = shape_of(op.result)[1:3]
                down, across = _windows(op, shape_of(op.weights)[1:3])
                return Layer(
                    images, height, width, channels, rows, columns, outputs, *pitches, down, across,
                    by_channel=by_channel, tables=table_count(op), result_size=unit,
                )  # fmt: skip
            channels = prod(shape_of(op.weights)[1:])
            pixels = prod(shape_of(op.results[0])) // outputs
            image = Layer(
                1, 1, 1, channels, 1, 1, outputs, *pitches, tables=table_count(op),
                result_size=unit,
            )  # fmt: skip
            return as_image(pixels, image, size)
        case graph.Pool2dOp():
            multiplier = 1 if op.requant is None else op.requant.multiplier.data
            if op.function is graph.Pool.AVERAGE and multiplier & (multiplier - 1):
                return None
            images, height, width, channels = shape_of(op.input)
            rows, columns = shape_of(op.result)[1:3]
            down, across = _windows(op, op.kernel.get_values())
            pitches = (pitch_of(op.input), pitch_of(op.result))
            return Layer(
                images, height, width, channels, rows, columns, channels, *pitches, 0, down, across,
                multiplies=False, by_channel=True,
            )  # fmt: skip
        case graph.BinaryOp():
            length = (1, *shape_of(op.result))[-1]
            pitches = (pitch_of(op.lhs), pitch_of(op.result), pitch_of(op.rhs))
            if set(pitches) == {length}:
                # Without gaps any length of a pixel will do that divides them all.
                length = even_length(prod(shape_of(op.result)), size.lanes)
                pitches = (length, length, length)
            image = Layer(
                1, 1, 1, length, 1, 1, length, *pitches, multiplies=False, by_channel=True,
                most_pixels=SUM_PIXELS,
            )  # fmt: skip
            return as_image(prod(shape_of(op.result)) // length, image, size)
        case graph.LookupOp():
            length, unit = (1, *shape_of(op.result))[-1], element_bytes(op.result)
            pitches = (pitch_of(op.input), pitch_of(op.result))
            count = table_count(op)
            if count == 1 and set(pitches) == {length}:
                length = even_length(prod(shape_of(op.result)), size.lanes)
                pitches = (length, length)
            image = Layer(
                1, 1, 1, length, 1, 1, length, pitches[0], pitches[1] * unit, multiplies=False,
                by_channel=True, tables=count, result_size=unit,
            )  # fmt: skip
            return as_image(prod(shape_of(op.result)) // length, image, size)
        case _:
            return None


def table_count(op: graph.LinearOperation | graph.LookupOp) -> int:
    """How many different tables the channels look up in."""
    tables = op.tables
    return 0 if tables is None else len({tables[i].tobytes() for i in op.channel_rows or (0,)})


def even_length(numbers: int, lanes: int) -> int:
    """The divisor of `numbers` that is the best length of a pixel: whole words, if there are."""
    best = 1
    for length in range(1, min(8 * lanes, numbers) + 1):
        if numbers % length == 0 and (length % lanes == 0 or best % lanes):
            best = length
    return best


def as_image(pixels: int, layer: Layer, size: CircuitSize) -> Layer | None:
    """The layer of one pixel for so many in a row, as rows of an image; None where none fits."""
    width = image_width(pixels, layer.channels, size, _most_pixels(layer, size))
    if width is None:
        return None
    height = pixels // width
    return replace(layer, height=height, width=width, rows=height, columns=width)


def image_width(pixels: int, length: int, size: CircuitSize, most_pixels: int) -> int | None:
    """
    Pixels of a row, each of `length` bytes on chip: of the widths that divide them all, that which
    fills blocks best; of those the least that is not short, or the greatest.
    """
    width = most = 0
    for w in range(1, min(most_pixels, pixels) + 1):
        if pixels % w or pixels // w > MOST_ROWS or 2 * w * length > size.line_bytes:
            continue
        rows = min(most_pixels // w, max(size.line_bytes // (w * length) // 2, 1), pixels // w)
        is_short = width * length < SHORT * size.bus_bytes
        if w * rows > most or (w * rows == most and is_short):
            most, width = w * rows, w
    if width == 0 and (length > size.line_bytes or pixels > MOST_ROWS):
        return None
    return width or 1


def _windows(op: graph.Conv2dOp | graph.Pool2dOp, kernel: tuple[int, ...]) -> tuple[Window, Window]:
    fields = (op.strides, op.padding, op.dilations)
    strides, padding, dilations = (field.get_values() for field in fields)
    down, across = (Window(kernel[i], strides[i], padding[i], dilations[i]) for i in range(2))
    return down, across


def pitch_of(value: SSAValue) -> int:
    """Elements from row to row, as memory has it, or without gaps where it has no place yet."""
    block = block_of(value)
    pitch = 0 if block is None else block.pitch.data // element_bytes(value)
    return pitch or (1, *shape_of(value))[-1]


def start_of(value: SSAValue, offset: int = 0) -> int:
    """Where the byte `offset` of a value is, from a multiple of `ALIGNMENT`; 0 without a place."""
    block = block_of(value)
    return 0 if block is None else (block.offset.data + offset) % ALIGNMENT
