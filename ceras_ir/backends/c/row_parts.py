"""
Divide a padded convolution along one axis into parts of output rows that read the input in place.

All rows of a part have the same taps inside of the input. The other taps multiply padding and are
omitted, so that no copy of the input with padding is needed. A causal convolution of 3 taps at a
distance of 128 on 256 rows needs half of the products.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from ceras_ir.backends.c.register_tiles import VECTOR_REGISTERS, Tile, Walk, step_cycles
from ceras_ir.backends.c.tile_nest import Nest

MAX_PARTS = 5
"""The maximum number of parts: each has a function for its tiles."""


@dataclass(frozen=True)
class RowPart:
    """Output rows of a layer with the same taps inside of the input."""

    nest: Nest
    """The loops over the rows of the part, which read the input in place."""
    walk: Walk
    first_row: int
    """The first output row of the part."""
    source_row: int
    """The input row of the first tap of this row."""
    first_tap: int
    """The first tap of the windows that is inside of the input."""
    step_outputs: int
    """The number of weights of an output in the complete layer."""

    @classmethod
    def whole(cls, nest: Nest) -> "RowPart":
        """Return the part with all rows of a layer."""
        walk = replace(nest.walk(1), fetches_next=nest.fetches_next)
        return cls(nest, walk, 0, 0, 0, nest.runs * nest.taps)

    @classmethod
    def of(cls, nest: Nest) -> "list[RowPart]":
        """
        Return the parts of a layer, in the order of rows: a single part if the convolution is not
        along one axis, without padding, or if it needs more than `MAX_PARTS`.
        """
        if (axis := _axis(nest)) is None or nest.in_place:
            return [cls.whole(nest)]
        size, count, taps, stride, before, dilation = axis

        def taps_of(row: int) -> tuple[int, ...]:
            start = row * stride - before
            return tuple(t for t in range(taps) if 0 <= start + t * dilation < size)

        groups = [(inside, list(rows)) for inside, rows in groupby(range(count), taps_of)]
        if len(groups) > MAX_PARTS or any(not inside for inside, _ in groups):
            return [cls.whole(nest)]
        return list(cls._parts(nest, axis, groups))

    @classmethod
    def _parts(
        cls, nest: Nest, axis: "Axis", groups: list[tuple[tuple[int, ...], list[int]]]
    ) -> "Iterator[RowPart]":
        size, _, taps, stride, before, dilation = axis
        for inside, rows in groups:
            kernel, first = len(inside), rows[0]
            part = replace(
                nest, height=size, width=1, rows=len(rows), columns=1, kernel=(kernel, 1),
                stride=(stride, 1), dilation=(dilation, 1), top=0, left=0,
                tile=_tile(nest, len(rows)), strip=len(rows), in_place=True,
            )  # fmt: skip
            walk = part.walk(1)
            if dilation == 1:
                walk = replace(walk, runs=1, steps=walk.all_steps)
            walk = replace(walk, fetches_next=kernel == taps and part.fetches_next)
            source = first * stride - before + inside[0] * dilation
            yield cls(part, walk, first, source, inside[0], taps * nest.channels)

    def panel(self, weights: str) -> str:
        """
        Return the C expression of the address of the packed weights of the first tap of the part,
        for the panel that begins with output `b`.
        """
        if not self.first_tap and self.nest.runs * self.nest.taps == self.step_outputs:
            return self.nest.panel_at(weights, 1)
        tap = self.first_tap * self.nest.channels * self.nest.tile.width
        return f"{weights} + b * {self.step_outputs}" + (f" + {tap}" if tap else "")

    def input(self, x: str) -> str:
        """Return the C expression of the first input row of the part."""
        at = self.source_row * self.nest.channels
        return f"{x} + {at}" if at else x

    def result(self, y: str) -> str:
        """Return the C expression of the first output row of the part."""
        at = self.first_row * self.nest.all_outputs
        return f"{y} + {at}" if at else y


Axis = tuple[int, int, int, int, int, int]
"""The inputs, outputs, taps, stride, padding before and dilation along an axis."""


def _axis(nest: Nest) -> Axis | None:
    """Return the axis along which a convolution without groups has more than one row."""
    if nest.images > 1 or nest.groups > 1:
        return None
    if nest.height == nest.rows == nest.kernel[0] == 1:
        i = 1
    elif nest.width == nest.columns == nest.kernel[1] == 1:
        i = 0
    else:
        return None
    sizes, counts, before = (
        (nest.height, nest.width),
        (nest.rows, nest.columns),
        (nest.top, nest.left),
    )
    return sizes[i], counts[i], nest.kernel[i], nest.stride[i], before[i], nest.dilation[i]


def _tile(nest: Nest, rows: int) -> Tile:
    """Return the best tile for a number of rows, as wide as the tile of the layer."""
    blocks = nest.tile.blocks
    most = min(rows, (VECTOR_REGISTERS - 1 - blocks) // blocks)
    tiles = (Tile(high, 1, blocks) for high in range(1, most + 1))
    return min(tiles, key=lambda tile: step_cycles(tile, rows, 1, nest.outputs))
