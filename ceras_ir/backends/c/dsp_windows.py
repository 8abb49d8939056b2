"""
Print depthwise convolutions, and 3x3 convolutions by Winograd's F(2x2, 3x3), for cores with SMLAD.

Winograd has 16 products instead of 36. A depthwise layer stores two rows of a channel in a word, so
that an instruction computes two taps of a window, and adjacent windows share loads.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.constants import Array
from ceras_ir.backends.c.dsp_tiles import FILTERS, TILE_COLUMNS, earlier, groups_of, products
from ceras_ir.backends.c.integer_layer import IntegerLayer
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.packed_weights import (
    WeightPanels,
    expanded_bytes,
    smaller_bits,
    stored_bits,
)
from ceras_ir.backends.c.sums import LIMIT, Geometry, Sums
from ceras_ir.backends.c.values import zero_point_of
from ceras_ir.dialects.graph import Conv2dOp, LinearOperation, shape_of

DSP_POSITIONS = 4
"""The number of adjacent windows that are computed at a time."""

MAX_CHANNELS_AT_ONCE = 16
"""
The maximum number of channels that are computed at a time. More channels need more memory and save
little.
"""

DSP_TAPS = 49


def fits_depthwise(op: LinearOperation, geometry: Geometry) -> bool:
    """
    Return whether the DSP kernel supports `op`, which must be an int8 layer: a depthwise
    convolution of a single image without dilation, with at most `DSP_TAPS` taps, and with a number
    of channels that is a multiple of four.
    """
    if not geometry.is_depthwise or not isinstance(op, Conv2dOp) or geometry.groups % 4:
        return False
    images = shape_of(op.result)[0]
    return images == 1 and op.dilations.get_values() == (1, 1) and geometry.k <= DSP_TAPS


@dataclass(frozen=True)
class Pairs:
    """
    The layout of the input in the workspace: 32-bit words of two 16-bit elements, which are from
    two vertically adjacent rows. SMLAD multiplies both by weights and adds the products.
    """

    channels: int
    rows: int
    """The number of output rows that are computed from the pairs."""
    step: int
    """The number of input rows between the rows of a pair and those of the next pair."""
    count: int
    columns: int

    @property
    def pitch(self) -> int:
        """The distance in words between two pairs of rows in the workspace."""
        return self.columns * self.channels

    @property
    def cost(self) -> float:
        """
        The modelled instructions per output row and channel that copy the input to the workspace.
        """
        return self.count / self.rows * (15 / self.channels + 18 / 4)

    @classmethod
    def of(cls, op: Conv2dOp, workspace: int) -> "Pairs":
        _, _, width, total = shape_of(op.input)
        _, out_rows, out_columns, _ = shape_of(op.result)
        _, kernel_h, kernel_w, _ = shape_of(op.weights)
        (stride_h, stride_w), left = op.strides.get_values(), op.padding.get_values()[1]
        columns = max((out_columns - 1) * stride_w + kernel_w, left + width)
        step = 2 - stride_h % 2
        last = 2 * (-(-kernel_h // 2) - 1)
        # Widened filters, and their bytes if these are expanded.
        filter_bytes = kernel_w * (4 * -(-kernel_h // 2) + kernel_h)

        def blocks(channels: int) -> Pairs:
            room = (workspace - filter_bytes * channels) // (4 * columns * channels)
            rows = max(min(((room - 1) * step - last) // stride_h + 1, out_rows), 1)
            return cls(channels, rows, step, ((rows - 1) * stride_h + last) // step + 1, columns)

        choices = [blocks(c) for c in range(MAX_CHANNELS_AT_ONCE, 0, -4) if total % c == 0]
        fitting = [
            p for p in choices if 4 * p.count * p.pitch + filter_bytes * p.channels <= workspace
        ]
        return min(fitting, key=lambda p: p.cost) if fitting else choices[-1]


def windows_at_once(columns: int, width: int, stride: int) -> int:
    """
    Return the number of adjacent outputs that a function computes together, so that a row of
    `columns` outputs needs the fewest instructions. `width` is that of the window, and `stride` the
    horizontal stride.
    """

    def cost(count: int) -> int:
        return -(-columns // count) * ((count - 1) * stride + width + count * (width + 4) + 6)

    return min(range(min(DSP_POSITIONS, columns), 0, -1), key=cost)


def _widen(layer: Layer, height: int, width: int) -> str:
    """
    Return the name of a C function, which is added to the kernels, that widens filters to words in
    the order of `Pairs`: [channel, pair of rows, column, 2]. If the number of rows (`height`) is
    odd, the last pair contains a row of zeros.
    """

    def tap(row: int, column: int) -> str:
        return f"(uint32_t)from[{row * width + column}]"

    pairs = [(row, column) for row in range(0, height, 2) for column in range(width)]
    steps = [
        f"    to[{i}] = dsp_low({tap(row, column)}, {tap(row + 1, column)});"
        if row + 1 < height
        else f"    to[{i}] = {tap(row, column)} & 0xffff;"
        for i, (row, column) in enumerate(pairs)
    ]
    return layer.kernels.use(
        "dsp_taps",
        NAME=f"{height}x{width}",
        SIZE=str(height * width),
        WORDS=str(len(pairs)),
        STEPS="\n".join(steps),
    )


def _function(layer: Layer, op: Conv2dOp, pairs: Pairs, positions: int) -> str:
    """
    Return the name of a C function, which is added to the kernels, that computes `positions`
    horizontally adjacent outputs. It loads each word of the input a single time, and uses it for
    all windows that contain it.
    """
    _, height, width, _ = shape_of(op.weights)
    stride = op.strides.get_values()[1]
    lines = [f"  int32_t a{p} = bias;" for p in range(positions)]
    count = -(-height // 2)
    for pair in range(count):
        start = pair * (2 // pairs.step) * pairs.pitch
        for column in range((positions - 1) * stride + width):
            users = [
                (p, column - p * stride)
                for p in range(positions)
                if 0 <= column - p * stride < width
            ]
            if not users:
                continue
            at = start + column * pairs.channels
            lines.append(f"  const uint32_t x{pair}_{column} = x[{at}];")
            lines += [
                f"  a{p} = dsp_smlad(x{pair}_{column}, w[{pair * width + tap}], a{p});"
                for p, tap in users
            ]
    lines.append(f"  {', '.join(f'sums[{p}] = a{p}' for p in range(positions))};")
    return layer.kernels.use(
        "dsp_depthwise",
        NAME=f"{height}x{width}_{stride}_{positions}_{pairs.step}_{pairs.channels}_{pairs.pitch}",
        COUNT=str(positions),
        PAIRS=str(count),
        COLUMNS=str(width),
        PITCH=str(2 // pairs.step * pairs.pitch),
        STEPS="\n".join(lines),
    )


def depthwise(of: IntegerLayer) -> None:
    layer, op, sums = of.layer, of.window, of.sums
    _, height, width, total = shape_of(op.input)
    _, out_rows, out_columns, _ = shape_of(op.result)
    _, kernel_h, kernel_w, _ = shape_of(op.weights)
    (stride_h, stride_w), (top, left, _, _) = op.strides.get_values(), op.padding.get_values()
    pairs = Pairs.of(op, layer.options.workspace)
    positions = windows_at_once(out_columns, kernel_w, stride_w)
    words = -(-kernel_h // 2) * kernel_w
    function = _function(layer, op, pairs, positions)
    fill = layer.kernels.use(
        "dsp_row_pairs", NAME=str(pairs.channels), CHANNELS=str(pairs.channels)
    )

    size, groups = pairs.channels * kernel_h * kernel_w, total // pairs.channels

    def filters() -> Array:
        return sums.centred().astype(np.int8)

    panels = WeightPanels.add(layer, smaller_bits(layer, sums, size), groups, size, filters)
    widen = _widen(layer, kernel_h, kernel_w)
    layer.scratch("uint32_t", "taps", pairs.channels * words, 4)
    source, expand = panels.expanded(layer, f"(c / {pairs.channels})" if groups > 1 else "0")
    layer.scratch("uint32_t", "pairs", pairs.count * pairs.pitch, 4)
    rows, point = pairs.rows, zero_point_of(sums.x)
    start = earlier("block", out_rows, rows)
    row = f"first * {stride_h} - {top} + i * {pairs.step}"
    down = stride_h // pairs.step * pairs.pitch
    column = earlier(f"{positions} * p", out_columns, positions)
    layer.line(f"for (int32_t c = 0; c < {total}; c += {pairs.channels}) {{")
    layer.block([*expand, f"{widen}(taps, {source}, {pairs.channels});"], 1)
    layer.line(f"for (int32_t block = 0; block < {out_rows}; block += {rows}) {{", 1)
    layer.line(f"const int32_t first = {start};", 2)
    body = [
        f"{fill}(pairs + i * {pairs.pitch}, {of.x} + c, {row}, {height}, {width}, {total}, "
        f"{left}, {pairs.columns}, {point});"
    ]
    layer.loop("i", pairs.count, body, 2)
    layer.line(f"for (int32_t r = 0; r < {rows}; ++r)", 2)
    body = [
        "const int32_t o = c + i;",
        f"for (int32_t p = 0; p < {-(-out_columns // positions)}; ++p) {{",
        f"  const int32_t column = {column};",
        f"  const int32_t corner = ((first + r) * {out_columns} + column) * {total};",
        f"  int32_t sums[{positions}];",
        f"  {function}(sums, pairs + r * {down} + column * {stride_w * pairs.channels} + i, "
        f"taps + i * {words}, {of.bias}[o]);",
        *(
            f"  {text}"
            for p in range(positions)
            for text in of.epilogue_at(f"sums[{p}]", p * total)
        ),
        "}",
    ]
    layer.loop("i", pairs.channels, body, 2)
    layer.line("}", 1)
    layer.line("}")


# Patches of 4x4 and filters are transformed to 16-bit values, filters by 2G, so that all values are
# integers and the sums are four times the sums of the convolution. 16-bit values cannot overflow: a
# patch has magnitudes up to 4 * 128, a filter up to 9 * 128. Intermediate sums may wrap around in
# 32 bits. `fits_winograd` checks that four times the result fits, so the low 32 bits are correct in
# any order, and the division by four is exact.


WINOGRAD_SCALE = 4
"""The factor of sums of transformed values: two in each direction."""

WINOGRAD_RUNS = 16
"""The number of products that compute a patch of 2x2 outputs."""

STORED_BLOCK = TILE_COLUMNS
"""
The number of patches that are computed at a time if filters are stored transformed. More patches
would save no time.
"""

G2 = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], np.int32)
"""Twice the transform of a filter."""


def fits_winograd(op: LinearOperation, geometry: Geometry, sums: Sums) -> bool:
    """
    Return whether a layer for which `fits_dsp` holds can be computed by Winograd's F(2x2, 3x3): 3x3
    windows with stride 1, enough outputs for a block, and sums that do not overflow.
    """
    if geometry.is_direct or geometry.group_channels % 4 or not isinstance(op, Conv2dOp):
        return False
    _, rows, columns, _ = shape_of(op.result)
    is_3x3 = shape_of(op.weights)[1:3] == (3, 3) and op.strides.get_values() == (1, 1)
    return (
        is_3x3
        and min(rows, columns) >= 2
        and tile_count(op) >= TILE_COLUMNS
        and WINOGRAD_SCALE * sums.bound < LIMIT
    )


def tile_count(op: Conv2dOp) -> int:
    """
    Return the number of 2x2 patches of outputs that cover the result. The last patch of a row or
    column may overlap the previous.
    """
    _, rows, columns, _ = shape_of(op.result)
    return -(-rows // 2) * -(-columns // 2)


def scratch_bytes(channels: int, tiles: int, *, stored: bool, bits: int) -> int:
    """
    Return the bytes of the workspace of the Winograd kernel for `tiles` patches at a time:
    transformed patches, a patch with padding, sums, and a pair of transformed filters unless
    transformed filters are `stored` in flash. Filters of less than 8 `bits` are expanded before
    the transform.
    """
    panel = 0 if stored else 4 * WINOGRAD_RUNS * channels + expanded_bytes(bits, 18 * channels)
    return (
        tiles * 2 * WINOGRAD_RUNS * channels
        + 16 * channels
        + 4 * WINOGRAD_RUNS * TILE_COLUMNS * FILTERS
        + panel
    )


def tiles_at_once(op: Conv2dOp, workspace: int, *, stored: bool, bits: int) -> int:
    """
    Return the number of 2x2 patches that are transformed together, so that equal blocks fit
    `workspace` bytes. Return 0 if fewer than four patches fit. `stored` is whether transformed
    filters are stored in flash, and `bits` the bits of other filters.
    """
    channels, total = shape_of(op.input)[3], tile_count(op)
    needed = scratch_bytes(channels, 0, stored=stored, bits=bits)
    room = (workspace - needed) // (2 * WINOGRAD_RUNS * channels)
    max_tiles = min(room - room % TILE_COLUMNS, total - total % TILE_COLUMNS)
    max_tiles = min(max_tiles, STORED_BLOCK) if stored else max_tiles
    if max_tiles < TILE_COLUMNS:
        return 0
    blocks = -(-total // max_tiles)
    return min(-(-total // (blocks * TILE_COLUMNS)) * TILE_COLUMNS, max_tiles)


def packed_filters(weights: NDArray[np.integer]) -> NDArray[np.int8]:
    """
    Pack 3x3 filters as [pairs of filters, four channels, filter, taps, 4], the order in which the C
    function `dsp_winograd_weights` loads them.
    """
    groups = groups_of(weights, FILTERS)
    split = groups.reshape(len(groups), FILTERS, 9, -1, 4)
    return np.ascontiguousarray(split.transpose(0, 3, 1, 2, 4))


def transformed_filters(weights: NDArray[np.integer]) -> NDArray[np.int16]:
    """
    Return filters after Winograd's transform as [pairs of filters, 16, words, filter, 2]. In each
    group of four channels, even channels precede odd channels.
    """
    groups = groups_of(weights, FILTERS).reshape(-1, FILTERS, 3, 3, weights.shape[1] // 9)
    u = np.einsum("ia,pfabc,jb->pijfc", G2, groups.astype(np.int32), G2)
    pairs, _, _, _, channels = u.shape
    split = u.reshape(pairs, WINOGRAD_RUNS, FILTERS, channels // 4, 2, 2)
    return np.ascontiguousarray(split.transpose(0, 1, 3, 5, 2, 4)).astype(np.int16)


def winograd(of: IntegerLayer, *, stored: bool) -> None:
    """
    Print a 3x3 convolution by Winograd's algorithm. Transformed filters are constants if `stored`,
    otherwise they are computed at run time for each block of patches.
    """
    layer, op, geometry, sums = of.layer, of.window, of.geometry, of.sums
    _, height, width, channels = shape_of(op.input)
    _, rows, columns, _ = shape_of(op.result)
    top, left = op.padding.get_values()[:2]
    n, words, total = geometry.n, channels // 2, tile_count(op)
    bits = stored_bits(sums)
    count = tiles_at_once(op, layer.options.workspace, stored=stored, bits=bits)
    across = -(-columns // 2)
    pairs, block = -(-n // FILTERS), WINOGRAD_RUNS * words
    layer.kernels.use("dsp_patch")
    layer.kernels.use("dsp_winograd_output")
    multiply = products(layer, words, WINOGRAD_RUNS, has_bias=False)
    change = layer.kernels.use("dsp_winograd_input", NAME=str(words), WORDS=str(words))
    layer.scratch("uint32_t", "values", count * block, 4)
    layer.scratch("int32_t", "sums", WINOGRAD_RUNS * TILE_COLUMNS * FILTERS, 4)
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

        panels = WeightPanels.add(layer, bits, pairs, FILTERS * geometry.k, packed)
        layer.scratch("uint32_t", "panel", FILTERS * block, 4)
        transform = layer.kernels.use("dsp_winograd_weights", NAME=str(words), WORDS=str(words))
        filters, expand = panels.expanded(layer, "pair")
        panel = [*expand, f"{transform}(panel, {filters});"]

    def corner(name: str, tile: str) -> list[str]:
        down = earlier(f"{tile} / {across} * 2", rows, 2)
        right = earlier(f"{tile} % {across} * 2", columns, 2)
        return [f"const int32_t {name}row = {down};", f"const int32_t {name}column = {right};"]

    point = zero_point_of(sums.x)
    first = earlier(f"block * {count}", total, count)
    layer.line(
        f"/* Blocks of {count} patches of 2x2 outputs; filters are transformed "
        + ("beforehand. */" if stored else "for each block. */")
    )
    layer.line(f"for (int32_t block = 0; block < {-(-total // count)}; ++block) {{")
    layer.line(f"const int32_t first = {first};", 1)
    body = [
        *corner("", "(first + t)"),
        f"const int32_t down = row - {top}, right = column - {left};",
        f"const int8_t *from = {of.x} + (down * {width} + right) * {channels};",
        f"int32_t pitch = {width * channels};",
        f"if (down < 0 || right < 0 || down > {height - 4} || right > {width - 4}) {{",
        f"  dsp_patch(patch, {of.x}, down, right, {height}, {width}, {channels}, {point});",
        f"  from = patch, pitch = {4 * channels};",
        "}",
        f"{change}(values + (t >> 2) * {TILE_COLUMNS * block} + (t & 3), from, {channels}, pitch);",
    ]
    layer.loop("t", count, body, 1)
    body = [
        f"const int32_t f = {earlier('2 * pair', n, FILTERS)};",
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
    ]
    layer.loop("pair", pairs, body, 1)
    layer.line("}")
