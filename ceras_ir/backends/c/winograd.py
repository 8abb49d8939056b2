"""
Print float 3x3 convolutions of stride 1 by Winograd's algorithm, if that needs fewer cycles.

F(2x2, 3x3) needs 16 products for four results instead of 36. Vectors of 64-bit Arm and RISC-V use
F(4x4, 3x3) if that needs fewer instructions: 36 products for 16 results instead of 144. Its
rounding errors are about three times as large.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, inf

from ceras_ir.backends.c.float_blocks import Block, memory_elements
from ceras_ir.backends.c.float_tiled import activate, clamp_of, float_halo
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.neon_floats import MAX_POSITIONS, add_sums
from ceras_ir.backends.c.register_tiles import (
    EIGHT_LANES,
    FLOAT_TILES,
    FLOATS,
    LANES_PER_VECTOR,
    Tile,
    Walk,
    whole_tiles,
)
from ceras_ir.backends.c.small_tiles import add_products, small_positions
from ceras_ir.backends.c.tile_functions import products_tile
from ceras_ir.backends.c.tile_loops import is_shared
from ceras_ir.backends.c.tile_nest import Nest
from ceras_ir.dialects.graph import LinearOperation
from ceras_ir.interpreters.float_text import float_literal

# The layer transforms the patches of a strip and the filters of a panel into the workspace, so that
# all kernels share the layout of weights. A matrix product in register tiles for each transformed
# value follows. Results differ from the interpreter only by rounding, a few times as much as sums
# in another order differ. Ordered layers require exact sums and are not transformed.

FLOAT_SLACK = 16
"""
The number of floats between value k and value k + 1, so that they use different sets of the caches.
"""

MAX_BLOCK_CHANNELS, MAX_BLOCK_PATCHES = 128, 28
"""
For vectors of 8 lanes: the channels of which filters are transformed at a time, and the patches of
a tile. Transformed filters then remain in the second-level cache, and sums in the first.
"""

MAX_CYCLE_RATIO = 1.1
"""The relative number of cycles that is accepted for less memory and fewer cache misses."""

PATCH_CYCLES, FILTER_CYCLES, RESULT_CYCLES = 70.0, 100.0, 60.0
"""Cycles to transform a patch, a filter or four results, per 16 channels or outputs."""

LANES_OF_TRANSFORMS = 4
TRANSFORMS = {2: (85, 60, 80), 4: (320, 130, 270)}
"""
Instructions to transform a patch, a filter and the sums of a patch in vectors of 4 lanes, for each
size of patches.
"""

CALL_INSTRUCTIONS = 70
"""Instructions of a call for a tile of a few patches, without products."""

MAX_INSTRUCTION_RATIO = 1.03
"""The relative number of instructions that is accepted for less memory."""

PARTS = (32, 16)
"""The outputs that F(4x4, 3x3) computes at a time, which fill vectors of RISC-V of 256 bits."""

MAX_SUM_FLOATS = 36 * 256
"""The maximum number of sums of a tile of F(4x4, 3x3), for the first-level cache."""


@dataclass(frozen=True)
class Winograd:
    """
    The loops of a 3x3 convolution by Winograd's algorithm: strips, which are rows of patches with
    2x2 or 4x4 results; panels of outputs; and register tiles of patches.
    """

    nest: Nest
    """The loops of the convolution, with the tile of the panels of weights."""
    tile: Tile
    strip: int
    """Rows of patches at a time; the last strip starts earlier if it would pass the end."""
    size: int = 2
    """The rows and columns of results of a patch."""

    @property
    def values(self) -> int:
        """The number of values of a transformed patch or filter."""
        return (self.size + 2) ** 2

    @property
    def across(self) -> int:
        return -(-self.nest.columns // self.size)

    @property
    def down(self) -> int:
        return -(-self.nest.rows // self.size)

    @property
    def patches(self) -> int:
        return self.strip * self.across

    @property
    def width(self) -> int:
        return self.size * self.across + 2

    @property
    def sizes(self) -> tuple[int, int, int]:
        """
        The numbers of floats of three buffers in the workspace: a strip of input rows, and for each
        of the transformed values, all patches of the strip and all filters of a tile.
        """
        channels = self.nest.channels
        return (
            (self.size * self.strip + 2) * self.width * channels,
            self.patches * channels + FLOAT_SLACK,
            channels * self.tile.width + FLOAT_SLACK,
        )

    @property
    def nbytes(self) -> int:
        strip, patch, filters = self.sizes
        return 4 * (strip + self.values * (patch + filters))

    @property
    def first(self) -> str:
        """
        The C expression of the first row of patches in the strip, from the loop variable `r`. The
        last strip starts earlier, so that it is complete.
        """
        last = self.down - self.strip
        return "r" if self.down % self.strip == 0 else f"r < {last} ? r : {last}"

    @property
    def cycles(self) -> float:
        nest, tile = self.nest, self.tile
        strips = nest.images * -(-self.down // self.strip)
        tiles = -(-self.patches // tile.rows) * (nest.outputs // tile.width)
        products = tiles * self.values * nest.channels * tile.step_cycles
        vectors_in, vectors_out = nest.channels / LANES_PER_VECTOR, nest.outputs / LANES_PER_VECTOR
        transforms = (
            PATCH_CYCLES * self.patches * vectors_in
            + FILTER_CYCLES * nest.channels * vectors_out
            + RESULT_CYCLES * tiles * tile.rows * tile.blocks
        )
        return strips * (products + transforms)

    @classmethod
    def of(cls, nest: Nest, workspace: int) -> "Winograd | None":
        """
        Return loops that fit `workspace` bytes: among the loops within 10% of the fewest modelled
        cycles, the loops with the smallest buffers. Return `None` if the convolution is not 3x3
        with stride 1 or if plain register tiles are faster.
        """
        if nest.kernel != (3, 3) or nest.stride != (1, 1) or nest.dilation != (1, 1):
            return None
        if nest.groups > 1 or nest.channels % LANES_PER_VECTOR or nest.outputs % LANES_PER_VECTOR:
            return None
        across, down = -(-nest.columns // 2), -(-nest.rows // 2)
        ways = (
            cls(replace(nest, tile=tile), tile, strip)
            for strip in {-(-down // strips) for strips in range(1, down + 1)}
            for tile in whole_tiles(strip * across, nest.outputs)
        )
        ways = [way for way in ways if way.nbytes <= workspace]
        min_cycles = min((way.cycles for way in ways), default=nest.cycles)
        if min_cycles >= nest.cycles:
            return None
        return min(
            (way for way in ways if way.cycles <= min_cycles * MAX_CYCLE_RATIO),
            key=lambda w: w.nbytes,
        )

    @property
    def instructions(self) -> float:
        """The modelled instructions on vectors of 4 lanes."""
        nest, tile = self.nest, self.tile
        strips = nest.images * -(-self.down // self.strip)
        tiles = -(-self.patches // tile.rows) * (nest.outputs // tile.width)
        # A position needs four products and a part of a load, each pass a load and the loop.
        passes = sum(-(-count // MAX_POSITIONS[4]) for count in small_positions(tile.rows))
        pass_cost = 2.25 + CALL_INSTRUCTIONS / nest.channels
        step = tile.blocks * (4.25 * tile.rows + pass_cost * passes)
        patch, filters, results = TRANSFORMS[self.size]
        vectors_in, vectors_out = (n / LANES_OF_TRANSFORMS for n in (nest.channels, nest.outputs))
        each = tiles * tile.rows * tile.width / LANES_OF_TRANSFORMS
        return strips * (
            tiles * self.values * nest.channels * step
            + patch * self.patches * vectors_in
            + filters * nest.channels * vectors_out
            + results * each
        )

    def of_four(self, workspace: int) -> "Winograd | None":
        """
        Return loops of F(4x4, 3x3) that fit `workspace` bytes, for the same panels of weights:
        among the loops within 3% of the fewest modelled instructions, the loops with the smallest
        buffers. Return `None` if this way needs fewer instructions.
        """
        part = next(n for n in PARTS if self.nest.outputs % n == 0)
        first = replace(self, size=4)
        strips = {-(-first.down // strips) for strips in range(1, first.down + 1)}
        ways = [
            replace(first, strip=strip, tile=Tile(rows, 1, part // LANES_PER_VECTOR))
            for strip in sorted(strips)
            for rows in range(1, MAX_SUM_FLOATS // (first.values * part) + 1)
        ]
        ways = [way for way in ways if way.nbytes <= workspace and way.patches >= way.tile.rows]
        fewest = min((way.instructions for way in ways), default=self.instructions)
        if fewest >= self.instructions:
            return None
        return min(
            (way for way in ways if way.instructions <= fewest * MAX_INSTRUCTION_RATIO),
            key=lambda way: (way.nbytes, way.instructions),
        )

    def _filters(self, w: str) -> list[str]:
        """Return the C statements that transform filters of the panels `w`, from output `b`."""
        channels, width, panel = self.nest.channels, self.nest.tile.width, self.sizes[2]
        if self.size == 2:
            place = f"{w} + b * {9 * channels}"
            return [f"winograd_f32_filters(filters, {panel}, {place}, {channels}, {width});"]
        # Filters of several panels, or a part of the filters of a panel.
        piece = gcd(width, self.tile.width)
        place = f"(b + o) / {width} * {9 * channels * width} + (b + o) % {width}"
        return [
            f"for (int32_t o = 0; o < {self.tile.width}; o += {piece})",
            f"  winograd_f32_4_filters(filters + o, {panel}, {w} + {place}, {channels}, {width},",
            f"      {piece}, {self.tile.width});",
        ]

    def print(
        self, layer: Layer, op: LinearOperation, names: tuple[str, str, str, str, str]
    ) -> None:
        """
        Print the statements of the layer that use vector instructions. `names` are the C names of
        input, result, weights, bias and residual ("" without a residual).
        """
        if self.size == 2:
            with layer.variants(EIGHT_LANES) as otherwise:
                self._print_blocks(layer, op, names)
                otherwise()
                self._print_tiles(layer, op, names)
        else:
            self._print_tiles(layer, op, names)
        activate(layer, op, self.nest, names[1])

    def _print_blocks(
        self, layer: Layer, op: LinearOperation, names: tuple[str, str, str, str, str]
    ) -> None:
        """Print the loops for vectors of 8 lanes, with blocks of 16 outputs."""
        w = names[2]
        nest, width = self.nest, self.tile.width
        layer.kernels.use("winograd_blocks_f32")
        channels = nest.channels
        taps = -(-channels // -(-channels // MAX_BLOCK_CHANNELS))
        rows = -(-self.patches // -(-self.patches // MAX_BLOCK_PATCHES))
        patch, panel = self.sizes[1], taps * LANES_PER_VECTOR + FLOAT_SLACK
        tiles, each = -(-self.patches // rows), self.values * rows * LANES_PER_VECTOR
        is_whole = taps == channels
        memory = (0 if is_whole else (tiles * each)) + memory_elements(rows)
        way = replace(self, tile=Tile(rows, 1, 1))
        block = Block.of(rows, 2).add(layer.kernels)
        last, k = self.patches - rows, nest.channels
        from_ = f"{w} + b / {width} * {9 * k * width} + b % {width}"
        sums = (
            f"float sums[{each}];" if is_whole else f"float *sums = memory + i / {rows} * {each};"
        )
        rest = f"memory + {memory - memory_elements(rows)}"
        count = str(taps) if is_whole or k % taps == 0 else f"({k} - c < {taps} ? {k} - c : {taps})"
        start = "zeros" if is_whole else "c ? 0 : zeros"
        end = "" if is_whole else f"if (c + {taps} >= {k}) "
        body = [
            f"const float zeros[{LANES_PER_VECTOR}] = {{0}};",
            f"for (int32_t c = 0; c < {k}; c += {taps}) {{",
            f"  const struct rows_f32 windows = {{1, {k}, 0, {LANES_PER_VECTOR}, 1, 0, 1, 0, "
            f"{count}, {LANES_PER_VECTOR}, -INFINITY, INFINITY}};",
            f"  winograd_f32_block(filters, {panel}, {from_} + c * {width}, {k * width}, {count}, "
            f"{width});",
            f"  for (int32_t i = 0; i < {self.patches}; i += {rows}) {{",
            f"    const int32_t p = i < {last} ? i : {last};",
            f"    {sums}",
            f"    for (int32_t k = 0; k < {self.values}; ++k)",
            f"      {block}(&windows, patches + k * {patch} + p * {k} + c, filters + k * {panel}, "
            f"{start}, sums + k * {rows * LANES_PER_VECTOR}, 0, {rows}, {LANES_PER_VECTOR}, 0, "
            f"{rest});",
            f"    {end}{way._results(names)}",
            "  }",
            "}",
        ]
        way._print_loops(layer, op, names, {"filters": self.values * panel, "memory": memory}, body)

    def _print_tiles(
        self, layer: Layer, op: LinearOperation, names: tuple[str, str, str, str, str]
    ) -> None:
        """Print the loops for vectors of other lengths, with register tiles."""
        nest, tile = self.nest, self.tile
        _, patch, panel = self.sizes
        walk = Walk(tile, 1, nest.channels, 0, nest.channels, nest.channels)
        add_products(layer.kernels, walk, FLOATS)
        add_sums(layer.kernels, walk)
        products = layer.kernels.add(*products_tile(walk), FLOAT_TILES)
        last = self.patches - tile.rows
        body = [
            *self._filters(names[2]),
            f"for (int32_t i = 0; i < {self.patches}; i += {tile.rows}) {{",
            f"  const int32_t p = i < {last} ? i : {last};",
            f"  float sums[{self.values * tile.rows * tile.width}];",
            f"  for (int32_t k = 0; k < {self.values}; ++k)",
            f"    {products}(patches + k * {patch} + p * {nest.channels}, "
            f"filters + k * {panel}, sums + k * {tile.rows * tile.width});",
            f"  {self._results(names)}",
            "}",
        ]
        self._print_loops(layer, op, names, {"filters": self.values * panel}, body)

    @property
    def _kernel(self) -> str:
        """The start of the names of the C functions."""
        return "winograd_f32" if self.size == 2 else f"winograd_f32_{self.size}"

    def _results(self, names: tuple[str, str, str, str, str]) -> str:
        """Return the C call that computes the results of a tile from patch `p`."""
        _, y, _, bias, residual = names
        return (
            f"{self._kernel}_results({y} + at, {f'{residual} + at' if residual else '0'}, "
            f"sums, {bias} + b, p, {self.tile.rows}, {self.tile.width}, &to);"
        )

    def _print_loops(
        self,
        layer: Layer,
        op: LinearOperation,
        names: tuple[str, str, str, str, str],
        buffers: Mapping[str, int],
        body: Sequence[str],
    ) -> None:
        """
        Print the loops over strips and panels around the statements `body`, with `buffers` of
        floats in the workspace in addition to the strip and the patches.
        """
        x = names[0]
        nest, tile, size = self.nest, self.tile, self.size
        strip, patch, _ = self.sizes
        kernel = self._kernel
        layer.kernels.use(kernel)
        halo = float_halo(layer)
        low, high = map(float_literal, clamp_of(op) or (-inf, inf))
        title = "Winograd" if size == 2 else "Large Winograd"
        layer.line(
            f"/* {title}: strips of {self.strip} x {self.across} patches, panels of {tile.width} "
            f"outputs, tiles of {tile.rows} patches. */"
        )
        first_row = f"{size} * first - {nest.top}" if nest.top else f"{size} * first"
        at = f"{size} * first * {nest.columns * nest.outputs} + b"
        if nest.images > 1:
            at = f"image * {nest.rows * nest.columns * nest.outputs} + {at}"
        strips, panels = -(-self.down // self.strip), nest.outputs // tile.width
        before = f"r / {self.strip} * {panels}"
        before = f"image * {strips * panels} + {before}" if nest.images > 1 else before
        images = [f"for (int32_t image = 0; image < {nest.images}; ++image)"]
        units = nest.images * strips * panels
        sizes = {"strip": strip, "patches": self.values * patch, **buffers}
        layer.kernels.use("share")
        if is_shared(layer):
            own = (layer.own_scratch("float", name, count, 4) for name, count in sizes.items())
            head = ["MODEL_TEAM", "{", *(f"  {text}" for lines in own for text in lines)]
            head.append(f"  const struct share share = share_of({units});")
        else:
            for name, count in sizes.items():
                layer.scratch("float", name, count, 4)
            head = ["{", f"  const struct share share = {{0, {units}}};"]
        lines = [
            *head,
            *(f"  {text}" for text in (images if nest.images > 1 else [])),
            f"  for (int32_t r = 0; r < {self.down}; r += {self.strip}) {{",
            f"    const struct share own = share_within(share, {before}, {panels});",
            f"    const int32_t first = {self.first};",
            f"    const struct winograd_f32 to = {{{nest.rows} - {size} * first, {nest.columns}, "
            f"{nest.outputs}, {low}, {high}}};",
            "    if (own.first < own.end) {",
            f"      {halo}(strip, {nest.image_at(x)}, {size * self.strip + 2}, {first_row}, "
            f"{nest.left}, {self.width}, {nest.height}, {nest.width}, {nest.channels}, 0.0f);",
            f"      {kernel}_patches(patches, {patch}, strip, {self.width}, {nest.channels}, "
            f"{self.strip}, {self.across});",
            "    }",
            "    for (int32_t panel = own.first; panel < own.end; ++panel) {",
            f"      const int32_t b = panel * {tile.width};",
            f"      const int32_t at = {at};",
            *(f"      {text}" for text in body),
            "    }",
            "  }",
            "}",
        ]
        layer.block(lines)
