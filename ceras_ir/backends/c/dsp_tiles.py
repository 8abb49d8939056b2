"""
Print convolutions and matrix products in tiles, for cores with SMLAD.

If there are many positions, a band of the input, border included, is widened to 16 bits a single
time, and so are two filters at a time. Tiles of four positions by two filters take 13 instructions
for 16 products. If there are few positions, four rows of weights are multiplied by a widened row of
the input; a word holds weights of two rows. The last group of rows or positions may overlap the
previous group.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.constants import Array
from ceras_ir.backends.c.integer_layer import IntegerLayer
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.packed_weights import UNSIGNED_FIRST, WeightPanels, stored_bits
from ceras_ir.backends.c.sums import Geometry, window
from ceras_ir.backends.c.values import steps_left, zero_point_of
from ceras_ir.dialects.graph import Conv2dOp, shape_of
from ceras_ir.dialects.quant import BYTE_BITS


def earlier(index: str, count: int, size: int) -> str:
    """
    Return the C expression of the start of a group of `size` elements: `index`, or `count - size`
    if that is smaller, so that the last group is complete and overlaps the previous group.
    """
    if count % size == 0:
        return index
    return f"{index} < {count} - {size} ? {index} : {count} - {size}"


def groups_of(weights: NDArray[np.integer], count: int) -> NDArray[np.int8]:
    """
    Return the rows of weights [n, k] in groups, [groups, count, k]. The last group repeats rows of
    the previous group if `count` does not divide n.
    """
    n = len(weights)
    starts = [min(start, n - count) for start in range(0, n, count)]
    return np.stack([weights[s : s + count] for s in starts]).astype(np.int8)


# Products of four positions and two filters load both word by word from contiguous memory:
# `[group][words][4]` of the input, `[pair][words][2]` of weights.


TILE_COLUMNS, FILTERS = 4, 2
"""The numbers of output positions and of filters that a call of the kernel computes."""

LOOP_STEPS = 16
"""The maximum number of words in the body of a loop."""

SUM_REGISTERS = ("r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11")


def products(layer: Layer, words: int, runs: int, *, has_bias: bool) -> str:
    """
    Add the C function for the products of a tile, and return its name. The inputs and weights of a
    tile are `runs` contiguous parts of `words` 32-bit words. Sums start at the bias if `has_bias`,
    otherwise at zero.
    """
    steps = next(count for count in range(LOOP_STEPS, 0, -1) if words % count == 0)
    begin: list[str] = []
    again: list[str] = []
    loops = words // steps
    if loops > 1:
        begin += [f"mov r12, #{loops}", "str r12, [sp]"]
        again = ["ldr r0, [sp]", "subs r0, #1", "str r0, [sp]", "bne 2b"]
    if has_bias:
        begin.append("ldrd r4, r5, [r3]")
        begin += [
            f"mov {r}, {SUM_REGISTERS[i % FILTERS]}"
            for i, r in enumerate(SUM_REGISTERS)
            if i >= FILTERS
        ]
    elif loops > 1:
        begin += [f"mov {r}, #0" for r in SUM_REGISTERS]
    else:
        steps -= 1
        begin += ["ldrd r0, r3, [r2], #8", "ldrd r12, lr, [r1], #8"]
        for i, r in enumerate(SUM_REGISTERS):
            if i == len(SUM_REGISTERS) // 2:
                begin.append("ldrd r12, lr, [r1], #8")
            begin.append(f"smuad {r}, {('r12', 'lr')[i // 2 % 2]}, {('r0', 'r3')[i % 2]}")
    return layer.kernels.use(
        "dsp_products",
        NAME=f"{runs}x{words}",
        START="bias[f] + " if has_bias else "",
        WORDS=str(words),
        RUNS=str(runs),
        STEPS=str(steps),
        BEGIN=_assembler(begin),
        AGAIN=_assembler(again),
    )


def _assembler(lines: list[str]) -> str:
    return "\n".join(f'    "{line}\\n\\t"' for line in lines)


def packed_pairs(weights: NDArray[np.integer]) -> NDArray[np.int8]:
    """
    Pack the weights [n, k] in pairs of filters, as [pairs, words, 4]: each four bytes are two
    weights of both filters, in the order in which the C function `dsp_widen` expands them to 16
    bits.
    """
    groups = groups_of(weights, FILTERS)
    # [groups, filter, word, half, parity] -> [groups, word, parity, half, filter]
    split = groups.reshape(len(groups), FILTERS, -1, 2, 2)
    return np.ascontiguousarray(split.transpose(0, 2, 4, 3, 1))


def _tile(layer: Layer, pixel: int, row: int, pitch: int, height: int) -> str:
    """
    Return the name of the C function of a tile: four output positions by two filters. A window has
    `height` rows of `row` words of two 16-bit values. `pixel` is the distance in words between two
    positions, and `pitch` between two rows.
    """
    unroll = next(count for count in (8, 4, 2) if row % count == 0)
    steps: list[str] = []
    for t in range(unroll):
        steps.append(f"      const uint32_t u{t} = w[{2 * t}], v{t} = w[{2 * t + 1}];")
        steps.append("      DSP_IN_ORDER;")
        for p in range(TILE_COLUMNS):
            at = f"x[{t + p * pixel}]"
            steps.append(
                f"      a{p} = dsp_smlad({at}, u{t}, a{p}), b{p} = dsp_smlad({at}, v{t}, b{p});"
            )
            steps.append("      DSP_IN_ORDER;")
    return layer.kernels.use(
        "dsp_tile",
        NAME=f"{height}x{row}_{pixel}_{pitch}",
        PIXEL=str(pixel),
        ROW=str(row),
        PITCH=str(pitch),
        HEIGHT=str(height),
        TAKEN=str(unroll),
        STEPS="\n".join(steps),
    )


def _pairs(
    of: IntegerLayer,
    k: int,
    packed: Callable[[], Array],
    tile: str,
    tiles: tuple[Sequence[str], str, str],
) -> None:
    """
    Print the loop over pairs of filters, which widens the `packed` weights of a pair and calls the
    C function `tile`. `k` is the number of weights of a filter. `tiles` has the C statements that
    open the loop over tiles, and the expressions of input address and output position.
    """
    opening, source, at = tiles
    n = of.geometry.n
    pairs = -(-n // FILTERS)
    panels = WeightPanels.add(of.layer, stored_bits(of.sums), pairs, FILTERS * k, packed)
    of.layer.scratch("uint32_t", "panel", panels.padded // 2, 4)
    biases = [f"{of.bias}[f + {i}]" for i in range(FILTERS)]
    of.layer.loop(
        "pair",
        pairs,
        [
            f"const int32_t f = {earlier('2 * pair', n, FILTERS)};",
            panels.widen(of.layer, "panel", "pair"),
            f"const int32_t start[{FILTERS}] = {{{', '.join(biases)}}};",
            *opening,
            f"  int32_t sums[{TILE_COLUMNS * FILTERS}];",
            f"  {tile}(sums, {source}, panel, start);",
            f"  int32_t at = ({at}) * {n};",
            f"  for (int32_t i = 0; i < {TILE_COLUMNS * FILTERS}; i += {FILTERS}, at += {n}) {{",
            *(f"    {t}" for c in range(FILTERS) for t in _stored(of, c)),
            "  }",
            "}",
        ],
        1,
    )


def _stored(of: IntegerLayer, c: int) -> list[str]:
    lines = of.epilogue(f"sums[i + {c}]")
    return [f"{{ const int32_t o = f + {c};", *(f"  {t}" for t in lines), "}"]


@dataclass(frozen=True)
class Band:
    """
    A copy of input rows with border, widened to 16 bits, from which several output rows are
    computed.
    """

    rows: int
    """The number of output rows that are computed from a band."""
    columns: int
    """The number of pixels of a row, border included."""
    pitch: int
    """The number of 32-bit words from a row to the next."""
    bytes: int


def band_of(op: Conv2dOp, workspace: int) -> Band:
    """
    Return the band with the most output rows that fits `workspace` bytes together with a pair of
    filters. The minimum is one output row.
    """
    _, _, width, channels = shape_of(op.input)
    _, out_rows, out_columns, _ = shape_of(op.result)
    _, kernel_h, kernel_w, _ = shape_of(op.weights)
    (stride_h, stride_w), left = op.strides.get_values(), op.padding.get_values()[1]
    columns = max((out_columns - 1) * stride_w + kernel_w, left + width)
    pitch = columns * channels // 2
    room = max(workspace - 4 * kernel_h * kernel_w * channels, 0) // (4 * pitch)
    rows = min(max((room - kernel_h) // stride_h + 1, 1), out_rows)
    return Band(rows, columns, pitch, 4 * pitch * ((rows - 1) * stride_h + kernel_h))


def padded_to_words(channels: int) -> int:
    """Return the number of channels rounded up to a multiple of four, the bytes of a word."""
    return -(-channels // 4) * 4


def windows(of: IntegerLayer) -> None:
    """Print a convolution that copies a band, several input rows, to the workspace at a time."""
    layer, op, sums = of.layer, of.window, of.sums
    _, height, width, channels = shape_of(op.input)
    _, out_rows, out_columns, _ = shape_of(op.result)
    _, kernel_h, kernel_w, _ = shape_of(op.weights)
    (stride_h, stride_w), (top, left, _, _) = op.strides.get_values(), op.padding.get_values()
    shape = band_of(op, layer.options.workspace)
    pitch, rows = shape.pitch, shape.rows
    k = kernel_h * kernel_w * channels
    tile = _tile(layer, stride_w * channels // 2, kernel_w * channels // 2, pitch, kernel_h)
    layer.kernels.use("dsp_band")
    layer.scratch("uint32_t", "band", shape.bytes // 4, 4)
    layer.line(f"for (int32_t first = 0; first < {out_rows}; first += {rows}) {{")
    layer.line(f"const int32_t count = {steps_left(out_rows, 'first', rows)};", 1)
    point = zero_point_of(sums.x)
    span = f"first * {stride_h} - {top}, (count - 1) * {stride_h} + {kernel_h}, {height}"
    word = channels // 4
    right = (shape.columns - left - width) * word
    border = (point & 0xFFFF) * 0x10001
    layer.line(
        f"dsp_band(band, {of.x}, {span}, {width * word}, {left * word}, {right}, {border}u);", 1
    )
    column = earlier("4 * p", out_columns, TILE_COLUMNS)
    opening = [
        f"for (int32_t r = 0; r < count; ++r) for (int32_t p = 0; "
        f"p < {-(-out_columns // TILE_COLUMNS)}; ++p) {{",
        f"  const int32_t column = {column};",
    ]
    source = f"band + r * {stride_h * pitch} + column * {stride_w * channels // 2}"
    at = f"(first + r) * {out_columns} + column"

    _pairs(of, k, lambda: packed_pairs(sums.centred()), tile, (opening, source, at))
    layer.line("}")


@dataclass(frozen=True)
class RowBlock:
    """
    The size of a block of rows that are widened to 16 bits together. A row is a row of a matrix, or
    a copied window of a convolution.
    """

    k: int
    """Products of a row, padded to words of four."""
    rows: int
    groups: int
    """Groups of four rows; the last may overlap the previous group."""
    patch_bytes: int
    """Bytes of the windows before they are widened; 0 for rows of the input."""

    @property
    def scratch(self) -> int:
        """The size of the workspace in bytes, including a pair of widened filters."""
        return self.patch_bytes + self.groups * TILE_COLUMNS * 2 * self.k + 4 * self.k

    @classmethod
    def of(cls, geometry: Geometry, workspace: int) -> "RowBlock":
        """
        Return blocks of equal size that fit `workspace` bytes. The minimum is four rows, even if
        these do not fit.
        """
        k, positions = padded_to_words(geometry.k), geometry.positions
        copied = 0 if geometry.is_direct else k
        room = max(workspace - 4 * k, 0) // (2 * k + copied)
        blocks = -(-positions // max(room - room % TILE_COLUMNS, TILE_COLUMNS))
        rows = min(-(-positions // (blocks * TILE_COLUMNS)) * TILE_COLUMNS, positions)
        return cls(k, rows, -(-rows // TILE_COLUMNS), rows * copied)


def direct_rows(of: IntegerLayer) -> None:
    """
    Print a matrix product or convolution, a block of rows at a time. Convolutions other than 1x1
    copy their windows to rows.
    """
    layer, geometry, sums = of.layer, of.geometry, of.sums
    shape, positions = RowBlock.of(geometry, layer.options.workspace), geometry.positions
    k, block, groups = shape.k, shape.rows, shape.groups
    tile = products(layer, k // 2, 1, has_bias=True)
    layer.kernels.use("dsp_columns")
    layer.scratch("uint32_t", "columns", groups * TILE_COLUMNS * k // 2, 4)
    rows, fill = f"{of.x} + first * {k}", list[str]()
    if shape.patch_bytes:
        rows = layer.scratch("int8_t", "patches", shape.patch_bytes, 1)
        fill = _patch(of, f"{rows} + i * {k}", k)
    start = earlier(f"block * {block}", positions, block)
    layer.line(f"for (int32_t block = 0; block < {-(-positions // block)}; ++block) {{")
    layer.line(f"const int32_t first = {start};", 1)
    if fill:
        layer.loop("i", block, fill, 1)
    last = block - TILE_COLUMNS
    layer.line(f"dsp_columns(columns, {rows}, {groups}, {last}, {k});", 1)
    column = earlier("4 * p", block, TILE_COLUMNS)
    opening = [f"for (int32_t p = 0; p < {groups}; ++p) {{", f"  const int32_t column = {column};"]
    source = f"columns + p * {2 * k}"

    def packed() -> Array:
        return packed_pairs(np.pad(sums.centred(), ((0, 0), (0, k - geometry.k))))

    _pairs(of, k, packed, tile, (opening, source, "first + column"))
    layer.line("}")


TILE_ROWS = 4
"""The number of rows of weights that are multiplied by a row of input together."""

MAX_ROW_STEPS = 8
"""The maximum number of words of four products in the body of a loop."""

MAX_ROW_SUM = 1 << 16
"""The limit of the sum of weights in a chunk: times 128, it fits the 24 bits above the low byte."""


def _patch(of: IntegerLayer, to: str, length: int) -> list[str]:
    """
    Return the C statements that copy the window of output position `first + i`, with padding, to
    the address `to`. Zero points follow up to `length` bytes.
    """
    layer, op = of.layer, of.window
    _, height, width, channels = shape_of(op.input)
    _, _, columns, _ = shape_of(op.result)
    _, kernel_h, kernel_w, _ = shape_of(op.weights)
    (stride_h, stride_w), (top, left, _, _) = op.strides.get_values(), op.padding.get_values()
    row, pitch = kernel_w * channels, width * channels
    copy = layer.kernels.use(
        "dsp_window",
        NAME=f"{kernel_h}x{row}_{pitch}",
        ROWS=str(kernel_h),
        BYTES=str(row),
        PITCH=str(pitch),
    )
    gather = layer.kernels.use("gather", NAME="bytes", IN="int8_t", ROW="int8_t", SHIFT="")
    place, point = window(layer, op), zero_point_of(of.sums.x)
    inside = (
        f"down >= 0 && down <= {height - kernel_h} && right >= 0 && right <= {width - kernel_w}"
    )
    return [
        f"const int32_t down = (first + i) / {columns} * {stride_h} - {top};",
        f"const int32_t right = (first + i) % {columns} * {stride_w} - {left};",
        f"if ({inside})",
        f"  {copy}({to}, {of.x} + (down * {width} + right) * {channels});",
        "else",
        f"  {gather}({to}, {length}, {of.x}, {place}, first + i, {channels}, {point});",
    ]


@dataclass(frozen=True)
class RowChunks:
    """
    A division of the rows of weights into `count` chunks of `words` words. The sums of products of
    a chunk fit 24 bits, so that a 32-bit register adds two rows of weights at a time: 256 times the
    sum of one row, plus the sum of the low bytes.
    """

    count: int
    words: int
    """Words of four products of a chunk."""

    @property
    def steps(self) -> int:
        """The number of words that the body of the unrolled loop multiplies; it divides `words`."""
        return next(s for s in range(MAX_ROW_STEPS, 0, -1) if self.words % s == 0)

    @property
    def instructions(self) -> float:
        """
        The modelled instructions for the products of four rows of weights with a row of input.
        """
        each = 14 + 2 / self.steps
        return self.count * (each * self.words + 40) + 20

    @classmethod
    def of(cls, weights: NDArray[np.integer]) -> "RowChunks":
        """
        Return the division of weights [rows, k] into the fewest equal chunks for which the sums of
        products of each row fit 24 bits.
        """
        rows, k = weights.shape
        words = k // TILE_ROWS
        sizes = np.abs(weights.astype(np.int64))
        for count in (c for c in range(1, words + 1) if words % c == 0):
            if sizes.reshape(rows, count, -1).sum(2).max() < MAX_ROW_SUM:
                return cls(count, words // count)
        raise AssertionError(words)

    def packed(self, weights: NDArray[np.integer], offset: int) -> NDArray[np.int8]:
        """
        Pack int8 weights for the C function `dsp_rows` as [group of four rows, word, pair of rows,
        parity, half, row]. `offset` is added to the weights of the first row of each pair: 128,
        unless the C function that expands them adds it.
        """
        groups = groups_of(weights, TILE_ROWS)
        # [groups, pair, row, word, half, parity]
        split = groups.reshape(len(groups), 2, 2, -1, 2, 2).astype(np.int16)
        split[:, :, 0] += offset
        packed = np.ascontiguousarray(split.transpose(0, 3, 1, 5, 4, 2))
        return packed.astype(np.uint8).view(np.int8)


NIBBLE_BITS = 4
"""The bits of weights that products of few rows unpack in registers."""

_BYTES = {
    "BEGIN": "",
    "LOAD": '    "ldmia r2!, {r10, r11, r12, lr}\\n\\t"\n',
    "END": "",
    "WORD": "dsp_read(weights + 16 * (i >> 1) + 8 * pair + 4 * (i & 1))",
    "LESS": "",
}
_NIBBLES = {
    "BEGIN": _assembler(["mov r0, #0x0f0f0f0f"]) + "\n",
    "LOAD": _assembler(
        [
            "ldrd r11, lr, [r2], #8",
            "and r10, r0, r11",
            "and r11, r0, r11, lsr #4",
            "and r12, r0, lr",
            "and lr, r0, lr, lsr #4",
        ]
    )
    + "\n",
    "END": _assembler(["sub r9, r9, r3", "sub r11, r11, r3"]) + "\n",
    "WORD": "(dsp_read(weights + 8 * (i >> 1) + 4 * pair) >> (4 * (i & 1))) & 0x0f0f0f0fu",
    "LESS": " - offset",
}
"""The parts of the C function `dsp_rows` for weights of 8 bits, and for weights of 4 bits."""


def few_positions(of: IntegerLayer) -> None:
    """Print a matrix product with fewer output positions (rows) than a tile has."""
    layer, n, k = of.layer, of.geometry.n, of.geometry.k
    bits, groups = stored_bits(of.sums), -(-n // TILE_ROWS)
    in_registers = bits == NIBBLE_BITS
    added = 1 << (bits - 1) if in_registers else 128
    weights = of.sums.centred()
    chunks = RowChunks.of(weights + added if in_registers else weights)

    def packed() -> NDArray[np.int8]:
        return chunks.packed(weights, added if bits == BYTE_BITS else 0)

    panels = WeightPanels.add(layer, bits, groups, TILE_ROWS * k, packed)
    if in_registers:
        source, expand = f"(const int8_t *)({panels.at('group')})", list[str]()
    else:
        source, expand = panels.expanded(layer, "group", UNSIGNED_FIRST)
    function = layer.kernels.use(
        "dsp_rows",
        NAME=f"{chunks.words}{'_4_bits' if in_registers else ''}",
        WORDS=str(chunks.words),
        LOOPS=str(chunks.words // chunks.steps),
        STEPS=str(chunks.steps),
        **(_NIBBLES if in_registers else _BYTES),
    )
    total = layer.kernels.use("dsp_sum")
    layer.scratch("uint32_t", "row", k // 2, 4)
    words = 2 * chunks.words
    starts = (words * i for i in range(chunks.count))
    offsets = ", ".join(f"{added} * {total}(row + {start}, {words})" for start in starts)
    chunk_bytes = chunks.words * (8 if in_registers else 16)
    body = [
        f"const int32_t at = p * {n};",
        f"dsp_widen(row, {of.x} + p * {k}, {k});",
        f"const int32_t offsets[{chunks.count}] = {{{offsets}}};",
        f"for (int32_t group = 0; group < {groups}; ++group) {{",
        f"  const int32_t f = {earlier('4 * group', n, TILE_ROWS)};",
        *(f"  {text}" for text in expand),
        f"  const int8_t *from = {source};",
        f"  int32_t sums[{TILE_ROWS}] = {{{', '.join(f'{of.bias}[f + {i}]' for i in range(4))}}};",
        f"  for (int32_t i = 0; i < {chunks.count}; ++i)",
        f"    {function}(sums, row + {words} * i, from + {chunk_bytes} * i, offsets[i]);",
        f"  for (int32_t i = 0; i < {TILE_ROWS}; ++i) {{",
        "    const int32_t o = f + i;",
        *(f"    {t}" for t in of.epilogue("sums[i]")),
        "  }",
        "}",
    ]
    layer.loop("p", of.geometry.positions, body)
