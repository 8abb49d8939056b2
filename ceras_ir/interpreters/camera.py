"""Define the conversion of camera frames to images in numpy."""

import numpy as np
from numpy.typing import NDArray
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.camera import BAYER, PACKED, PLANAR, Channels, FrameFormat
from ceras_ir.dialects.graph.pooling import Resize

Integers = NDArray[np.int32]

UNIT_BITS = 8
"""The bits of a position after the binary point."""


def decoded(frame: NDArray[np.uint8], format: FrameFormat, channels: Channels) -> Integers:
    """
    Convert a frame [1, rows, columns, bytes] to an image [H, W, C] with elements from 0 to 255,
    without cropping and resizing.
    """
    data = frame[0].astype(np.int32)
    if format in PLANAR | PACKED:
        return _of_yuv(*_yuv(data, format), channels)
    if format in BAYER:
        planes = _bayer(data[:, :, 0], format)
    elif format is FrameFormat.GRAY:
        planes = [data[:, :, 0]] * 3
    elif format in (FrameFormat.RGB888, FrameFormat.BGR888):
        planes = [data[:, :, c] for c in range(3)][:: 1 if format is FrameFormat.RGB888 else -1]
    else:
        upper = 0 if format is FrameFormat.RGB565_BE else 1
        word = data[:, :, upper] << 8 | data[:, :, 1 - upper]
        red, green, blue = word >> 11, word >> 5 & 63, word & 31
        planes = [red << 3 | red >> 2, green << 2 | green >> 4, blue << 3 | blue >> 2]
    if channels is not Channels.GRAY:
        return np.stack(planes[:: 1 if channels is Channels.RGB else -1], -1)
    red, green, blue = planes
    if format is FrameFormat.GRAY:
        return red[:, :, None]
    return (77 * red + 150 * green + 29 * blue + 128 >> 8)[:, :, None]


def _yuv(data: Integers, format: FrameFormat) -> tuple[Integers, Integers, Integers]:
    if format in PACKED:
        place = 0 if format is FrameFormat.YUYV else 1
        luma, chroma = data[:, :, place], data[:, :, 1 - place]
    else:
        height = len(data) * 2 // 3
        luma, chroma = data[:height, :, 0], np.repeat(data[height:, :, 0], 2, 0)
    first, second = (np.repeat(chroma[:, start::2], 2, 1) for start in (0, 1))
    return (luma, second, first) if format is FrameFormat.NV21 else (luma, first, second)


def _of_yuv(luma: Integers, u: Integers, v: Integers, channels: Channels) -> Integers:
    c, d, e = 298 * (luma - 16) + 128, u - 128, v - 128
    if channels is Channels.GRAY:
        planes = [c]
    else:
        planes = [c + 409 * e, c - 100 * d - 208 * e, c + 516 * d]
        planes = planes[:: 1 if channels is Channels.RGB else -1]
    return np.clip(np.stack(planes, -1) >> 8, 0, 255)


def _bayer(data: Integers, format: FrameFormat) -> list[Integers]:
    def spread(plane: Integers) -> Integers:
        return np.repeat(np.repeat(plane, 2, 0), 2, 1)

    (ry, rx), (by, bx) = BAYER[format]
    green = data[ry::2, bx::2] + data[by::2, rx::2] + 1 >> 1
    return [spread(plane) for plane in (data[ry::2, rx::2], green, data[by::2, bx::2])]


def positions(extent: int, count: int, kind: Resize) -> tuple[Integers, Integers, Integers]:
    """
    Return three arrays [count] to resize an axis from `extent` to `count` elements: the indices of
    the two neighbors of each result, and the weight of the second neighbor in units of 1/256. For
    the nearest element both indices are equal, and the weight is 0.
    """
    index = 2 * np.arange(count, dtype=np.int64) + 1
    if kind is Resize.NEAREST:
        low = (index * extent // (2 * count)).astype(np.int32)
        return low, low, np.zeros_like(low)
    unit = 1 << UNIT_BITS
    place = index * extent * (unit // 2) // count - unit // 2
    place = np.clip(place, 0, (extent - 1) * unit).astype(np.int32)
    low = place >> UNIT_BITS
    return low, np.minimum(low + 1, extent - 1), place & unit - 1


def resized(image: Integers, size: tuple[int, int], kind: Resize) -> NDArray[np.uint8]:
    """
    Resize an image [H, W, C] to the height and width `size`. Results are rounded to nearest, ties
    up.
    """
    unit = 1 << UNIT_BITS
    top, bottom, down = positions(image.shape[0], size[0], kind)
    left, right, across = positions(image.shape[1], size[1], kind)
    down, across = down[:, None, None], across[:, None]
    rows = image[top] * (unit - down) + image[bottom] * down
    total = rows[:, left] * (unit - across) + rows[:, right] * across
    return (total + unit * unit // 2 >> 2 * UNIT_BITS).astype(np.uint8)


@register_impls
class CameraFunctions(InterpreterFunctions):
    @impl(graph.DecodeFrameOp)
    def decode_frame(self, interpreter: Interpreter, op: graph.DecodeFrameOp, args: PythonValues):
        top, left, height, width = op.region
        image = decoded(args[0], op.format.data, op.channels.data)
        _, *size, _ = graph.shape_of(op.result)
        crop = image[top : top + height, left : left + width]
        return (resized(crop, (size[0], size[1]), op.kind.data)[None],)
