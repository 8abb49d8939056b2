"""
Choose the loops around a register tile: strips of rows, panels of outputs, tiles of positions.

Integer and float layers share the loops. A matrix product is a map of a single column with
contiguous rows.
"""

from dataclasses import dataclass, replace
from functools import partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.constants import block_diagonal
from ceras_ir.backends.c.neon_floats import tile_cost
from ceras_ir.backends.c.register_tiles import (
    LANES_PER_VECTOR,
    Stores,
    Tile,
    Walk,
    choose_tile,
    common_tile,
    integer_cycles,
    step_cycles,
    strip_length,
)
from ceras_ir.backends.c.sums import Geometry
from ceras_ir.backends.c.tile_functions import CACHE_LINE, MIN_FETCHED_BYTES
from ceras_ir.dialects.graph import ConstantOp, Conv2dOp, LinearOperation, shape_of

DIRECT_STRIP = 24 * 1024
"""
The bytes of a strip of rows that are contiguous in the input: few enough for the first-level cache.
"""

SHORT_STRIP = 8 * 1024
"""
Bytes of a copied strip if the weights are not larger. More weights would be loaded from the
second-level cache for each strip.
"""

FLOAT_BYTES = 4

SLACK = 64
"""Elements after a strip that the last step of a row may load; their weights are zero."""


MAX_LONG_POSITIONS = 72
"""The maximum positions of a tile for 64-bit Arm, whose sums fit the first-level cache."""

PACKING_COST = 3
"""The relative cost to pack the weights of a tile, of which a position costs 1."""

NEAR_BYTES = 1 << 20
"""Bytes that remain in the second-level cache if they are read repeatedly."""

FAR_FACTOR = 4
"""The relative time to read data from beyond the second-level cache."""


def _is_panel_first(rows: int, outputs: int, row_bytes: int, tile: Tile, strip: int) -> bool:
    """
    Return whether a matrix product that reads `rows` of `row_bytes` bytes in place should compute
    all rows for a panel of weights before the next panel, instead of all panels for a strip of
    rows. Strips read the weights repeatedly, panels the rows.
    """
    panels, strips = -(-outputs // tile.width), -(-rows // strip)
    if panels == 1:
        # Threads share more tiles.
        return True

    def again(nbytes: int, times: int) -> int:
        return nbytes * (times - 1) * (FAR_FACTOR if nbytes > NEAR_BYTES else 1)

    return again(rows * row_bytes, panels) < again(panels * tile.width * row_bytes, strips)


@dataclass(frozen=True)
class Nest:
    """
    The loops of a convolution or matrix product around a register tile: strips of output rows,
    groups, panels of outputs, then tiles of positions. Images are [height, width, channels]; a
    matrix product is an image with a single column.
    """

    images: int
    height: int
    width: int
    channels: int
    rows: int
    columns: int
    outputs: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    top: int
    left: int
    tile: Tile
    strip: int
    in_place: bool = False
    """Whether windows are loaded from the input, without a copy with border."""
    groups: int = 1
    """Groups of `outputs` each, which use adjacent channels of the input."""
    merged_groups: int = 1
    """The number of groups of the convolution that are merged."""

    @classmethod
    def of(
        cls,
        op: LinearOperation,
        geometry: Geometry,
        item: int,
        max_bytes: int,
        *,
        in_place: bool = False,
        rank: int = 0,
        common: bool = False,
    ) -> "Nest":
        """
        Return the loops of a layer with strips of input of at most `max_bytes` bytes, with `item`
        bytes per element. The minimum is a tile.

        With `in_place`, windows are loaded from an input without padding, which avoids a copy.
        Groups of a convolution that do not fill a vector are merged. `rank` 0 selects the best
        register tile by the cost model, 1 the second best, and so on. With `common`, the tile is
        the same for different numbers of positions.
        """
        groups = geometry.groups
        few = range(1, min(groups, LANES_PER_VECTOR // geometry.n) + 1)
        merged = max((count for count in few if groups % count == 0), default=1)
        geometry = geometry.with_merged_groups(merged)
        outputs, steps = geometry.n, 0 if item == FLOAT_BYTES else -(-geometry.k * item // 4)
        is_computed = not isinstance(op.weights.owner, ConstantOp)
        choose = partial(common_tile, is_computed=is_computed) if common else choose_tile
        if geometry.is_direct:
            rows = geometry.positions
            tile = choose(rows, 1, outputs, steps, rank)
            is_short = not in_place and item * geometry.k * outputs <= SHORT_STRIP
            share = SHORT_STRIP if is_short else DIRECT_STRIP
            strip = strip_length(rows, tile.rows, share // (item * geometry.k))
            if in_place and _is_panel_first(rows, outputs, item * geometry.k, tile, strip):
                strip = rows
            return cls(
                1, rows, 1, geometry.k, rows, 1, outputs,
                (1, 1), (1, 1), (1, 1), 0, 0, tile, max(strip, tile.rows), in_place,
            )  # fmt: skip
        assert isinstance(op, Conv2dOp)
        dilations = op.dilations.get_values()
        images, height, width, channels = shape_of(op.input)
        _, rows, columns, _ = shape_of(op.result)
        kernel, stride = shape_of(op.weights)[1:3], op.strides.get_values()
        top, left = op.padding.get_values()[:2]
        tile = choose(rows, columns, outputs, steps, rank)
        nest = cls(
            images, height, width, channels, rows, columns, outputs, (kernel[0], kernel[1]),
            (stride[0], stride[1]), (dilations[0], dilations[1]), top, left, tile, rows,
            in_place and not any(op.padding.get_values()), geometry.groups, merged,
        )  # fmt: skip
        room = max_bytes // (item * nest.padded_width * channels)
        length = strip_length(rows, tile.rows, (room - nest.extent) // stride[0] + 1)
        return nest.with_strip(max(length, tile.rows))

    def with_strip(self, strip: int) -> "Nest":
        return replace(self, strip=strip)

    def with_long_tiles(self) -> "Nest":
        """
        Return the loops with tiles of more positions, if these need fewer instructions in kernels
        that compute pairs of positions, up to three at a time.
        """
        t = self.tile

        def cost(count: int, total: int) -> int:
            pairs = -(-count // 2)
            return -(-total // count) * (2 * pairs + -(-pairs // 3) + PACKING_COST)

        if self.columns == 1:
            most = min(self.max_tile_rows, MAX_LONG_POSITIONS)
            rows = min(range(t.rows, max(most, t.rows) + 1), key=lambda n: cost(n, self.strip))
            return replace(self, tile=replace(t, rows=rows))
        most = min(self.columns, MAX_LONG_POSITIONS)
        counts = range(t.columns, max(most, t.columns) + 1)
        columns = min(counts, key=lambda n: cost(n, self.columns))
        rows = t.rows
        if columns == self.columns:
            stacked = range(t.rows, max(self.max_tile_rows, t.rows) + 1)
            fits = [n for n in stacked if n * columns <= MAX_LONG_POSITIONS or n == t.rows]
            rows = min(fits, key=lambda n: (-(-self.strip // n) * n, -n))
        return replace(self, tile=replace(t, columns=columns, rows=rows))

    def with_arm_tiles(self) -> "Nest":
        """
        Return the loops with tiles of more positions for float kernels of 64-bit Arm, which compute
        a few positions in each pass.
        """
        t, total = self.tile, self.rows if self.columns == 1 else self.columns
        most = self.max_tile_rows if self.columns == 1 else self.columns
        counts = range(1, min(most, MAX_LONG_POSITIONS) + 1)
        count = min(counts, key=lambda n: (-(-total // n) * tile_cost(n), -n))
        if self.columns > 1:
            rows = t.rows if count == self.columns else 1
            return replace(self, tile=replace(t, columns=count, rows=rows))
        strip = self.strip
        if self.in_place and strip < self.rows:
            strip = strip // count * count
        return replace(self, tile=replace(t, rows=count), strip=strip)

    @property
    def is_product(self) -> bool:
        """Whether each output row depends on a single input row, as in a matrix product."""
        return (self.columns, self.width, self.kernel, self.stride, self.rows) == (
            1, 1, (1, 1), (1, 1), self.height,
        )  # fmt: skip

    @property
    def cycles(self) -> float:
        steps = self.images * self.groups * self.runs * self.taps
        return steps * step_cycles(self.tile, self.rows, self.columns, self.outputs)

    def integer_cycles(self, step: int) -> float:
        """
        Return the modelled cycles of an integer layer in register tiles with `step` products per
        lane.
        """
        steps = self.runs * -(-self.taps // step)
        each = integer_cycles(self.tile, self.rows, self.columns, self.outputs, steps)
        return self.images * self.groups * each

    @property
    def extent(self) -> int:
        """The number of input rows that a window spans."""
        return (self.kernel[0] - 1) * self.dilation[0] + 1

    @property
    def padded_width(self) -> int:
        """The number of input columns, padding included, that all windows of an output row span."""
        return (self.columns - 1) * self.stride[1] + (self.kernel[1] - 1) * self.dilation[1] + 1

    @property
    def strip_rows(self) -> int:
        """The number of input rows that the output rows of a strip read."""
        return (self.strip - 1) * self.stride[0] + self.extent

    @property
    def max_tile_rows(self) -> int:
        """
        The maximum rows of a tile: those of the shortest strip if the input is copied, because the
        last tile would otherwise begin before the copy.
        """
        return self.strip if self.in_place else (self.rows - 1) % self.strip + 1

    @property
    def has_remainder(self) -> bool:
        return self.rows % self.strip != 0

    def input_rows(self, count: str) -> str:
        """
        Return the number of input rows that `count` output rows read: a number, or a C expression.
        """
        if count.isdecimal():
            return str((int(count) - 1) * self.stride[0] + self.extent)
        scaled = f"({count} - 1)" if self.stride[0] == 1 else f"({count} - 1) * {self.stride[0]}"
        return f"{scaled} + {self.extent}"

    @property
    def strip_elements(self) -> int:
        return self.strip_rows * self.pitch

    @property
    def pitch(self) -> int:
        """
        The number of elements between two input rows: in the strip, or in the input if it is used
        in place.
        """
        return (self.width if self.in_place else self.padded_width) * self.channels

    @property
    def group_channels(self) -> int:
        return self.channels // self.groups

    @property
    def has_gaps(self) -> bool:
        """Whether the columns of a window are separate in memory, because of groups or dilation."""
        return self.kernel[1] > 1 and (self.groups > 1 or self.dilation[1] > 1)

    @property
    def runs(self) -> int:
        """
        The number of contiguous parts (runs) of a window: its rows, or its taps if columns are
        separate in memory.
        """
        return self.kernel[0] * (self.kernel[1] if self.has_gaps else 1)

    @property
    def taps(self) -> int:
        """The number of elements in a contiguous run of a window."""
        return self.group_channels if self.has_gaps else self.kernel[1] * self.group_channels

    @property
    def ends_in_half(self) -> bool:
        """Whether a panel contains all outputs, and at most half of its last vector is used."""
        return self.outputs <= self.tile.width - LANES_PER_VECTOR // 2

    def walk(self, step: int) -> Walk:
        steps = -(-self.taps // step)
        rows, pitch, pieces, piece = self.kernel[0], self.dilation[0] * self.pitch, 1, 0
        if self.has_gaps:
            pieces, piece = self.kernel[1], self.dilation[1] * self.channels
        if rows == 1 and pieces > 1:
            rows, pitch, pieces, piece = pieces, piece, 1, 0
        return Walk(
            self.tile, rows, steps, pitch, self.stride[0] * self.pitch,
            self.stride[1] * self.channels, pieces=pieces, piece=piece,
        )  # fmt: skip

    def stores(self, has_residual: bool) -> Stores:
        return Stores(
            self.columns * self.all_outputs, self.all_outputs, has_residual,
            bool(self.outputs % self.tile.width),
        )  # fmt: skip

    @property
    def all_outputs(self) -> int:
        return self.groups * self.outputs

    @property
    def group_width(self) -> int:
        """The number of outputs of a group, padded to complete panels."""
        return -(-self.outputs // self.tile.width) * self.tile.width

    @property
    def panels(self) -> int:
        """The panels of all groups."""
        return self.groups * self.group_width // self.tile.width

    @property
    def padded_outputs(self) -> int:
        """The number of outputs of all groups, padded to a complete last panel."""
        return self.all_outputs - self.outputs + self.group_width

    def panel_shape(self, step: int) -> tuple[int, ...]:
        """
        Return the shape of packed weights: [panels, runs of a window, steps of a run, outputs of a
        panel, `step`]. A run is a contiguous part of a window; an instruction multiplies `step`
        elements of it.
        """
        return self.panels, self.runs, -(-self.taps // step), self.tile.width, step

    def split(self, weights: NDArray[np.generic]) -> NDArray[np.generic]:
        """
        Split weights [all outputs, k] into [groups, padded outputs, runs of a window, elements of a
        run]. A run is a contiguous part of a window; padding is zeros.
        """
        taps = weights.reshape(
            len(weights), *self.kernel, self.group_channels // self.merged_groups
        )
        wide = block_diagonal(taps, self.groups * self.merged_groups, self.merged_groups)
        padded = np.zeros((self.groups, self.group_width, self.runs, self.taps), weights.dtype)
        padded[:, : self.outputs] = wide.reshape(self.groups, self.outputs, self.runs, self.taps)
        return padded

    def input_at(self) -> str:
        """
        Return the C expression of the offset of the input of a tile in the strip, from the C
        variables row `r`, column `c` and group `g`.
        """
        terms = [f"r * {self.stride[0] * self.pitch}"]
        if self.columns > 1:
            terms.append(f"c * {self.stride[1] * self.channels}")
        if self.groups > 1:
            terms.append(f"g * {self.group_channels}")
        return " + ".join(terms)

    def place_of(self, pointer: str) -> str:
        """
        Return the C expression of the address of the input of a tile, for an input `pointer` that
        is used in place.
        """
        rows = self.stride[0] * self.pitch
        return f"{self.image_at(pointer)} + first * {rows} + {self.input_at()}"

    def output_at(self) -> str:
        """
        Return the C expression of the offset in the result of the first output position of a tile.
        """
        row = "first + r"
        if self.images > 1:
            row = f"image * {self.rows} + {row}"
        if self.columns == 1:
            return f"({row}) * {self.all_outputs}"
        return f"(({row}) * {self.columns} + c) * {self.all_outputs}"

    def first_output(self, index: str = "") -> str:
        """
        Return the C expression of the number, among the outputs of all groups, of output `index` of
        group `g`. The default "" is the first output.
        """
        terms = [f"g * {self.outputs}"] if self.groups > 1 else []
        return " + ".join([*terms, *([index] if index else [])]) or "0"

    def panel_at(self, weights: str, step: int, output: str = "b") -> str:
        """
        Return the C expression of the address of the packed weights of the panel that begins with
        `output` of group `g`. `step` is the number of elements that an instruction multiplies.
        """
        size = prod(self.panel_shape(step)[1:]) // self.tile.width
        group = f" + g * {self.group_width * size}" if self.groups > 1 else ""
        return f"{weights}{group} + {output} * {size}"

    @property
    def panel_bytes(self) -> int:
        """The bytes of a panel of float weights."""
        return FLOAT_BYTES * prod(self.panel_shape(1)[1:])

    @property
    def fetches_next(self) -> bool:
        """
        Whether the tiles of a panel together prefetch the next panel of float weights, a cache line
        per step or less. Otherwise each tile prefetches the weights of its next steps.
        """
        t, walk = self.tile, self.walk(1)
        tiles = (self.strip // t.rows) * (self.columns // t.columns)
        fetched = tiles * walk.all_steps * CACHE_LINE
        return MIN_FETCHED_BYTES <= self.panel_bytes <= fetched

    def next_part(self, weights: str) -> str:
        """
        Return the C arguments of a tile that prefetches its part of the panel after the current
        one: the address of the part, and the distance between prefetches in bytes.
        """
        t = self.tile
        each = -(-self.panel_bytes // (self.strip * self.columns))
        place = f"r * {self.columns * each}" + (f" + c * {each}" if self.columns > 1 else "")
        start = f"(uintptr_t)({self.panel_at(weights, 1)}) + {self.panel_bytes}U"
        ahead = -(-each * t.positions // self.walk(1).all_steps)
        return f"{start} + (uintptr_t)({place}), {ahead}"

    def image_at(self, pointer: str) -> str:
        size = prod((self.height, self.width, self.channels))
        return f"{pointer} + image * {size}" if self.images > 1 else pointer
