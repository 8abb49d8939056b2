"""
Many positions on cores with SMLAD: a band of the input is widened to 16 bits once, border
included, and so are two filters at a time; tiles of four positions by two filters take 13
instructions for 16 products.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.constants import Array
from ceras_ir.backends.c.dsp_groups import earlier, groups_of
from ceras_ir.backends.c.dsp_products import COLUMNS as POSITIONS
from ceras_ir.backends.c.dsp_products import FILTERS, products
from ceras_ir.backends.c.integer_layer import IntegerLayer
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.types import zero_point_of
from ceras_ir.dialects.graph import Conv2dOp, shape_of


def packed_pairs(weights: NDArray[np.integer]) -> NDArray[np.int8]:
    """Two filters so that widening four bytes gives a pair of one, then the same of the other."""
    groups = groups_of(weights, FILTERS)
    # [groups, filter, word, half, parity] -> [groups, word, parity, half, filter]
    split = groups.reshape(len(groups), FILTERS, -1, 2, 2)
    return np.ascontiguousarray(split.transpose(0, 2, 4, 3, 1))


def _tile(layer: Layer, pixel: int, row: int, pitch: int, height: int) -> str:
    """The tile function for distances in words of two numbers."""
    taken = next(count for count in (8, 4, 2) if row % count == 0)
    steps: list[str] = []
    for t in range(taken):
        steps.append(f"      const uint32_t u{t} = w[{2 * t}], v{t} = w[{2 * t + 1}];")
        steps.append("      DSP_IN_ORDER;")
        for p in range(POSITIONS):
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
        TAKEN=str(taken),
        STEPS="\n".join(steps),
    )


def _pairs(
    of: IntegerLayer,
    k: int,
    packed: Callable[[], Array],
    tile: str,
    tiles: tuple[Sequence[str], str, str],
) -> None:
    """For each two filters: widen them, then all tiles of the band; `tiles` opens their loop."""
    opening, source, at = tiles
    n = of.geometry.n
    w = of.layer.constant("weights", "int8_t", -(-n // FILTERS) * FILTERS * k, 1, packed)
    of.layer.loop(
        "pair",
        -(-n // FILTERS),
        [
            f"const int32_t f = {earlier('2 * pair', n, FILTERS, n % FILTERS == 0)};",
            f"dsp_widen(panel, {w} + pair * {FILTERS * k}, {FILTERS * k});",
            *opening,
            f"  int32_t sums[{POSITIONS * FILTERS}];",
            f"  {tile}(sums, {source}, panel, {of.bias} + f);",
            f"  int32_t at = ({at}) * {n};",
            f"  for (int32_t i = 0; i < {POSITIONS * FILTERS}; i += {FILTERS}, at += {n}) {{",
            *(f"    {t}" for c in range(FILTERS) for t in _stored(of, c)),
            "  }",
            "}",
        ],
        1,
    )


def _stored(of: IntegerLayer, c: int) -> list[str]:
    """The epilogue of filter `c` of a tile, at position `i / 2` of it."""
    lines = of.epilogue(f"sums[i + {c}]")
    return [f"{{ const int32_t o = f + {c};", *(f"  {t}" for t in lines), "}"]


@dataclass(frozen=True)
class Band:
    """Widened rows of the input that windows read at a time."""

    rows: int
    """Of the output that they serve."""
    columns: int
    """Pixels of a row, border included."""
    pitch: int
    """Words of a row."""
    bytes: int


def band_of(op: Conv2dOp, workspace: int) -> Band:
    """As many rows as the workspace has room for beside two filters, and one at least."""
    width, channels = shape_of(op.input)[2], whole_words(shape_of(op.input)[3])
    _, out_rows, out_columns, _ = shape_of(op.result)
    _, kernel_h, kernel_w, _ = shape_of(op.weights)
    (stride_h, stride_w), left = op.strides.get_values(), op.padding.get_values()[1]
    columns = max((out_columns - 1) * stride_w + kernel_w, left + width)
    pitch = columns * channels // 2
    room = max(workspace - 4 * kernel_h * kernel_w * channels, 0) // (4 * pitch)
    rows = min(max((room - kernel_h) // stride_h + 1, 1), out_rows)
    return Band(rows, columns, pitch, 4 * pitch * ((rows - 1) * stride_h + kernel_h))


def whole_words(channels: int) -> int:
    """Channels filled up to words of four bytes."""
    return -(-channels // 4) * 4


def windows(of: IntegerLayer) -> None:
    """Print a convolution by bands of its input."""
    layer, op, geometry, sums = of.layer, of.window, of.geometry, of.sums
    _, height, width, stored = shape_of(op.input)
    _, out_rows, out_columns, _ = shape_of(op.result)
    _, kernel_h, kernel_w, _ = shape_of(op.weights)
    (stride_h, stride_w), (top, left, _, _) = op.strides.get_values(), op.padding.get_values()
    shape = band_of(op, layer.options.workspace)
    pitch, rows, channels = shape.pitch, shape.rows, whole_words(stored)
    k = kernel_h * kernel_w * channels
    tile = _tile(layer, stride_w * channels // 2, kernel_w * channels // 2, pitch, kernel_h)
    layer.kernels.use("dsp_band")
    layer.scratch("uint32_t", "panel", k, 4)
    layer.scratch("uint32_t", "band", shape.bytes // 4, 4)
    layer.line(f"for (int32_t first = 0; first < {out_rows}; first += {rows}) {{")
    rest = f"{out_rows} - first"
    count = f"{rest} < {rows} ? {rest} : {rows}" if out_rows % rows else str(rows)
    layer.line(f"const int32_t count = {count};", 1)
    point = zero_point_of(sums.x)
    which = f"first * {stride_h} - {top}, (count - 1) * {stride_h} + {kernel_h}, {height}"
    if stored == channels:
        word = channels // 4
        right = (shape.columns - left - width) * word
        border = (point & 0xFFFF) * 0x10001
        layer.line(
            f"dsp_band(band, {of.x}, {which}, {width * word}, {left * word}, {right}, {border}u);",
            1,
        )
    else:
        padded = layer.kernels.use(
            "dsp_band_padded", NAME=str(stored), CHANNELS=str(stored), PADDED=str(channels)
        )
        layer.line(
            f"{padded}(band, {of.x}, {which}, {width}, {left}, {shape.columns}, {point});", 1
        )
    column = earlier("4 * p", out_columns, POSITIONS, out_columns % POSITIONS == 0)
    opening = [
        f"for (int32_t r = 0; r < count; ++r) for (int32_t p = 0; "
        f"p < {-(-out_columns // POSITIONS)}; ++p) {{",
        f"  const int32_t column = {column};",
    ]
    source = f"band + r * {stride_h * pitch} + column * {stride_w * channels // 2}"
    at = f"(first + r) * {out_columns} + column"

    def packed() -> Array:
        weights = sums.centred().reshape(geometry.n, -1, stored)
        more = ((0, 0), (0, 0), (0, channels - stored))
        return packed_pairs(np.pad(weights, more).reshape(geometry.n, -1))

    _pairs(of, k, packed, tile, (opening, source, at))
    layer.line("}")


def direct_rows(of: IntegerLayer) -> None:
    """Print a matrix product, or what is one, by blocks of its rows."""
    layer, geometry, sums = of.layer, of.geometry, of.sums
    k, positions = geometry.k, geometry.positions
    room = max(layer.options.workspace - 4 * k, 0) // (2 * k)
    blocks = -(-positions // max(room - room % POSITIONS, POSITIONS))
    block = min(-(-positions // (blocks * POSITIONS)) * POSITIONS, positions)
    groups = -(-block // POSITIONS)
    tile = products(layer, k // 2, 1, has_bias=True)
    layer.kernels.use("dsp_widen")
    layer.kernels.use("dsp_columns")
    layer.scratch("uint32_t", "panel", k, 4)
    layer.scratch("uint32_t", "columns", groups * POSITIONS * k // 2, 4)
    start = earlier(f"block * {block}", positions, block, positions % block == 0)
    layer.line(f"for (int32_t block = 0; block < {-(-positions // block)}; ++block) {{")
    layer.line(f"const int32_t first = {start};", 1)
    last = block - POSITIONS
    layer.line(f"dsp_columns(columns, {of.x} + first * {k}, {groups}, {last}, {k});", 1)
    column = earlier("4 * p", block, POSITIONS, block % POSITIONS == 0)
    opening = [
        f"for (int32_t p = 0; p < {groups}; ++p) {{",
        f"  const int32_t column = {column};",
    ]
    source = f"columns + p * {2 * k}"

    _pairs(of, k, lambda: packed_pairs(sums.centred()), tile, (opening, source, "first + column"))
    layer.line("}")
