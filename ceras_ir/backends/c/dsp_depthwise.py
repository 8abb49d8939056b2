"""
Depthwise windows on cores with SMLAD: two rows of a channel in a word, so that an instruction
takes two taps of a window, and neighbouring windows share what they load.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.dsp_groups import earlier
from ceras_ir.backends.c.integer_layer import IntegerLayer
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.rows import Geometry
from ceras_ir.backends.c.types import zero_point_of
from ceras_ir.dialects.graph import Conv2dOp, LinearOperation, shape_of

MOST_POSITIONS = 4
"""Neighbouring windows at a time."""

MOST_CHANNELS = 16
"""Channels at a time: more need more memory and save little."""

MOST_TAPS = 49


def fits_depthwise(op: LinearOperation, geometry: Geometry) -> bool:
    """Whether a layer of int8 is depthwise, in whole words of channels, and of small windows."""
    if not geometry.depthwise or not isinstance(op, Conv2dOp) or geometry.groups % 4:
        return False
    images = shape_of(op.result)[0]
    return images == 1 and op.dilations.get_values() == (1, 1) and geometry.k <= MOST_TAPS


@dataclass(frozen=True)
class Pairs:
    """How the pairs of rows lie in the workspace."""

    channels: int
    rows: int
    """Rows of the output that they serve."""
    step: int
    """Rows of the input from one pair to the next."""
    count: int
    columns: int

    @property
    def pitch(self) -> int:
        """Words from one pair of rows to the next."""
        return self.columns * self.channels

    @property
    def cost(self) -> float:
        """Of the pairs, per row of the output and channel: so much per pixel and per word."""
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

        def blocks(channels: int) -> Pairs:
            room = workspace // (4 * columns * channels)
            rows = max(min(((room - 1) * step - last) // stride_h + 1, out_rows), 1)
            return cls(channels, rows, step, ((rows - 1) * stride_h + last) // step + 1, columns)

        choices = [blocks(c) for c in range(MOST_CHANNELS, 0, -4) if total % c == 0]
        fitting = [p for p in choices if 4 * p.count * p.pitch <= workspace]
        return min(fitting, key=lambda p: p.cost) if fitting else choices[-1]


def neighbours(columns: int, width: int, stride: int) -> int:
    """How many windows of a row at a time: what they load and what overlaps costs least."""

    def cost(count: int) -> int:
        return -(-columns // count) * ((count - 1) * stride + width + count * (width + 4) + 6)

    return min(range(min(MOST_POSITIONS, columns), 0, -1), key=cost)


def packed_taps(weights: NDArray[np.integer], height: int) -> NDArray[np.int16]:
    """[channel, pair of rows, column, 2], the last row with zeros if their number is odd."""
    taps = weights.reshape(len(weights), height, -1).astype(np.int16)
    whole = np.pad(taps, ((0, 0), (0, height % 2), (0, 0)))
    split = whole.reshape(len(weights), -1, 2, whole.shape[2])
    return np.ascontiguousarray(split.transpose(0, 1, 3, 2))


def _function(layer: Layer, op: Conv2dOp, pairs: Pairs, positions: int) -> str:
    """The windows of `positions` neighbours, every load named once."""
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
    """Print the layer; `fits_depthwise` holds."""
    layer, op, sums = of.layer, of.window, of.sums
    _, height, width, total = shape_of(op.input)
    _, out_rows, out_columns, _ = shape_of(op.result)
    _, kernel_h, kernel_w, _ = shape_of(op.weights)
    (stride_h, stride_w), (top, left, _, _) = op.strides.get_values(), op.padding.get_values()
    pairs = Pairs.of(op, layer.options.workspace)
    positions = neighbours(out_columns, kernel_w, stride_w)
    words = -(-kernel_h // 2) * kernel_w
    function = _function(layer, op, pairs, positions)
    fill = layer.kernels.use(
        "dsp_row_pairs", NAME=str(pairs.channels), CHANNELS=str(pairs.channels)
    )

    w = layer.constant(
        "weights", "int16_t", total * words * 2, 2, lambda: packed_taps(sums.centred(), kernel_h)
    )
    layer.scratch("uint32_t", "pairs", pairs.count * pairs.pitch, 4)
    rows, point = pairs.rows, zero_point_of(sums.x)
    start = earlier("block", out_rows, rows, out_rows % rows == 0)
    row = f"first * {stride_h} - {top} + i * {pairs.step}"
    down = stride_h // pairs.step * pairs.pitch
    column = earlier(f"{positions} * p", out_columns, positions, out_columns % positions == 0)
    layer.line(f"for (int32_t c = 0; c < {total}; c += {pairs.channels})")
    layer.line(f"for (int32_t block = 0; block < {out_rows}; block += {rows}) {{")
    layer.line(f"const int32_t first = {start};", 1)
    layer.loop(
        "i",
        pairs.count,
        [
            f"{fill}(pairs + i * {pairs.pitch}, {of.x} + c, {row}, {height}, {width}, {total}, "
            f"{left}, {pairs.columns}, {point});"
        ],
        1,
    )
    layer.line(f"for (int32_t r = 0; r < {rows}; ++r)", 1)
    layer.loop(
        "i",
        pairs.channels,
        [
            "const int32_t o = c + i;",
            f"const uint32_t *taps = (const uint32_t *)(const void *)({w} + o * {2 * words});",
            f"for (int32_t p = 0; p < {-(-out_columns // positions)}; ++p) {{",
            f"  const int32_t column = {column};",
            f"  const int32_t corner = ((first + r) * {out_columns} + column) * {total};",
            f"  int32_t sums[{positions}];",
            f"  {function}(sums, pairs + r * {down} + column * {stride_w * pairs.channels} + i, "
            f"taps, {of.bias}[o]);",
            *(
                f"  {text}"
                for p in range(positions)
                for text in of.epilogue_at(f"sums[{p}]", p * total)
            ),
            "}",
        ],
        1,
    )
    layer.line("}")
