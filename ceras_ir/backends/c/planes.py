"""
Arrange the input of a sparse convolution in planes, so that the inputs that a weight multiplies are
contiguous.

A plane is a channel of the padded input. With strides, a channel has several planes, which start at
different rows and columns and have each `stride`-th row and column. For output position `(y, x)`, a
weight multiplies the element at `y * width + x` plus an offset that depends on the weight.
"""

from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.sums import Geometry
from ceras_ir.dialects.graph import Conv2dOp, LinearOperation, shape_of

# The product of a filter with a word of four channels has the same cost for one or four nonzero
# weights. Channels with weights at the same taps are therefore combined. Two instructions permute
# 64 channels: the first moves bytes within 16, the second moves pairs within 64. Pairs are
# therefore formed within 16 channels, by the number of taps at which both have a weight, and words
# of pairs within 64.


LANE_CHANNELS, CHUNK_CHANNELS = 16, 64
"""
The number of channels among which the first instruction permutes bytes, and among which the second
permutes pairs.
"""


def clustered(nonzero: NDArray[np.bool_]) -> NDArray[np.int64]:
    """
    Return an order of channels, within each 64 channels, in which channels with nonzero weights at
    the same taps are adjacent, so that words of four channels contain fewer zeros. `nonzero` marks
    weights [products, channels], for the products of all filters with a channel.
    """
    rows, channels = nonzero.shape
    assert channels % CHUNK_CHANNELS == 0
    if not rows:
        return np.arange(channels, dtype=np.int64)
    order: list[NDArray[np.int64]] = []
    for start in range(0, channels, CHUNK_CHANNELS):
        lanes = range(start, start + CHUNK_CHANNELS, LANE_CHANNELS)
        pairs = np.concatenate([_matched(nonzero[:, i : i + LANE_CHANNELS]) + i for i in lanes])
        either: NDArray[np.bool_] = nonzero[:, pairs[:, 0]] | nonzero[:, pairs[:, 1]]
        order.append(pairs[_matched(either)].reshape(-1))
    return np.concatenate(order)


def _matched(sets: NDArray[np.bool_]) -> NDArray[np.int64]:
    """
    Pair the columns of the boolean matrix `sets`, so that both columns of a pair are true in many
    common rows. Return the indices [pairs, 2]; pairs with the most common rows are first.
    """
    values = sets.astype(np.float32)
    first, second = np.triu_indices(sets.shape[1], 1)
    common = (values.T @ values)[first, second]
    free = np.ones(sets.shape[1], np.bool_)
    pairs: list[tuple[int, int]] = []
    for i in np.argsort(-common, kind="stable").tolist():
        a, b = int(first[i]), int(second[i])
        if free[a] and free[b]:
            free[[a, b]] = False
            pairs.append((a, b))
    return np.array(pairs, np.int64)


def shuffles(order: NDArray[np.int64]) -> NDArray[np.uint8]:
    """
    Return the index operands of the two vector instructions that permute channels (bytes) to
    `order`, for each 64 channels: bytes within 16 channels, then pairs of bytes within 64 channels.
    """
    tables: list[NDArray[np.uint8]] = []
    for chunk in (order.reshape(-1, CHUNK_CHANNELS) % CHUNK_CHANNELS).reshape(
        -1, CHUNK_CHANNELS // 2, 2
    ):
        lanes = chunk[:, 0] // LANE_CHANNELS
        assert (lanes == chunk[:, 1] // LANE_CHANNELS).all()
        by_lane = np.argsort(lanes, kind="stable")
        where = np.empty(CHUNK_CHANNELS // 2, np.uint16)
        where[by_lane] = np.arange(CHUNK_CHANNELS // 2)
        tables += [
            (chunk[by_lane] % LANE_CHANNELS).reshape(-1).astype(np.uint8),
            where.view(np.uint8),
        ]
    return np.concatenate(tables)


PLANE_SLACK = 64
"""Elements after a plane that the last vector of positions may load."""

AT_ONCE = 16
"""Positions, or words of four channels, that are written at once."""

MIN_PLANE_POSITIONS = 8
"""The minimum number of positions for which planes are useful."""


@dataclass(frozen=True)
class Planes:
    """
    The layout of the input [images, height, width, channels] of a sparse layer in the workspace. A
    plane is a channel of the padded input, so that the inputs of a weight are contiguous. The
    planes contain the input of `strip` output rows at a time.
    """

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
    shares_border: bool = True
    """Whether the border at the end of a row is the border at the start of the next row."""
    order: tuple[int, ...] = ()
    """The channel at each place, if channels are permuted."""

    @classmethod
    def of(
        cls, op: LinearOperation, geometry: Geometry, item: int, max_bytes: int
    ) -> "Planes | None":
        """
        Return the layout for elements of `item` bytes with the longest strip that fits `max_bytes`.
        Return `None` if the layer has too few positions or several groups, or if a single row does
        not fit.
        """
        if geometry.groups > 1 or geometry.positions < MIN_PLANE_POSITIONS:
            return None
        if isinstance(op, Conv2dOp):
            images, height, width, channels = shape_of(op.input)
            _, rows, columns, _ = shape_of(op.result)
            kernel, stride = shape_of(op.weights)[1:3], op.strides.get_values()
            dilation, padding = op.dilations.get_values(), op.padding.get_values()
        else:
            # A matrix product is a map of a single row.
            images, height, rows = 1, 1, 1
            width, channels = shape_of(op.input)
            columns, kernel, stride, dilation, padding = width, (1, 1), (1, 1), (1, 1), (0, 0)
        planes = cls(
            images, height, width, channels, rows, columns, (kernel[0], kernel[1]),
            (stride[0], stride[1]), (dilation[0], dilation[1]), padding[0], padding[1], rows,
        )  # fmt: skip
        while planes.elements * item > max_bytes and planes.strip > 1:
            planes = replace(planes, strip=-(-planes.strip // 2))
        return planes if planes.elements * item <= max_bytes else None

    def clustered(self, weights: NDArray[np.generic]) -> "Planes":
        """
        Return the layout with channels permuted so that channels with nonzero weights at the same
        taps are adjacent. The layout is unchanged if weights are not int8, channels are not a
        multiple of 64, the horizontal stride is not 1, or rows are short.
        """
        inside = min(self.columns + self._reach(1) - self.left, self.width)
        if weights.dtype != np.int8 or self.channels % CHUNK_CHANNELS or self.stride[1] != 1:
            return self
        if inside < AT_ONCE:
            return self
        nonzero = np.not_equal(weights, 0).reshape(-1, self.channels)
        return replace(self, order=tuple(clustered(nonzero).tolist()))

    @property
    def phases(self) -> list[tuple[int, int]]:
        """
        The first input row and column of each plane of a channel, both less than the stride. With
        stride 1 there is a single plane, (0, 0).
        """
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
        """
        The number of padding columns that two adjacent rows of a plane share: the columns after a
        row are the columns before the next.
        """
        if not self.shares_border or self.stride[1] != 1:
            return 0
        after = self.columns + self._reach(1) - self.left - self.width
        return max(min(self.left, after), 0)

    @property
    def plane_columns(self) -> int:
        return self.columns + self._reach(1) - self.shared

    @property
    def pitch(self) -> int:
        """The distance between the starts of two planes, in elements."""
        return self.plane_rows * self.plane_columns + self.shared + PLANE_SLACK

    @property
    def count(self) -> int:
        return -(-len(self.phases) * self.channels // 4) * 4

    @property
    def elements(self) -> int:
        return self.count * self.pitch

    @property
    def positions(self) -> int:
        """The number of output positions of a strip, including unused positions between rows."""
        return (self.strip - 1) * self.plane_columns + self.columns

    def taps(self) -> list[tuple[int, int]]:
        """
        Return, for each element of the window, the index of its plane for channel 0, and the offset
        of the element in the plane.
        """
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
        """
        Return, for each product of a filter, the index of the plane of the input element, and the
        offset of the element in the plane.
        """
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
        Print the code that copies the input `x` to the C array `planes`, for the output rows from
        `first` on. `types` are the C types of input and planes, `unit` is the number of adjacent
        planes that are interleaved (1 or 4), and `border` is the padding value. `order` is the C
        array of `shuffles`, or "" if channels are not permuted.
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


# Cores that multiply 32 bits to 64 store two positions in a word: an input in the low 23 bits, and
# the input of another position 23 bits higher. Sums of products with bytes remain separate if they
# fit in 23 bits. Rows of the upper half of a strip are paired with rows of the lower half; in a map
# of a single row, columns are paired. Halves of an odd number overlap.


FIELD = 23
"""The maximum width of a sum in bits: with 24 bits, two inputs of -128 would not fit a word."""

REGISTER_COLUMNS = 4
"""The number of words with sums that remain in registers."""


@dataclass(frozen=True)
class PairedPlanes:
    """
    A layout of the input of a sparse layer in planes (a plane is a channel). A 32-bit word has the
    elements of two output positions, so that an instruction multiplies both by a weight.
    """

    all_positions: Planes
    """All positions of the strip."""
    near: Planes
    """The first position of each pair: half of the rows, or of the columns."""

    @classmethod
    def of(cls, planes: Planes, max_bytes: int) -> "PairedPlanes | None":
        """
        Return the layout with the longest strip that fits `max_bytes` bytes, or `None` if there are
        too few columns or no strip fits.
        """
        columns = planes.columns if planes.rows > 1 else -(-planes.columns // 2)
        if columns < REGISTER_COLUMNS:
            return None
        strips = 1
        while True:
            rows = -(-planes.rows // strips)
            near = replace(planes, strip=-(-rows // 2), columns=columns, shares_border=False)
            found = cls(replace(planes, strip=rows), near)
            if found.nbytes <= max_bytes:
                return found
            if rows <= 2:
                return None
            strips = -(-planes.rows // (rows - 1))

    @property
    def strips(self) -> int:
        """
        The number of strips of output rows in an image. The last strip starts earlier, so that it
        is complete.
        """
        return -(-self.all_positions.rows // self.all_positions.strip)

    @property
    def pitch(self) -> int:
        """The distance in words between two rows; a row contains that row of all planes."""
        near = self.near
        return len(near.phases) * near.channels * near.plane_columns

    @property
    def words(self) -> int:
        return self.near.plane_rows * self.pitch

    @property
    def positions(self) -> int:
        return self.all_positions.strip * self.all_positions.columns

    @property
    def nbytes(self) -> int:
        return 4 * (self.words + self.positions)

    @property
    def distance(self) -> tuple[int, int]:
        """The distance in output rows and columns between the two positions of a word."""
        near, all_positions = self.near, self.all_positions
        return all_positions.strip - near.strip, all_positions.columns - near.columns

    def taps(self) -> list[int]:
        """
        Return, for each element of the window, the index of its word in the array of all words, for
        channel 0.
        """
        wide = self.near.plane_columns
        return [
            offset // wide * self.pitch + plane * wide + offset % wide
            for plane, offset in self.near.taps()
        ]

    def fill(self, layer: Layer, x: str, border: str) -> None:
        """
        Print the code that copies the rows of the input `x` to words. The C array `border` has the
        padding value of each channel.
        """
        near, (rows, columns) = self.near, self.distance
        function = layer.kernels.use(
            "pair_planes",
            NAME=str(layer.index),
            ROWS=str(near.plane_rows),
            COLUMNS=str(near.plane_columns),
            PITCH=str(self.pitch),
            DOWN=str(near.stride[0]),
            ALONG=str(near.stride[1]),
            FAR_ROWS=str(rows * near.stride[0]),
            FAR_COLUMNS=str(columns * near.stride[1]),
            HEIGHT=str(near.height),
            WIDTH=str(near.width),
            CHANNELS=str(near.channels),
        )
        for n, (row, column) in enumerate(near.phases):
            to = f"planes + {n * near.channels * near.plane_columns}" if n else "planes"
            layer.line(
                f"{function}({to}, {x}, first * {near.stride[0]} + {row - near.top}, "
                f"{column - near.left}, {border});",
                1,
            )
