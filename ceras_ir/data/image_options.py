"""Declare the conversion of images to inputs of a network, without numpy, for the command line."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import isfinite
from typing import Literal, TypeAlias

from xdsl.utils.hints import isa

from ceras_ir.support.diagnostics import UsageError, did_you_mean
from ceras_ir.support.options import choices_of, option, types_of

PIXEL_LAYOUTS = ("nhwc", "nchw")
"""The layouts of images of the size of an input."""

InputImage: TypeAlias = Literal[
    "nhwc",
    "nchw",
    "gray",
    "rgb888",
    "bgr888",
    "rgb565_be",
    "rgb565_le",
    "yuyv",
    "uyvy",
    "nv12",
    "nv21",
    "rggb",
    "bggr",
    "grbg",
    "gbrg",
]
"""A layout of pixels, or a format of the frames of a camera (`FrameFormat`)."""


@dataclass(frozen=True)
class ImageOptions:
    """
    The conversion of image files to inputs of a network: resize, divide, subtract, divide. Defaults
    that depend on the input are described at the field.
    """

    size: tuple[int, int] | None = option(None, flag="--image-size", metavar="HxW", read=str)
    """
    Resize images to this (default: the size of the input).

    With the fit crop, this is the size before the crop.
    """
    scale: float | None = option(None, flag="--image-scale", metavar="S", read=str)
    """
    First divide pixels by this (default: 255, or 1 for an input of uint8).

    Inputs of other unsigned integers also receive bytes unchanged.
    """
    mean: tuple[float, ...] = option((0.0,), flag="--image-mean", metavar="M,M,M", read=str)
    """Then subtract this, a number or a number per channel (default: 0)."""
    std: tuple[float, ...] = option((1.0,), flag="--image-std", metavar="D,D,D", read=str)
    """Then divide by this, a number or a number per channel (default: 1)."""
    channels: Literal["rgb", "bgr"] = option(
        "rgb", flag="--image-channels", metavar="{rgb,bgr}", read=str
    )
    """Use this order of channels in images."""
    layout: Literal["auto", "nchw", "nhwc"] = option(
        "auto", flag="--image-layout", metavar="{nchw,nhwc}", read=str
    )
    """Use this layout of the input for images (default: derived from the shape)."""
    fit: Literal["stretch", "crop", "letterbox"] = option(
        "stretch", flag="--image-fit", metavar="{stretch,crop,letterbox}", read=str
    )
    """
    Stretch images of another shape, crop them to their centre, or pad them on the right and at the
    bottom.
    """
    pad: float = option(114.0, flag="--image-pad", metavar="P", read=str)
    """
    Pad letterboxed images with this.

    The value is a pixel before the division.
    """

    @classmethod
    def parse(cls, text: str) -> ImageOptions:
        """
        Parse text after the `?` of a path, such as `size=32x32&mean=0.5:0.4:0.3`: pairs of a field
        and a value, with colons between the numbers of a list.
        """
        options = cls()
        for part in filter(None, text.split("&")):
            key, _, value = part.partition("=")
            options = options._with(key, value)
        if options.scale == 0.0 or 0.0 in options.std:
            raise UsageError("--image-scale and --image-std divide: they must not be 0")
        return options

    def divisor(self, dtype: str) -> float:
        """
        Return the number by which pixels from 0 to 255 are divided: the option `scale` if it is
        given. By default this is 1 for an input of type `uint8` or another unsigned type, and 255
        for other types.
        """
        default = 1.0 if dtype.startswith("uint") else 255.0
        return default if self.scale is None else self.scale

    def spell(self) -> str:
        """Return the text that `parse` converts to these options."""
        default, words = ImageOptions(), list[str]()
        for field in fields(self):
            value: object = getattr(self, field.name)
            if value == getattr(default, field.name):
                continue
            numbers = value if isa(value, tuple[float | int, ...]) else None
            between = "x" if field.name == "size" else ":"
            text = str(value) if numbers is None else between.join(map(str, numbers))
            words.append(f"{field.name}={text}")
        return "&".join(words)

    def _with(self, key: str, text: str) -> ImageOptions:
        types = types_of(ImageOptions)
        if key not in types:
            raise UsageError(f"unknown image option '{key}'{did_you_mean(key, types)}")
        if (choices := choices_of(types[key])) and text not in choices:
            raise UsageError(f"--image-{key} must be one of {', '.join(choices)}, got {text}")
        read = {"size": _size, "mean": _numbers, "std": _numbers, "scale": _number, "pad": _number}
        return replace(self, **{key: read[key](key, text) if key in read else text})


def _size(key: str, text: str) -> tuple[int, int]:
    height, _, width = text.partition("x")
    if not all(v.isdecimal() and 1 <= int(v) < 1 << 16 for v in (height, width or height)):
        raise UsageError(f"--image-{key} must be HxW, got {text}")
    return int(height), int(width or height)


def _numbers(key: str, text: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(v) for v in text.split(":"))
    except ValueError:
        numbers = (float("nan"),)
    if not all(map(isfinite, numbers)):
        raise UsageError(f"--image-{key} must be numbers, got {text}")
    return numbers


def _number(key: str, text: str) -> float:
    numbers = _numbers(key, text)
    if len(numbers) != 1:
        raise UsageError(f"--image-{key} must be a single number, got {text}")
    return numbers[0]
