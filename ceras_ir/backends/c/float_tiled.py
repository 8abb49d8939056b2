"""
Print float convolutions and matrix products in register tiles, like `linear_tiled` for integers.

3x3 convolutions of stride 1 use Winograd's F(2x2, 3x3) if that needs fewer cycles: 16 products for
four results instead of 36.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod

import numpy as np

from ceras_ir.backends.c.constants import Array
from ceras_ir.backends.c.layer import Layer, from_row
from ceras_ir.backends.c.register_tiles import (
    FLOAT_LANES,
    FLOATS,
    LANES_PER_VECTOR,
    Tile,
    Walk,
    whole_tiles,
)
from ceras_ir.backends.c.row_parts import RowPart
from ceras_ir.backends.c.small_tiles import add_products
from ceras_ir.backends.c.tile_functions import float_tile, products_tile
from ceras_ir.backends.c.tile_loops import Strip, halo_of, is_shared, print_loops
from ceras_ir.backends.c.tile_nest import Nest
from ceras_ir.backends.c.values import apply
from ceras_ir.backends.c.vector_functions import apply_to_all, vector_function
from ceras_ir.dialects.graph import ConstantOp, LinearOperation, known_array
from ceras_ir.interpreters.float_text import float_literal


def float_weights(layer: Layer, op: LinearOperation, nest: Nest, weights: ConstantOp) -> str:
    """
    Add the weights to the constants of the layer as [panels, k, outputs of a panel], padded with
    zeros to complete panels. Return their C name.
    """
    panels, runs, steps, width, _ = shape = nest.panel_shape(1)

    def packed() -> Array:
        flat = np.asarray(weights.array(), np.float32).reshape(nest.all_outputs, -1)
        padded = nest.split(flat).reshape(panels, width, runs * steps)
        return np.ascontiguousarray(padded.transpose(0, 2, 1))

    return layer.constant("weights", "float", prod(shape), 4, packed)


def float_bias(layer: Layer, op: LinearOperation, nest: Nest) -> str:
    """
    Add the bias to the constants of the layer, padded with zeros to complete panels. Return its C
    name; without bias it is 0.
    """

    def padded() -> Array:
        result = np.zeros(nest.padded_outputs, np.float32)
        if op.bias is not None:
            result[: nest.all_outputs] = known_array(op.bias)
        return result

    return layer.constant("bias", "float", nest.padded_outputs, 4, padded)


def print_float_tiles(
    layer: Layer,
    op: LinearOperation,
    nest: Nest,
    names: tuple[str, str, str, str, str],
    declarations: Sequence[str] = (),
) -> None:
    """
    Print the statements of the layer that use vector instructions. `names` are the C names of
    input, result, weights, bias and residual ("" without a residual). Each thread executes
    `declarations` first.
    """
    layer.kernels.use("finish_f32")
    parts = RowPart.of(nest)
    for part in parts:
        depth = int(len(parts) > 1)
        if depth:
            layer.line("{")
        _print_part(layer, op, part, names, depth, declarations)
        if depth:
            layer.line("}")
    activate(layer, op, nest, names[1])


def _print_part(
    layer: Layer,
    op: LinearOperation,
    part: RowPart,
    names: tuple[str, str, str, str, str],
    depth: int,
    declarations: Sequence[str],
) -> None:
    x, y, w, b, residual = names
    nest, walk = part.nest, part.walk
    add_products(layer.kernels, walk, FLOATS)
    strip: Strip | None = None
    if nest.in_place:
        source = nest.place_of(part.input(x))
    else:
        copy = halo_of(_halo(layer), x, "0.0f")
        strip = Strip.of(layer, ("float", "strip"), nest.strip_elements, 4, copy)
        source = f"strip + {nest.input_at()}"
    bounds = op.activation.clip_range if op.activation is not None else None
    stores = nest.stores(bool(residual))
    text = float_tile(walk, stores, has_clamp=bounds is not None)
    tile = layer.kernels.add(*text, FLOAT_LANES)
    first = nest.first_output("b")
    arguments = f"{source}, {part.panel(w)}, {b} + {first}, {part.result(y)} + at"
    if residual:
        arguments += f", {part.result(residual)} + at"
    if bounds is not None:
        arguments += f", {float_literal(bounds[0])}, {float_literal(bounds[1])}"
    if stores.is_masked:
        arguments += f", {nest.outputs} - b"
    if walk.fetches_next:
        arguments += f", {nest.next_part(w)}"
    body = [f"const int32_t at = {nest.output_at()} + {first};", f"{tile}({arguments});"]
    print_loops(layer, nest, strip, body, depth=depth, declarations=declarations)


def _halo(layer: Layer) -> str:
    """Return the name of the C function that copies input rows with border."""
    return layer.kernels.use("halo", NAME="f32", TO="float", IN="float", SHIFT="", WHAT="as it is")


def activate(layer: Layer, op: LinearOperation, nest: Nest, y: str) -> None:
    """
    Print the C loop that applies the activation to all results in `y`. Print nothing if there is
    none, or if it is a clamp, which the tiles apply.
    """
    if op.activation is None or op.activation.clip_range is not None:
        return
    size = nest.images * nest.rows * nest.columns * nest.all_outputs
    if (function := vector_function(layer, op.activation)) is not None:
        apply_to_all(layer, function, y, y, size)
        return
    result = apply(layer.kernels, op.activation, "v")
    lines = ["const float v = y[i];", f"y[i] = {result};"]
    if op.activation.values or op.activation.affine is not None:
        layer.each(size, lines)
        return
    # A function per activation, so that compilers can inline and vectorize it.
    name = f"all_{op.activation.data.value}"
    text = (
        f"MODEL_TILE void {name}(float *y, int32_t size)\n{{\n"
        "  for (int32_t i = 0; i < size; ++i) {\n"
        f"    {lines[0]}\n    {lines[1]}\n  }}\n}}\n"
    )
    function = layer.kernels.add(name, text, FLOAT_LANES)
    layer.rows(
        size,
        size,
        lambda first, count: f"{function}({from_row(y, first, 1)}, {count});",
        LANES_PER_VECTOR,
    )


# The layer transforms the patches of a strip and the filters of a panel into the workspace, so that
# all kernels share the layout of weights. 16 matrix products in register tiles follow. Results
# differ from the interpreter only by rounding, a few times as much as sums in another order differ.
# Ordered layers require exact sums and are not transformed.


WINOGRAD_VALUES = 16
"""The number of values of a transformed patch or filter."""

FLOAT_SLACK = 16
"""
The number of floats between value k and value k + 1, so that they use different sets of the caches.
"""

MAX_CYCLE_RATIO = 1.1
"""The relative number of cycles that is accepted for less memory and fewer cache misses."""

PATCH_CYCLES, FILTER_CYCLES, RESULT_CYCLES = 70.0, 100.0, 60.0
"""Cycles to transform a patch, a filter or four results, per 16 channels or outputs."""


@dataclass(frozen=True)
class Winograd:
    """
    The loops of a 3x3 convolution by Winograd's algorithm: strips, which are rows of patches with
    2x2 results; panels of outputs; and register tiles of patches.
    """

    nest: Nest
    tile: Tile
    strip: int
    """Rows of patches at a time; the last strip starts earlier if it would pass the end."""

    @property
    def across(self) -> int:
        return -(-self.nest.columns // 2)

    @property
    def down(self) -> int:
        return -(-self.nest.rows // 2)

    @property
    def patches(self) -> int:
        return self.strip * self.across

    @property
    def width(self) -> int:
        return 2 * self.across + 2

    @property
    def sizes(self) -> tuple[int, int, int]:
        """
        The numbers of floats of three buffers in the workspace: a strip of input rows, and for each
        of the 16 transformed values, all patches of the strip and all filters of a panel.
        """
        channels = self.nest.channels
        return (
            (2 * self.strip + 2) * self.width * channels,
            self.patches * channels + FLOAT_SLACK,
            channels * self.tile.width + FLOAT_SLACK,
        )

    @property
    def nbytes(self) -> int:
        strip, patch, filters = self.sizes
        return 4 * (strip + WINOGRAD_VALUES * (patch + filters))

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
        products = tiles * WINOGRAD_VALUES * nest.channels * tile.step_cycles
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
            cls(nest, tile, strip)
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

    def print(
        self, layer: Layer, op: LinearOperation, names: tuple[str, str, str, str, str]
    ) -> None:
        """
        Print the statements of the layer that use vector instructions. `names` are the C names of
        input, result, weights, bias and residual ("" without a residual).
        """
        x, y, w, bias, residual = names
        nest, tile = self.nest, self.tile
        strip, patch, panel = self.sizes
        layer.kernels.use("winograd_f32")
        halo = _halo(layer)
        walk = Walk(tile, 1, nest.channels, 0, nest.channels, nest.channels)
        add_products(layer.kernels, walk, FLOATS)
        products = layer.kernels.add(*products_tile(walk), FLOAT_LANES)
        bounds = op.activation.clip_range if op.activation is not None else None
        low, high = map(float_literal, bounds or (-inf, inf))
        layer.line(
            f"/* Winograd: strips of {self.strip} x {self.across} patches, panels of {tile.width} "
            f"outputs, tiles of {tile.rows} patches. */"
        )
        size = nest.rows * nest.columns * nest.outputs
        first_row = f"2 * first - {nest.top}" if nest.top else "2 * first"
        at = f"2 * first * {nest.columns * nest.outputs} + b"
        at = f"image * {size} + {at}" if nest.images > 1 else at
        last = self.patches - tile.rows
        strips, panels = -(-self.down // self.strip), nest.outputs // tile.width
        before = f"r / {self.strip} * {panels}"
        before = f"image * {strips * panels} + {before}" if nest.images > 1 else before
        images = [f"for (int32_t image = 0; image < {nest.images}; ++image)"]
        units = nest.images * strips * panels
        sizes = {
            "strip": strip,
            "patches": WINOGRAD_VALUES * patch,
            "filters": WINOGRAD_VALUES * panel,
        }
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
            f"    const struct winograd_f32 to = {{{nest.rows} - 2 * first, {nest.columns}, "
            f"{nest.outputs}, {low}, {high}}};",
            "    if (own.first < own.end) {",
            f"      {halo}(strip, {nest.image_at(x)}, {2 * self.strip + 2}, {first_row}, "
            f"{nest.left}, {self.width}, {nest.height}, {nest.width}, {nest.channels}, 0.0f);",
            f"      winograd_f32_patches(patches, {patch}, strip, {self.width}, {nest.channels}, "
            f"{self.strip}, {self.across});",
            "    }",
            "    for (int32_t panel = own.first; panel < own.end; ++panel) {",
            f"      const int32_t b = panel * {tile.width};",
            f"      winograd_f32_filters(filters, {panel}, {w} + b * {9 * nest.channels}, "
            f"{nest.channels}, {tile.width});",
            f"      for (int32_t i = 0; i < {self.patches}; i += {tile.rows}) {{",
            f"        const int32_t p = i < {last} ? i : {last};",
            f"        float sums[{WINOGRAD_VALUES * tile.rows * tile.width}];",
            f"        for (int32_t k = 0; k < {WINOGRAD_VALUES}; ++k)",
            f"          {products}(patches + k * {patch} + p * {nest.channels}, "
            f"filters + k * {panel}, sums + k * {tile.rows * tile.width});",
            f"        const int32_t at = {at};",
            f"        winograd_f32_results({y} + at, {f'{residual} + at' if residual else '0'}, "
            f"sums, {bias} + b, p, {tile.rows}, {tile.width}, &to);",
            "      }",
            "    }",
            "  }",
            "}",
        ]
        layer.block(lines)
        activate(layer, op, nest, y)
