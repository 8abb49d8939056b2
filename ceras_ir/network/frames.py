"""
Convert images to the frames of a camera, for samples of networks with `graph.decode_frame`.

The decoder of the network is the interpreter's. The encoders here are approximate inverses: a
format has fewer bits than an image.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from xdsl.utils.hints import isa

from ceras_ir.dialects.graph.camera import BAYER, Channels, FrameFormat, FrameLayout
from ceras_ir.dialects.graph.pooling import Resize

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int32]


WORD_ORDERS = {FrameFormat.RGB565_BE: ">", FrameFormat.RGB565_LE: "<"}
"""The order of bytes, as numpy writes it, of formats with a 16-bit number per pixel."""


@dataclass(frozen=True)
class Frame:
    """
    The format of camera frames that a network receives as an input, and the conversion of a frame
    to the image that the network computes on.
    """

    format: FrameFormat
    size: tuple[int, int]
    """Height and width in pixels."""
    crop: tuple[int, int, int, int]
    """Top, left, height and width of the part that becomes the image."""
    channels: Channels
    resize: Resize

    @property
    def layout(self) -> FrameLayout:
        return FrameLayout(self.format, *self.size)

    @property
    def depth(self) -> int:
        """The number of channels of the image: 1 if it is gray, else 3."""
        return 1 if self.channels is Channels.GRAY else 3

    @property
    def error(self) -> str:
        """The reason why the format, the size or the crop is invalid, or an empty text."""
        if self.layout.error or self.layout.has(self.crop):
            return self.layout.error
        top, left, height, width = self.crop
        rows, columns = self.size
        return (
            f"the crop of {height}x{width} pixels at row {top} and column {left} is not inside of "
            f"a frame of {rows}x{columns}"
        )

    def to_json(self) -> dict[str, object]:
        return {
            "format": str(self.format),
            "size": list(self.size),
            "crop": list(self.crop),
            "channels": str(self.channels),
            "resize": str(self.resize),
        }

    @classmethod
    def from_json(cls, entry: object) -> Frame | None:
        """Return the frame in a manifest, or None if it is not valid."""
        if not isa(entry, dict[str, object]):
            return None
        size, crop = entry.get("size"), entry.get("crop")
        if not (isa(size, list[int]) and len(size) == 2 and isa(crop, list[int])):
            return None
        if len(crop) != 4:
            return None
        try:
            format, channels = FrameFormat(entry.get("format")), Channels(entry.get("channels"))
            resize = Resize(entry.get("resize"))
        except ValueError:
            return None
        top, left, height, width = crop
        found = cls(format, (size[0], size[1]), (top, left, height, width), channels, resize)
        return None if found.error else found

    def of_words(self, words: NDArray[np.generic]) -> Bytes | None:
        """
        Return frames as bytes [N, H, W, 2] from pixels [N, H, W] of type uint16. Return `None` if
        the format does not have 16 bits per pixel (RGB565), or for another type or size.
        """
        order = WORD_ORDERS.get(self.format)
        if order is None or words.dtype != np.uint16 or words.shape[1:] != self.size:
            return None
        return words.astype(f"{order}u2")[..., None].view(np.uint8)

    def of_images(self, images: Bytes) -> Bytes:
        """
        Encode images as frames of B bytes per pixel. `images` [N, H, W, C] have any size, and the
        channels of the network (such as BGR). They are scaled to the crop by the nearest pixel;
        pixels outside the crop are black. The result has the shape [N, H, W, B] of the format.
        """
        top, left, height, width = self.crop
        rows = np.arange(height) * images.shape[1] // height
        columns = np.arange(width) * images.shape[2] // width
        whole = np.zeros((len(images), *self.size, images.shape[3]), np.uint8)
        whole[:, top : top + height, left : left + width] = images[:, rows][:, :, columns]
        colors = whole[..., ::-1] if self.channels is Channels.BGR else whole
        return np.concatenate([self.of_colors(each) for each in colors])

    def of_colors(self, image: Bytes) -> Bytes:
        """Return the frame [1, H, W, B] of an image [H, W, C], gray or in red, green and blue."""
        colors = np.broadcast_to(image, (*image.shape[:2], 3)).astype(np.int32)
        return ENCODERS[self.format](colors).astype(np.uint8)[None]


def _gray(colors: Integers) -> Integers:
    return (colors @ np.array([77, 150, 29], np.int32) + 128 >> 8)[:, :, None]


def _words(colors: Integers, *, upper_first: bool) -> Integers:
    red, green, blue = (colors[:, :, c] for c in range(3))
    word = red >> 3 << 11 | green >> 2 << 5 | blue >> 3
    halves = [word >> 8, word & 255]
    return np.stack(halves if upper_first else halves[::-1], -1)


LUMA = np.array([66, 129, 25], np.int32)
CHROMA = np.array([[-38, -74, 112], [112, -94, -18]], np.int32)
"""The weights of red, green and blue in 256 Y, 256 U and 256 V of ITU-R BT.601."""


def _luma(colors: Integers) -> Integers:
    return (colors @ LUMA + 128 >> 8) + 16


def _chroma(colors: Integers) -> Integers:
    """Return U and V in an array [H, W, 2]."""
    return (colors @ CHROMA.T + 128 >> 8) + 128


def _packed(colors: Integers, *, luma_first: bool) -> Integers:
    pairs = _chroma(colors[:, 0::2] + colors[:, 1::2] + 1 >> 1)
    planes = [_luma(colors), pairs.reshape(colors.shape[:2])]
    return np.stack(planes if luma_first else planes[::-1], -1)


def _planar(colors: Integers, *, u_first: bool) -> Integers:
    rows = colors[0::2] + colors[1::2]
    cells = rows[:, 0::2] + rows[:, 1::2] + 2 >> 2
    pairs = _chroma(cells)[:, :, :: 1 if u_first else -1]
    chroma = pairs.reshape(len(cells), colors.shape[1])
    return np.concatenate([_luma(colors), chroma])[:, :, None]


def _bayer(colors: Integers, *, pattern: str) -> Integers:
    result = np.zeros((*colors.shape[:2], 1), np.int32)
    for place, letter in enumerate(pattern):
        y, x = divmod(place, 2)
        result[y::2, x::2, 0] = colors[y::2, x::2, "rgb".index(letter)]
    return result


ENCODERS: Mapping[FrameFormat, Callable[[Integers], Integers]] = {
    FrameFormat.GRAY: _gray,
    FrameFormat.RGB888: lambda colors: colors,
    FrameFormat.BGR888: lambda colors: colors[:, :, ::-1],
    FrameFormat.RGB565_BE: partial(_words, upper_first=True),
    FrameFormat.RGB565_LE: partial(_words, upper_first=False),
    FrameFormat.YUYV: partial(_packed, luma_first=True),
    FrameFormat.UYVY: partial(_packed, luma_first=False),
    FrameFormat.NV12: partial(_planar, u_first=True),
    FrameFormat.NV21: partial(_planar, u_first=False),
    **{pattern: partial(_bayer, pattern=str(pattern)) for pattern in BAYER},
}
"""The conversion of an image [H, W, 3] to the bytes [H, W, B] of each format."""
