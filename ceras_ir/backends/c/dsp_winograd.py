"""
3x3 windows on cores with SMLAD by Winograd's F(2x2, 3x3): 16 products where there were 36.

Patches of 4x4 and filters are transformed to 16-bit numbers, filters by 2G, so that everything
is an integer and the sums are four times the convolution's. 16-bit results cannot overflow: a
patch's are within 4 * 128, a filter's within 9 * 128. Sums in 32 bits may wrap around on the way;
four times the result must not, which `fits_winograd` asks of the layer's bound: the low 32 bits
of sums are right whatever the order, and dividing by four is exact.
"""

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.constants import Array
from ceras_ir.backends.c.dsp_groups import earlier, groups_of
from ceras_ir.backends.c.dsp_products import COLUMNS, FILTERS, products
from ceras_ir.backends.c.integer_layer import IntegerLayer
from ceras_ir.backends.c.rows import Geometry
from ceras_ir.backends.c.sums import LIMIT, Sums
from ceras_ir.backends.c.types import zero_point_of
from ceras_ir.dialects.graph import Conv2dOp, LinearOperation, shape_of

SCALE = 4
"""What sums of transformed numbers are multiplied by: twice in each direction."""

RUNS = 16
"""Products that are left of a patch of four outputs."""

STORED_BLOCK = COLUMNS
"""Patches at a time where filters are stored transformed: more would save nothing."""

G2 = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], np.int32)
"""Twice the filter's transform."""


def fits_winograd(op: LinearOperation, geometry: Geometry, sums: Sums) -> bool:
    """Whether a layer that `fits_dsp` takes has 3x3 windows, enough of them, and small sums."""
    if geometry.direct or geometry.taken % 4 or not isinstance(op, Conv2dOp):
        return False
    _, rows, columns, _ = shape_of(op.result)
    is_3x3 = shape_of(op.weights)[1:3] == (3, 3) and op.strides.get_values() == (1, 1)
    return (
        is_3x3
        and min(rows, columns) >= 2
        and tile_count(op) >= COLUMNS
        and SCALE * sums.bound < LIMIT
    )


def tile_count(op: Conv2dOp) -> int:
    """Patches of four outputs; the last of a row or column may overlap its neighbour."""
    _, rows, columns, _ = shape_of(op.result)
    return -(-rows // 2) * -(-columns // 2)


def scratch_bytes(channels: int, tiles: int, *, stored: bool) -> int:
    """Of `tiles` transformed patches, of a border patch, of sums, and of a pair of filters."""
    panel = 0 if stored else 4 * RUNS * channels
    return tiles * 2 * RUNS * channels + 16 * channels + 4 * RUNS * COLUMNS * FILTERS + panel


def tiles_at_once(op: Conv2dOp, workspace: int, *, stored: bool) -> int:
    """How many patches fit the workspace, in even blocks; none if not four do."""
    channels, total = shape_of(op.input)[3], tile_count(op)
    room = (workspace - scratch_bytes(channels, 0, stored=stored)) // (2 * RUNS * channels)
    most = min(room - room % COLUMNS, total - total % COLUMNS)
    most = min(most, STORED_BLOCK) if stored else most
    if most < COLUMNS:
        return 0
    blocks = -(-total // most)
    return min(-(-total // (blocks * COLUMNS)) * COLUMNS, most)


def packed_filters(weights: NDArray[np.integer]) -> NDArray[np.int8]:
    """[pairs, four channels, filter, taps, 4]: what `dsp_winograd_weights` reads."""
    groups = groups_of(weights, FILTERS)
    split = groups.reshape(len(groups), FILTERS, 9, -1, 4)
    return np.ascontiguousarray(split.transpose(0, 3, 1, 2, 4))


def transformed_filters(weights: NDArray[np.integer]) -> NDArray[np.int16]:
    """[pairs, 16, words, filter, 2]: the same after it, even channels of four before odd ones."""
    groups = groups_of(weights, FILTERS).reshape(-1, FILTERS, 3, 3, weights.shape[1] // 9)
    u = np.einsum("ia,pfabc,jb->pijfc", G2, groups.astype(np.int32), G2)
    pairs, _, _, _, channels = u.shape
    split = u.reshape(pairs, RUNS, FILTERS, channels // 4, 2, 2)
    return np.ascontiguousarray(split.transpose(0, 1, 3, 5, 2, 4)).astype(np.int16)


def winograd(of: IntegerLayer, *, stored: bool) -> None:
    """Print the layer; filters are `stored` transformed, or transformed for each block."""
    layer, op, geometry, sums = of.layer, of.window, of.geometry, of.sums
    _, height, width, channels = shape_of(op.input)
    _, rows, columns, _ = shape_of(op.result)
    top, left = op.padding.get_values()[:2]
    n, words, total = geometry.n, channels // 2, tile_count(op)
    count = tiles_at_once(op, layer.options.workspace, stored=stored)
    across = -(-columns // 2)
    pairs, block = -(-n // FILTERS), RUNS * words
    layer.kernels.use("dsp_patch")
    layer.kernels.use("dsp_winograd_output")
    multiply = products(layer, words, RUNS, has_bias=False)
    change = layer.kernels.use("dsp_winograd_input", NAME=str(words), WORDS=str(words))
    layer.scratch("uint32_t", "values", count * block, 4)
    layer.scratch("int32_t", "sums", RUNS * COLUMNS * FILTERS, 4)
    layer.scratch("int8_t", "patch", 16 * channels, 1)
    if stored:
        w = layer.constant(
            "weights", "int16_t", 4 * pairs * block, 2, lambda: transformed_filters(sums.centred())
        )
        panel = [
            f"const uint32_t *panel = (const uint32_t *)(const void *)({w} + pair * {4 * block});"
        ]
    else:

        def packed() -> Array:
            return packed_filters(sums.centred())

        w = layer.constant("weights", "int8_t", pairs * FILTERS * geometry.k, 1, packed)
        layer.scratch("uint32_t", "panel", FILTERS * block, 4)
        transform = layer.kernels.use("dsp_winograd_weights", NAME=str(words), WORDS=str(words))
        panel = [f"{transform}(panel, {w} + pair * {FILTERS * geometry.k});"]

    def corner(name: str, tile: str) -> list[str]:
        """The first output of a patch."""
        down = earlier(f"{tile} / {across} * 2", rows, 2, rows % 2 == 0)
        right = earlier(f"{tile} % {across} * 2", columns, 2, columns % 2 == 0)
        return [f"const int32_t {name}row = {down};", f"const int32_t {name}column = {right};"]

    point = zero_point_of(sums.x)
    first = earlier(f"block * {count}", total, count, total % count == 0)
    layer.line(
        f"/* Blocks of {count} patches of 2x2 outputs; filters are transformed "
        + ("beforehand. */" if stored else "for each block. */")
    )
    layer.line(f"for (int32_t block = 0; block < {-(-total // count)}; ++block) {{")
    layer.line(f"const int32_t first = {first};", 1)
    layer.loop(
        "t",
        count,
        [
            *corner("", "(first + t)"),
            f"const int32_t down = row - {top}, right = column - {left};",
            f"const int8_t *from = {of.x} + (down * {width} + right) * {channels};",
            f"int32_t pitch = {width * channels};",
            f"if (down < 0 || right < 0 || down > {height - 4} || right > {width - 4}) {{",
            f"  dsp_patch(patch, {of.x}, down, right, {height}, {width}, {channels}, {point});",
            f"  from = patch, pitch = {4 * channels};",
            "}",
            f"{change}(values + (t >> 2) * {COLUMNS * block} + (t & 3), from, {channels}, pitch);",
        ],
        1,
    )
    layer.loop(
        "pair",
        pairs,
        [
            f"const int32_t f = {earlier('2 * pair', n, FILTERS, n % FILTERS == 0)};",
            *panel,
            f"for (int32_t t = 0; t < {count}; ++t) {{",
            f"  if ((t & 3) == 0) {multiply}(sums, values + t * {block}, panel, 0);",
            *(f"  {text}" for text in corner("", "(first + t)")),
            f"  const int32_t corner = (row * {columns} + column) * {n};",
            f"  for (int32_t o = f; o < f + {FILTERS}; ++o) {{",
            "    int32_t four[4];",
            f"    dsp_winograd_output(four, sums + 2 * (t & 3) + o - f, {of.bias}[o]);",
            *(
                f"    {text}"
                for i, distance in enumerate((0, n, columns * n, columns * n + n))
                for text in of.epilogue_at(f"four[{i}]", distance)
            ),
            "  }",
            "}",
        ],
        1,
    )
    layer.line("}")
