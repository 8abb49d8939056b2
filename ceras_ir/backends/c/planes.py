"""
The input of a sparse convolution as planes: what one weight meets in neighbouring positions lies
side by side.

A plane is a channel of the padded input, every `stride`-th row and column of it from a phase on, so
that a weight's input at position `(y, x)` is at `y * width + x` behind an offset of its own.
"""

from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.channel_order import CHUNK, clustered
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.rows import Geometry
from ceras_ir.dialects.graph import Conv2dOp, LinearOperation, shape_of

SLACK = 64
"""Elements behind a plane that the last vector of positions may read."""

AT_ONCE = 16
"""Positions that are laid out at once, and words of four channels."""

LEAST_POSITIONS = 8
"""Positions below which there is nothing to be side by side."""


@dataclass(frozen=True)
class Planes:
    """Planes of an input [images, height, width, channels], for `strip` output rows at a time."""

    images: int
    height: int
    width: int
    channels: int
    rows: int
    columns: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    top: int
    left: int
    strip: int
    shares: bool = True
    """Whether the border at the end of a row is that at the start of the next."""
    order: tuple[int, ...] = ()
    """The channel at each place, where not all are as they were."""

    @classmethod
    def of(cls, op: LinearOperation, geometry: Geometry, item: int, most: int) -> "Planes | None":
        """Planes of `item` bytes an element in at most `most`; None where they are no use."""
        if geometry.groups > 1 or geometry.positions < LEAST_POSITIONS:
            return None
        if isinstance(op, Conv2dOp):
            images, height, width, channels = shape_of(op.input)
            _, rows, columns, _ = shape_of(op.result)
            kernel, stride = shape_of(op.weights)[1:3], op.strides.get_values()
            dilation, padding = op.dilations.get_values(), op.padding.get_values()
        else:
            # A matrix product is a map of one row.
            images, height, rows = 1, 1, 1
            width, channels = shape_of(op.input)
            columns, kernel, stride, dilation, padding = width, (1, 1), (1, 1), (1, 1), (0, 0)
        planes = cls(
            images, height, width, channels, rows, columns, (kernel[0], kernel[1]),
            (stride[0], stride[1]), (dilation[0], dilation[1]), padding[0], padding[1], rows,
        )  # fmt: skip
        while planes.elements * item > most and planes.strip > 1:
            planes = replace(planes, strip=-(-planes.strip // 2))
        return planes if planes.elements * item <= most else None

    def clustered(self, weights: NDArray[np.generic]) -> "Planes":
        """The same with channels in an order that suits bytes, where there are whole chunks."""
        inside = min(self.columns + self._reach(1) - self.left, self.width)
        if weights.dtype != np.int8 or self.channels % CHUNK or self.stride[1] != 1:
            return self
        if inside < AT_ONCE:
            return self
        nonzero = np.not_equal(weights, 0).reshape(-1, self.channels)
        return replace(self, order=tuple(clustered(nonzero).tolist()))

    @property
    def phases(self) -> list[tuple[int, int]]:
        """Rows and columns, below the stride, at which planes begin."""
        rows, columns = (
            sorted({i * d % s for i in range(k)})
            for k, d, s in zip(self.kernel, self.dilation, self.stride, strict=True)
        )
        return [(r, c) for r in rows for c in columns]

    def _reach(self, axis: int) -> int:
        return (self.kernel[axis] - 1) * self.dilation[axis] // self.stride[axis]

    @property
    def plane_rows(self) -> int:
        return self.strip + self._reach(0)

    @property
    def shared(self) -> int:
        """Columns of the border that a row has in common with the next; planes end with them."""
        if not self.shares or self.stride[1] != 1:
            return 0
        after = self.columns + self._reach(1) - self.left - self.width
        return max(min(self.left, after), 0)

    @property
    def plane_columns(self) -> int:
        return self.columns + self._reach(1) - self.shared

    @property
    def pitch(self) -> int:
        """Elements from one plane to the next."""
        return self.plane_rows * self.plane_columns + self.shared + SLACK

    @property
    def count(self) -> int:
        """Planes, filled up to whole words of four bytes."""
        return -(-len(self.phases) * self.channels // 4) * 4

    @property
    def elements(self) -> int:
        return self.count * self.pitch

    @property
    def positions(self) -> int:
        """Of a strip, from its first to its last, those between its rows included."""
        return (self.strip - 1) * self.plane_columns + self.columns

    def taps(self) -> list[tuple[int, int]]:
        """For each element of the window, its first plane and its offset in planes."""
        phases = self.phases
        found: list[tuple[int, int]] = []
        for i in range(self.kernel[0]):
            for j in range(self.kernel[1]):
                at, along = i * self.dilation[0], j * self.dilation[1]
                phase = phases.index((at % self.stride[0], along % self.stride[1]))
                offset = at // self.stride[0] * self.plane_columns + along // self.stride[1]
                found.append((phase * self.channels, offset))
        return found

    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The plane of each product of a filter, and the offset in it."""
        taps = np.array(self.taps(), np.int64)
        channel = np.arange(self.channels)
        if self.order:
            channel = np.argsort(self.order)
        planes = (taps[:, :1] + channel).reshape(-1)
        return planes, np.repeat(taps[:, 1], self.channels)

    def fill(
        self, layer: Layer, x: str, types: tuple[str, str], unit: int, border: str, order: str = ""
    ) -> None:
        """
        Print what fills `planes` for the rows from `first` on, `unit` planes interleaved; `order`
        is the table of shuffles of channels in another order.
        """
        stored, element = types
        moved = stored == "int8_t" and element == "uint8_t"
        if unit == 4 and self.channels % 4 == 0:
            name, holes = "planes_words", {"FLIP": "(int32_t)0x80808080u" if moved else "0"}
            holes["NAME"] = "moved" if moved else "plain"
            order = f", {order or '0'}"
        else:
            name = "planes"
            holes = {"IN": stored, "TO": element, "UNIT": str(unit)}
            holes |= {"NAME": f"{stored}_to_{element}_{unit}", "SHIFT": " ^ 128" if moved else ""}
        function = layer.kernels.use(name, **holes)
        image = f"{x} + image * {prod((self.height, self.width, self.channels))}"
        source = image if self.images > 1 else x
        for n, (row, column) in enumerate(self.phases):
            numbers = (
                self.plane_rows, self.plane_columns, self.shared, self.pitch, self.stride[0],
                self.stride[1],
            )  # fmt: skip
            top = f"first * {self.stride[0]} + {row - self.top}"
            layer.line(
                f"{function}(planes, {n * self.channels}, {source}, "
                f"{', '.join(map(str, numbers))}, {top}, {column - self.left}, "
                f"{self.height}, {self.width}, {self.channels}, {border}{order});",
                1,
            )
