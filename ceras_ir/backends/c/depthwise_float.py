"""
Depthwise convolution of floats: a vector of channels of several windows of a row at once, or, where
windows reach into the padding on either side, several vectors of one.
"""

from collections.abc import Callable

import numpy as np

from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.register_tiles import FLOAT_LANES, FLOAT_VECTORS
from ceras_ir.backends.c.rows import Geometry, window
from ceras_ir.backends.c.tile_nest import LEAST_SHARED
from ceras_ir.dialects.graph import Conv2dOp, shape_of

Epilogue = Callable[[str, str], list[str]]
"""Statements that finish the elements from the first to before the second index."""

MOST_TAPS = 9
"""Weights of a channel that stay in registers from window to window."""

MOST_POSITIONS = 8
"""Windows at once: their sums fit into registers, and each weight is loaded once for all."""


def print_depthwise(
    layer: Layer,
    op: Conv2dOp,
    geometry: Geometry,
    names: tuple[str, str, str, str | None],
    epilogue: Epilogue,
) -> None:
    """The layer's function; names of input, result, weights [taps, channels] and bias."""
    channels = geometry.groups
    if not layer.options.vectors or op.ordered is not None:
        _print_portable(layer, op, geometry, names, epilogue)
        return
    with layer.variants(f"{FLOAT_VECTORS} && {FLOAT_LANES} <= {channels}") as otherwise:
        _print_vectors(layer, op, names, epilogue)
        otherwise()
        _print_portable(layer, op, geometry, names, epilogue)


def _print_portable(
    layer: Layer,
    op: Conv2dOp,
    geometry: Geometry,
    names: tuple[str, str, str, str | None],
    epilogue: Epilogue,
) -> None:
    x, y, w, bias = names
    place = window(layer, op)
    holes = {"NAME": "f32", "SUM": "float", "IN": "float", "WEIGHT": "float"}
    kernel = layer.kernels.use("depthwise", **holes, WIDE="float", CENTRE="")
    channels = geometry.groups
    start = f"{bias}[o]" if bias is not None else "0.0f"
    lines = [
        f"float *to = {y} + p * {channels};",
        f"for (int32_t o = 0; o < {channels}; ++o) to[o] = {start};",
        f"{kernel}(to, {x}, {w}, {place}, p, 0);",
    ]
    layer.loop("p", geometry.positions, lines)
    layer.block(epilogue("0", str(geometry.positions * channels)))


def _inside(size: int, count: int, taps: int, stride: int, before: int, dilation: int) -> range:
    """Positions along one dimension whose windows do not reach into the padding."""
    first = min(-(-before // stride), count)
    end = (size - 1 - (taps - 1) * dilation + before) // stride + 1
    return range(first, max(first, min(end, count)))


def _print_vectors(
    layer: Layer, op: Conv2dOp, names: tuple[str, str, str, str | None], epilogue: Epilogue
) -> None:
    x, y, w, bias = names
    images, height, width, channels = shape_of(op.input)
    _, rows, columns, _ = shape_of(op.result)
    _, kernel_h, kernel_w, _ = shape_of(op.weights)
    stride_h, stride_w = op.strides.get_values()
    dilation_h, dilation_w = op.dilations.get_values()
    top, left = op.padding.get_values()[:2]
    down = _inside(height, rows, kernel_h, stride_h, top, dilation_h)
    along = _inside(width, columns, kernel_w, stride_w, left, dilation_w)
    if bias is None:
        bias = layer.array("bias", np.zeros(channels, np.float32), "float")
    size, line = columns * channels, width * channels
    row = f"n % {rows}" if images > 1 else "n"
    first = f"{row} * {stride_h} - {top}" if top else f"{row} * {stride_h}"
    image = f"n / {rows} * {height} + " if images > 1 else ""
    lines = [f"const int32_t first = {first};"]
    count, above = str(kernel_h), ""
    if len(down) < rows:
        layer.kernels.use("window")
        # Rows of a window that are outside are left out.
        lines += [
            f"const int32_t above = first_tap(first, {dilation_h});",
            f"const int32_t below = end_tap(first, {dilation_h}, {height}, {kernel_h});",
        ]
        count, above = "below - above", " + above"
    source = f"({image}first{f'{above} * {dilation_h}' if above else ''}) * {line}"
    weights = f"{w}{f'{above} * {kernel_w * channels}' if above else ''}"
    lines.append(f"const float *from = {x} + {source}, *taps = {weights};")
    layer.kernels.use("vectors_f32")

    def edges(begin: int, end: int) -> list[str]:
        if begin == end:
            return []
        edge = layer.kernels.use("depthwise_edge_f32")
        return [
            f"{edge}({y} + n * {size}, from, taps, {bias}, {begin}, {end}, {stride_w}, {left}, "
            f"{width},",
            f"  {count}, {dilation_h * line}, {kernel_w}, {dilation_w}, {channels});",
        ]

    def inside(*, is_whole: bool) -> list[str]:
        """Windows without columns outside; `is_whole` if they have no rows outside either."""
        if not along:
            return []
        at = (along.start * stride_w - left) * channels
        start = f" + {along.start * channels}" if along.start else ""
        way, sizes = _few_taps(kernel_h, kernel_w), ""
        if not is_whole or kernel_h * kernel_w > MOST_TAPS:
            way, sizes = _windows(_positions(len(along))), f"{count}, {kernel_w}, "
        return [
            f"{layer.kernels.add(*way, FLOAT_VECTORS)}({y} + n * {size}{start}, from + {at}, taps,",
            f"  {bias}, {len(along)}, {stride_w * channels}, {sizes}{dilation_h * line}, "
            f"{dilation_w * channels}, {channels});",
        ]

    if along and above and kernel_h * kernel_w <= MOST_TAPS:
        lines += [
            f"if ({count} == {kernel_h}) {{",
            *(f"  {text}" for text in inside(is_whole=True)),
            "} else {",
            *(f"  {text}" for text in inside(is_whole=False)),
            "}",
        ]
    else:
        lines += inside(is_whole=not above)
    lines += [*edges(0, along.start), *edges(along.stop, columns)]
    if op.macs >= LEAST_SHARED:
        layer.line("MODEL_THREADS(1)")
    layer.loop("n", images * rows, [*lines, *epilogue(f"n * {size}", f"(n + 1) * {size}")])


def _positions(count: int) -> int:
    """How many windows of so many are computed at once: the last may be computed twice."""
    few = range(1, min(count, MOST_POSITIONS) + 1)
    # Each tap of a tile loads a weight and an element for each window.
    return min(few, key=lambda size: (-(-count // size) * (size + 1), -size))


def _windows(positions: int) -> tuple[str, str]:
    """A function that computes so many windows at once; name and text."""
    name = f"depthwise_f32_{positions}"
    each = range(positions)

    def step(p: int, name: str) -> str:
        return f" + {p} * {name}" if p > 1 else f" + {name}" if p else ""

    lines = [
        f"/* `count` windows, {positions} at once, `step` floats apart, all columns inside of",
        " * the map. The last begin earlier, so that all are there. */",
        f"MODEL_TILE void {name}(float *restrict y, const float *restrict x,",
        "  const float *restrict weights, const float *restrict bias, int32_t count, int32_t step,",
        "  int32_t rows, int32_t columns, int32_t row, int32_t column, int32_t channels)",
        "{",
        "  for (int32_t b = 0; b < channels; b += MODEL_F32) {",
        "    /* So does the last vector. */",
        "    const int32_t c = b < channels - MODEL_F32 ? b : channels - MODEL_F32;",
        "    const model_f32v start = LOAD_F32(bias + c);",
        f"    for (int32_t i = 0; i < count; i += {positions}) {{",
        f"      const int32_t at = i < count - {positions} ? i : count - {positions};",
        "      const float *from = x + at * step + c, *w = weights + c;",
        f"      model_f32v {', '.join(f's{p} = start' for p in each)};",
        "      for (int32_t ky = 0; ky < rows; ++ky, from += row) {",
        "        const float *tap = from;",
        "        MODEL_ROLLED",
        "        for (int32_t kx = 0; kx < columns; ++kx, tap += column, w += channels) {",
        "          const model_f32v v = LOAD_F32(w);",
        *(f"          s{p} = FMA(s{p}, LOAD_F32(tap{step(p, 'step')}), v);" for p in each),
        "        }",
        "      }",
        "      float *const to = y + at * channels + c;",
        *(f"      STORE_F32(to{step(p, 'channels')}, s{p});" for p in each),
        "    }",
        "  }",
        "}",
        "",
    ]
    return name, "\n".join(lines)


def _few_taps(rows: int, columns: int) -> tuple[str, str]:
    """A function that computes windows of so many taps side by side; name and text."""
    name = f"depthwise_f32_{rows}x{columns}"
    taps = [(i, j) for i in range(rows) for j in range(columns)]
    products = [
        f"      s = FMA(s, LOAD_F32(from + {i} * row + {j} * column), w{i}_{j});" for i, j in taps
    ]
    weights = [
        f"    const model_f32v w{i}_{j} = LOAD_F32(weights + {i * columns + j} * channels + c);"
        for i, j in taps
    ]
    lines = [
        f"/* `count` windows of {rows}x{columns} taps inside of the map, `step` floats apart. */",
        f"MODEL_TILE void {name}(float *restrict y, const float *restrict x,",
        "  const float *restrict weights, const float *restrict bias, int32_t count, int32_t step,",
        "  int32_t row, int32_t column, int32_t channels)",
        "{",
        "  for (int32_t b = 0; b < channels; b += MODEL_F32) {",
        "    /* The last vector begins earlier, so that it is whole. */",
        "    const int32_t c = b < channels - MODEL_F32 ? b : channels - MODEL_F32;",
        "    const model_f32v start = LOAD_F32(bias + c);",
        *weights,
        "    const float *from = x + c;",
        "    float *to = y + c;",
        "    for (int32_t i = 0; i < count; ++i, from += step, to += channels) {",
        "      model_f32v s = start;",
        *products,
        "      STORE_F32(to, s);",
        "    }",
        "  }",
        "}",
        "",
    ]
    return name, "\n".join(lines)
