"""
Convert float samples of a model to the pixels of a camera, for networks with `--input-image`.

The pass `take-images` records the conversion on the argument. The network computes
`(pixel / scale - mean) / std` and transposes the result to the axes of the model; samples of the
model are converted back.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, StringAttr, f32, i64
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from ceras_ir.network.frames import Frame

PIXELS = "graph.pixels"
"""The attribute of an argument of plain ui8 that replaces the float image of a model."""

MAX_PIXEL = 255

FRAME_ENTRIES = ("format", "size", "crop", "channels", "resize")
"""The entries of a frame in the attribute."""


@dataclass(frozen=True)
class Pixels:
    """
    The conversion from pixels of a camera (ui8) to the float input of a model: `((pixel / scale) -
    mean) / std`, transposed by `axes`.
    """

    axes: tuple[int, ...]
    """The input of the model is `pixels.transpose(axes)`, converted."""
    channel_axis: int
    """The axis of the channels of pixels, 1 or 3."""
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    """A number, or a number per channel."""
    frame: Frame | None = None
    """The frame of the camera, if its bytes are not the pixels."""

    def to_json(self) -> dict[str, object]:
        frame = {} if self.frame is None else {"frame": self.frame.to_json()}
        return {
            "axes": list(self.axes),
            "channel_axis": self.channel_axis,
            "scale": self.scale,
            "mean": list(self.mean),
            "std": list(self.std),
            **frame,
        }

    @classmethod
    def from_json(cls, entry: object) -> Pixels | None:
        """
        Return the conversion that an entry of a manifest describes, or `None` if the entry is not
        valid.
        """
        if not isa(entry, dict[str, object]):
            return None
        axes, channel_axis, scale = entry.get("axes"), entry.get("channel_axis"), entry.get("scale")
        mean, std = entry.get("mean"), entry.get("std")
        if not (isa(axes, list[int]) and isa(mean, list[float]) and isa(std, list[float])):
            return None
        is_valid = (
            sorted(axes) == [0, 1, 2, 3]
            and channel_axis in (1, 3)
            and isinstance(scale, float)
            and min(len(mean), len(std)) > 0
            and all(map(isfinite, (scale, *mean, *std)))
            and 0.0 not in (scale, *std)
        )
        if not is_valid:
            return None
        assert isinstance(channel_axis, int) and isinstance(scale, float)
        frame = Frame.from_json(entry["frame"]) if "frame" in entry else None
        if frame is None and "frame" in entry:
            return None
        return cls(tuple(axes), channel_axis, scale, tuple(mean), tuple(std), frame)

    def to_attribute(self) -> DictionaryAttr:
        floats = {"scale": [self.scale], "mean": self.mean, "std": self.std}
        integers = {"axes": self.axes, "channel_axis": [self.channel_axis]}
        entries: dict[str, Attribute] = {
            name: DenseArrayBase.from_list(f32, numbers) for name, numbers in floats.items()
        }
        if self.frame is not None:
            integers |= {"size": self.frame.size, "crop": self.frame.crop}
            entries |= {
                name: StringAttr(str(getattr(self.frame, name)))
                for name in ("format", "channels", "resize")
            }
        entries |= {name: DenseArrayBase.from_list(i64, list(v)) for name, v in integers.items()}
        return DictionaryAttr(entries)

    @classmethod
    def of_attribute(cls, attribute: Attribute | None) -> Pixels | None:
        """
        Return the conversion that the attribute `graph.pixels` of an argument records, or `None` if
        it is missing or not valid.
        """
        if not isinstance(attribute, DictionaryAttr):
            return None
        entry: dict[str, object] = {}
        frame: dict[str, object] = {}
        for name, stored in attribute.data.items():
            values = list(stored.get_values()) if isinstance(stored, DenseArrayBase) else []
            is_number = name in ("scale", "channel_axis") and len(values) == 1
            part = frame if name in FRAME_ENTRIES else entry
            text = stored.data if isinstance(stored, StringAttr) else values
            part[name] = values[0] if is_number else text
        return cls.from_json({**entry, "frame": frame} if frame else entry)

    def of_floats(self, floats: NDArray[np.generic]) -> NDArray[np.uint8]:
        """
        Convert float samples of the model back to the nearest pixels. If the network takes frames
        of a camera, return frames that contain these pixels. Raise a `ValueError` if an element is
        outside the range of pixels, 0 to 255.
        """
        original = floats.astype(np.float64).transpose(np.argsort(self.axes))
        shape = [1] * 4
        shape[self.channel_axis] = -1
        mean, std = (np.array(numbers).reshape(shape) for numbers in (self.mean, self.std))
        pixels = np.rint((original * std + mean) * self.scale)
        # NaN is outside, too.
        outside = ~((pixels >= 0) & (pixels <= MAX_PIXEL))
        if outside.any():
            raise ValueError(
                f"{original[outside][0]:g}, which is pixel {pixels[outside][0]:g} and not in 0 to "
                f"{MAX_PIXEL}"
            )
        images = pixels.astype(np.uint8)
        return images if self.frame is None else self.frame.of_images(images)
