"""
The loops around a register tile, shared by integer and float layers: strips of rows, panels of
outputs, tiles of positions. A matrix product is a map of one column whose rows are contiguous.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.constants import block_diagonal
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.register_tiles import (
    LANES,
    Stores,
    Tile,
    Walk,
    choose_tile,
    step_cycles,
    strip_length,
)
from ceras_ir.backends.c.sums import Geometry
from ceras_ir.dialects.graph import Conv2dOp, LinearOperation, shape_of

DIRECT_STRIP = 24 * 1024
"""Bytes of rows that are contiguous in the input: few enough for the first-level cache."""

SHORT_STRIP = 8 * 1024
"""
The same of a strip that is copied, where all weights are no more bytes: input and result pass
through the cache beside both. More weights would come from the second-level cache for every strip.
"""

FLOAT_BYTES = 4
"""Bytes of an element of a strip that is a float."""

SLACK = 64
"""Elements behind a strip that the last step of a row may read; their weights are zero."""


LEAST_SHARED = 1 << 20
"""Products of a layer that are worth more than one thread."""


@dataclass(frozen=True)
class Nest:
    """One layer as strips of tiles over images [height, width, channels]."""

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
    """Output rows at a time."""
    in_place: bool = False
    """Windows lie in the input itself, which no border is put around."""
    groups: int = 1
    """Of `outputs` each, which have neighbouring channels of the input for themselves."""
    together: int = 1
    """How many groups of the convolution one is."""

    @classmethod
    def of(
        cls,
        op: LinearOperation,
        geometry: Geometry,
        item: int,
        most: int,
        *,
        in_place: bool = False,
        rank: int = 0,
    ) -> "Nest":
        """
        `item` bytes per element of a strip, of at most `most` bytes. With `in_place` an input
        without padding is read where it lies. `rank` is the tile's. Groups that do not fill a
        vector are one together.
        """
        groups = geometry.groups
        few = range(1, min(groups, LANES // geometry.n) + 1)
        together = max((count for count in few if groups % count == 0), default=1)
        geometry = geometry.together(together)
        outputs, steps = geometry.n, 0 if item == FLOAT_BYTES else -(-geometry.k * item // 4)
        if geometry.direct:
            rows = geometry.positions
            tile = choose_tile(rows, 1, outputs, steps, rank)
            is_short = not in_place and item * geometry.k * outputs <= SHORT_STRIP
            share = SHORT_STRIP if is_short else DIRECT_STRIP
            strip = strip_length(rows, tile.rows, share // (item * geometry.k))
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
        tile = choose_tile(rows, columns, outputs, steps, rank)
        nest = cls(
            images, height, width, channels, rows, columns, outputs, (kernel[0], kernel[1]),
            (stride[0], stride[1]), (dilations[0], dilations[1]), top, left, tile, rows,
            in_place and not any(op.padding.get_values()), geometry.groups, together,
        )  # fmt: skip
        room = most // (item * nest.padded_width * channels)
        whole = strip_length(rows, tile.rows, (room - nest.extent) // stride[0] + 1)
        return nest.with_strip(max(whole, tile.rows))

    def with_strip(self, strip: int) -> "Nest":
        return replace(self, strip=strip)

    @property
    def is_product(self) -> bool:
        """Whether positions are as far apart as input rows: of a matrix product, or like those."""
        return (self.columns, self.width, self.kernel, self.stride, self.rows) == (
            1, 1, (1, 1), (1, 1), self.height,
        )  # fmt: skip

    @property
    def cycles(self) -> float:
        """Of the products of float tiles, one in a step."""
        steps = self.images * self.groups * self.runs * self.taps
        return steps * step_cycles(self.tile, self.rows, self.columns, self.outputs)

    @property
    def extent(self) -> int:
        """Input rows of one window."""
        return (self.kernel[0] - 1) * self.dilation[0] + 1

    @property
    def padded_width(self) -> int:
        """Input columns that windows touch."""
        return (self.columns - 1) * self.stride[1] + (self.kernel[1] - 1) * self.dilation[1] + 1

    @property
    def strip_rows(self) -> int:
        """Input rows of a strip."""
        return (self.strip - 1) * self.stride[0] + self.extent

    @property
    def has_rest(self) -> bool:
        """Whether the last strip is shorter than the others."""
        return self.rows % self.strip != 0

    @property
    def filled_rows(self) -> str:
        """Input rows of this strip, an expression in `count` if the last is shorter."""
        if not self.has_rest:
            return str(self.strip_rows)
        scaled = "(count - 1)" if self.stride[0] == 1 else f"(count - 1) * {self.stride[0]}"
        return f"{scaled} + {self.extent}"

    @property
    def strip_elements(self) -> int:
        return self.strip_rows * self.pitch

    @property
    def pitch(self) -> int:
        """Elements of one row of a strip."""
        return (self.width if self.in_place else self.padded_width) * self.channels

    @property
    def first_row(self) -> str:
        """The input row of a strip's first, an expression in `first`."""
        scaled = "first" if self.stride[0] == 1 else f"first * {self.stride[0]}"
        return f"{scaled} - {self.top}" if self.top else scaled

    @property
    def taken(self) -> int:
        """Input channels of a group."""
        return self.channels // self.groups

    @property
    def is_apart(self) -> bool:
        """Whether the columns of a window are not side by side."""
        return self.kernel[1] > 1 and (self.groups > 1 or self.dilation[1] > 1)

    @property
    def runs(self) -> int:
        """Contiguous parts of a window: its rows, or taps."""
        return self.kernel[0] * (self.kernel[1] if self.is_apart else 1)

    @property
    def taps(self) -> int:
        """Elements of one run of a window."""
        return self.taken if self.is_apart else self.kernel[1] * self.taken

    @property
    def ends_in_half(self) -> bool:
        """Whether the only panel has outputs for half of its last vector at most."""
        return self.outputs <= self.tile.width - LANES // 2

    def walk(self, step: int) -> Walk:
        """What a tile reads, `step` elements at a time."""
        steps = -(-self.taps // step)
        rows, pitch, pieces, piece = self.kernel[0], self.dilation[0] * self.pitch, 1, 0
        if self.is_apart:
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
        """Of all groups."""
        return self.groups * self.outputs

    @property
    def group_width(self) -> int:
        """Outputs of whole panels of a group."""
        return -(-self.outputs // self.tile.width) * self.tile.width

    @property
    def padded_outputs(self) -> int:
        """All outputs, up to the end of the last panel."""
        return self.all_outputs - self.outputs + self.group_width

    def panel_shape(self, step: int) -> tuple[int, ...]:
        """Of the packed weights: [panels, runs of a window, steps, outputs, elements of a step]."""
        panels = self.groups * self.group_width // self.tile.width
        return panels, self.runs, -(-self.taps // step), self.tile.width, step

    def split(self, weights: NDArray[np.generic]) -> NDArray[np.generic]:
        """Weights [all outputs, k] as [groups, outputs of whole panels, runs, taps]."""
        taps = weights.reshape(len(weights), *self.kernel, self.taken // self.together)
        wide = block_diagonal(taps, self.groups * self.together, self.together)
        whole = np.zeros((self.groups, self.group_width, self.runs, self.taps), weights.dtype)
        whole[:, : self.outputs] = wide.reshape(self.groups, self.outputs, self.runs, self.taps)
        return whole

    def input_at(self) -> str:
        """Where a tile starts in its strip: an expression in `r`, `c` and `g`."""
        terms = [f"r * {self.stride[0] * self.pitch}"]
        if self.columns > 1:
            terms.append(f"c * {self.stride[1] * self.channels}")
        if self.groups > 1:
            terms.append(f"g * {self.taken}")
        return " + ".join(terms)

    def place_of(self, pointer: str) -> str:
        """Where a tile starts in an input that is read in place."""
        rows = self.stride[0] * self.pitch
        return f"{self.image_at(pointer)} + first * {rows} + {self.input_at()}"

    def output_at(self) -> str:
        """Where its first position is in the result: in `image`, `first`, `r` and `c`."""
        row = "first + r"
        if self.images > 1:
            row = f"image * {self.rows} + {row}"
        if self.columns == 1:
            return f"({row}) * {self.all_outputs}"
        return f"(({row}) * {self.columns} + c) * {self.all_outputs}"

    def first_output(self, index: str = "") -> str:
        """Output `index` of the group `g` among all."""
        terms = [f"g * {self.outputs}"] if self.groups > 1 else []
        return " + ".join([*terms, *([index] if index else [])]) or "0"

    def panel_at(self, weights: str, step: int, output: str = "b") -> str:
        """Where the weights of the panel that begins with an output of the group begin."""
        size = prod(self.panel_shape(step)[1:]) // self.tile.width
        group = f" + g * {self.group_width * size}" if self.groups > 1 else ""
        return f"{weights}{group} + {output} * {size}"

    def image_at(self, pointer: str) -> str:
        """The input's image."""
        size = prod((self.height, self.width, self.channels))
        return f"{pointer} + image * {size}" if self.images > 1 else pointer

    def print(self, layer: Layer, fill: list[str], body: Callable[[], list[str]]) -> None:
        """Loops with `fill` once per strip and `body` once per tile, given `g`, `b`, `r`, `c`."""
        lines: list[tuple[int, str]] = []
        closing: list[int] = []

        def enter(index: str, total: int, step: int, end: str = "") -> None:
            """A loop; the last step starts earlier, if it would pass the end otherwise."""
            depth = len(closing)
            if total <= step:
                lines.append((depth, f"const int32_t {index} = 0;"))
                return
            counter = index if total % step == 0 or index in ("b", "first") else "i"
            lines.append(
                (
                    depth,
                    f"for (int32_t {counter} = 0; {counter} < {end or total}; "
                    f"{counter} += {step}) {{",
                )
            )
            if counter == "i":
                last = f"{end} - {step}" if end else total - step
                lines.append((depth + 1, f"const int32_t {index} = i < {last} ? i : {last};"))
            closing.append(depth)

        t = self.tile
        shape = f"{t.rows} x {t.columns}" if self.columns > 1 else str(t.rows)
        what = "rows" if self.columns > 1 else "positions"
        layer.line(
            f"/* Strips of {self.strip} {what}, panels of {t.width} outputs, tiles of {shape} "
            "positions. */"
        )
        if self.images > 1:
            enter("image", self.images, 1)
        enter("first", self.rows, self.strip)
        if self.has_rest:
            rest = f"{self.rows} - first"
            count = f"const int32_t count = {rest} < {self.strip} ? {rest} : {self.strip};"
            lines.append((len(closing), count))
        lines += [(len(closing), text) for text in fill]
        # The loops over panels and rows of tiles, or over columns where there is one of each.
        shared = len(lines), len(closing)
        if self.groups > 1:
            enter("g", self.groups, 1)
        enter("b", self.outputs, self.tile.width)
        if self.has_rest:
            # Of which the last strip has at least one.
            enter("r", self.rows, self.tile.rows, "count")
        else:
            enter("r", self.strip, self.tile.rows)
        depth = len(closing) - shared[1] if self.groups == 1 else 1
        if self.columns > 1:
            enter("c", self.columns, self.tile.columns)
        if isinstance(layer.op, LinearOperation) and layer.op.macs >= LEAST_SHARED:
            at = next((i for i in range(shared[0], len(lines)) if "for (" in lines[i][1]), None)
            if at is not None:
                lines.insert(at, (lines[at][0], f"MODEL_THREADS({max(depth, 1)})"))
        lines += [(len(closing), text) for text in body()]
        lines += [(depth, "}") for depth in reversed(closing)]
        for depth, text in lines:
            layer.line(text, depth)
