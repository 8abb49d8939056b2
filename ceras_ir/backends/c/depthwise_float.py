"""
Depthwise convolution of floats: a vector of channels of one window after the other, the weights in
registers. Windows that reach into the padding loop over the taps inside.
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

MOST_TAPS = 49
"""Products of a window that are written out; more are left to loops."""


def print_depthwise(
    layer: Layer,
    op: Conv2dOp,
    geometry: Geometry,
    names: tuple[str, str, str, str | None],
    epilogue: Epilogue,
) -> None:
    """The layer's function; names of input, result, weights [taps, channels] and bias."""
    channels = geometry.groups
    if not layer.options.vectors or op.ordered is not None or geometry.k > MOST_TAPS:
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
    has_edges = len(down) < rows or len(along) < columns
    # Compilers refuse a window that nobody reads.
    place = window(layer, op) if has_edges else ""
    edge = layer.kernels.use("depthwise_edge_f32")
    inside = layer.kernels.add(*_windows(kernel_h, kernel_w), FLOAT_VECTORS)
    if bias is None:
        bias = layer.array("bias", np.zeros(channels, np.float32), "float")
    size, line = columns * channels, width * channels
    image = f"n / {rows} * {height * line} + " if images > 1 else ""
    row = f"n % {rows}" if images > 1 else "n"
    taken = (along.start * stride_w - left) * channels - top * line

    def edges(start: int, count: int) -> list[str]:
        at = f"n * {columns} + {start}" if start else f"n * {columns}"
        return [f"{edge}({y}, {x}, {w}, {bias}, {place}, {at}, {count});"] if count else []

    ends = edges(0, columns)
    whole = [
        f"{inside}({y} + n * {size} + {along.start * channels},",
        f"  {x} + ({image}{row} * {stride_h * line} + {taken}), {w}, {bias}, {len(along)},",
        f"  {stride_w * channels}, {dilation_h * line}, {dilation_w * channels}, {channels});",
        *edges(0, along.start),
        *edges(along.stop, columns - along.stop),
    ]
    if not along or not down:
        body = ends
    elif len(down) == rows:
        body = whole
    else:
        limits = [f"{row} >= {down.start}"] if down.start else []
        limits += [f"{row} < {down.stop}"] if down.stop < rows else []
        body = [f"if ({' && '.join(limits)}) {{", *(f"  {line}" for line in whole), "} else {"]
        body += [*(f"  {line}" for line in ends), "}"]
    if op.macs >= LEAST_SHARED:
        layer.line("MODEL_THREADS(1)")
    layer.loop("n", images * rows, [*body, *epilogue(f"n * {size}", f"(n + 1) * {size}")])


def _windows(rows: int, columns: int) -> tuple[str, str]:
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
