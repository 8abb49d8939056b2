"""
The input of a sparse layer on cores that multiply 32 bits into 64: two positions in a word.

A word holds an input in its low 23 bits and, 23 bits up, the input of a position further on. Sums
of products with bytes stay apart as long as they keep within 23 bits. Positions go together by
rows, the upper half of a strip with the lower, or, in a map of one row, by columns; halves of an
odd number overlap.
"""

from dataclasses import dataclass, replace

from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.planes import Planes

FIELD = 23
"""Bits that a sum has to keep within: with one more, two inputs of -128 would not fit a word."""

COLUMNS = 4
"""Words whose sums registers hold."""


@dataclass(frozen=True)
class PairedPlanes:
    """Words for a strip of output rows."""

    whole: Planes
    """Of all positions of the strip."""
    near: Planes
    """Of the first position of each pair: half of the rows, or of the columns."""

    @classmethod
    def of(cls, planes: Planes, most: int) -> "PairedPlanes | None":
        """Pairs in at most `most` bytes; None where there is no room, or there are few columns."""
        columns = planes.columns if planes.rows > 1 else -(-planes.columns // 2)
        if columns < COLUMNS:
            return None
        strips = 1
        while True:
            rows = -(-planes.rows // strips)
            near = replace(planes, strip=-(-rows // 2), columns=columns, shares=False)
            found = cls(replace(planes, strip=rows), near)
            if found.nbytes <= most:
                return found
            if rows <= 2:
                return None
            strips = -(-planes.rows // (rows - 1))

    @property
    def strips(self) -> int:
        """Of an image; the last begins early where rows do not divide evenly."""
        return -(-self.whole.rows // self.whole.strip)

    @property
    def pitch(self) -> int:
        """Words from one row of all planes to the next."""
        near = self.near
        return len(near.phases) * near.channels * near.plane_columns

    @property
    def words(self) -> int:
        return self.near.plane_rows * self.pitch

    @property
    def positions(self) -> int:
        """Outputs of a filter in a strip."""
        return self.whole.strip * self.whole.columns

    @property
    def nbytes(self) -> int:
        """Of words, and of the sums of one filter."""
        return 4 * (self.words + self.positions)

    @property
    def distance(self) -> tuple[int, int]:
        """Output rows and columns from the first position of a pair to the second."""
        near, whole = self.near, self.whole
        return whole.strip - near.strip, whole.columns - near.columns

    def taps(self) -> list[int]:
        """For each element of the window, the word of its first channel."""
        wide = self.near.plane_columns
        return [
            offset // wide * self.pitch + plane * wide + offset % wide
            for plane, offset in self.near.taps()
        ]

    def fill(self, layer: Layer, x: str, border: str) -> None:
        """Print what lays the rows from `first` on into words; `border` has a value a channel."""
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
