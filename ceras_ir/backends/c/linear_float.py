"""
Print float convolutions and matrix products: rows of windows times weights, with the loop over
outputs innermost.

Depthwise convolution computes a vector of channels for several adjacent windows. If a window
contains padding columns, several vectors of channels are computed for this single window.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import inf

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.constants import Array
from ceras_ir.backends.c.float_tiled import (
    clamp_of,
    float_bias,
    float_weights,
    print_float_tiles,
)
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.linear_sparse import sparse_float, sparse_planes
from ceras_ir.backends.c.machines import COptions
from ceras_ir.backends.c.neon_windows import HeldWindows, times
from ceras_ir.backends.c.register_tiles import FLOAT_LANES, FLOAT_VECTORS, NEON, RVV
from ceras_ir.backends.c.sums import Geometry, open_row_loop, rows_at_once, window
from ceras_ir.backends.c.tile_loops import is_shared
from ceras_ir.backends.c.tile_nest import Nest
from ceras_ir.backends.c.values import Refused, apply, constant_weights
from ceras_ir.backends.c.winograd import Winograd
from ceras_ir.dialects.graph import ConstantOp, Conv2dOp, LinearOperation, shape_of
from ceras_ir.interpreters.float_text import float_literal
from ceras_ir.support.option_uses import record_use

FloatEpilogue = Callable[[str, str], list[str]]
"""A function that returns the statements of the epilogue for elements [first, second)."""

MAX_UNROLLED_TAPS = 7
"""The maximum number of taps in a row of a window of which a function has separate statements."""

DEPTHWISE_POSITIONS = 6
"""The maximum number of windows of a tile, with sums in registers and shared weights."""


def print_float_depthwise(
    layer: Layer,
    op: Conv2dOp,
    geometry: Geometry,
    names: tuple[str, str, str, str | None],
    epilogue: FloatEpilogue,
) -> None:
    """
    Print a float depthwise convolution. `names` are the C names of input, result, weights [taps,
    channels] and bias (`None` without bias). `epilogue` returns the statements of the output stage
    for a range of elements.
    """
    channels = geometry.groups
    if not layer.options.vectors or op.ordered is not None:
        _print_portable(layer, op, geometry, names, epilogue)
        return
    x, y, w, bias = names
    if bias is None:
        bias = layer.array("bias", np.zeros(channels, np.float32), "float")
    vectors = partial(_print_vectors, layer, op, (x, y, w, bias), epilogue)
    with layer.variants(f"{FLOAT_VECTORS} && {FLOAT_LANES} <= {channels}") as otherwise:
        with layer.variants(NEON) as others:
            vectors(for_arm=True)
            others()
            vectors()
        otherwise()
        with layer.variants(RVV) as portable:
            vectors(has_tiles=False)
            portable()
            _print_portable(layer, op, geometry, names, epilogue)


def _print_portable(
    layer: Layer,
    op: Conv2dOp,
    geometry: Geometry,
    names: tuple[str, str, str, str | None],
    epilogue: FloatEpilogue,
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
    """
    Return the output positions along an axis at which the window contains no padding. The axis has
    `size` inputs, `count` outputs and windows of `taps` elements; `before` elements are padded at
    its start.
    """
    first = min(-(-before // stride), count)
    end = (size - 1 - (taps - 1) * dilation + before) // stride + 1
    return range(first, max(first, min(end, count)))


def _print_vectors(
    layer: Layer,
    op: Conv2dOp,
    names: tuple[str, str, str, str],
    epilogue: FloatEpilogue,
    *,
    has_tiles: bool = True,
    for_arm: bool = False,
) -> None:
    """
    Print a depthwise convolution in vectors: windows without padding in tiles, if `has_tiles`, the
    others one by one. `for_arm` selects the tiles of 64-bit Arm for complete windows.
    """
    x, y, w, bias = names
    images, height, width, channels = shape_of(op.input)
    _, rows, columns, _ = shape_of(op.result)
    _, kernel_h, kernel_w, _ = shape_of(op.weights)
    stride_h, stride_w = op.strides.get_values()
    dilation_h, dilation_w = op.dilations.get_values()
    top, left = op.padding.get_values()[:2]
    down = _inside(height, rows, kernel_h, stride_h, top, dilation_h)
    along = _inside(width, columns, kernel_w, stride_w, left, dilation_w) if has_tiles else range(0)
    size, line = columns * channels, width * channels
    row = f"n % {rows}" if images > 1 else "n"
    first = f"{row} * {stride_h} - {top}" if top else f"{row} * {stride_h}"
    image = f"n / {rows} * {height} + " if images > 1 else ""
    lines = [f"const int32_t first = {first};"]
    count, above = str(kernel_h), ""
    if len(down) < rows:
        layer.kernels.use("window")
        # Rows of a window outside of the map are skipped.
        lines += [
            f"const int32_t above = first_tap(first, {dilation_h});",
            f"const int32_t below = end_tap(first, {dilation_h}, {height}, {kernel_h});",
        ]
        count, above = "below - above", " + above"
    source = f"({image}first{f'{above} * {dilation_h}' if above else ''}) * {line}"
    weights = f"{w}{f'{above} * {kernel_w * channels}' if above else ''}"
    lines.append(f"const float *from = {x} + {source}, *taps = {weights};")
    layer.kernels.use("vectors_f32")

    # The function of a tile applies a clamp; other activations follow.
    clamp = clamp_of(op) if op.residual is None else None
    low, high = map(float_literal, clamp or (-inf, inf))

    def edges(begin: int, end: int) -> list[str]:
        if begin == end:
            return []
        edge = layer.kernels.use("depthwise_edge_f32")
        return [
            f"{edge}({y} + n * {size}, from, taps, {bias}, {begin}, {end}, {stride_w}, {left}, "
            f"{width},",
            f"  {count}, {dilation_h * line}, {kernel_w}, {dilation_w}, {channels}, {low}, "
            f"{high});",
        ]

    if along:
        at = (along.start * stride_w - left) * channels
        start = f" + {along.start * channels}" if along.start else ""
        way = _Windows(_positions(len(along)), has_clamp=clamp is not None)
        sizes = f"{kernel_w}, {dilation_w * channels}, {stride_w * channels}, "
        if dilation_w == 1 and kernel_w <= MAX_UNROLLED_TAPS:
            way, sizes = replace(way, columns=kernel_w, stride=stride_w), ""
        ends = f"{channels}{f', {low}, {high}' if clamp is not None else ''});"
        places = f"{y} + n * {size}{start}, from + {at}, taps, {bias}, {len(along)}"
        held: HeldWindows | None = None
        if for_arm and dilation_w == 1:
            kernel, has_clamp = (kernel_h, kernel_w), clamp is not None
            held = HeldWindows.of(len(along), kernel, stride_w, has_clamp=has_clamp)
        if held is not None:
            call = f"{held.add(layer.kernels)}({places}, {dilation_h * line}, {ends}"
            lines.append(call if count == str(kernel_h) else f"if ({count} == {kernel_h}) {call}")
        if held is None or count != str(kernel_h):
            function = layer.kernels.add(*way.function(), FLOAT_VECTORS)
            lines += [
                *(["else"] if held is not None else []),
                f"{function}({places}, {count}, {dilation_h * line},",
                f"  {sizes}{ends}",
            ]
    lines += [*edges(0, along.start), *edges(along.stop, columns)]
    if clamp is None:
        lines += epilogue(f"n * {size}", f"(n + 1) * {size}")
    if is_shared(layer):
        layer.line("MODEL_THREADS(1)")
    layer.loop("n", images * rows, lines)


def _positions(count: int) -> int:
    """
    Return the number of adjacent windows that a tile computes at a time, so that a row of `count`
    windows needs the least time. The last tile may compute windows a second time.
    """
    few = range(1, min(count, DEPTHWISE_POSITIONS) + 1)
    # Each tap of a tile loads a weight, and about an element for each window.
    return min(few, key=lambda size: (-(-count // size) * (size + 2), -size))


@dataclass(frozen=True)
class _Windows:
    """
    A C function for adjacent windows of a depthwise convolution in tiles of `positions`, which
    share each loaded weight. Channels are the inner loop, because a cache loads adjacent elements
    faster.
    """

    positions: int
    has_clamp: bool
    columns: int = 0
    """The taps in a row of a window, or 0: an argument of the function."""
    stride: int = 0
    """The columns between windows, if the number of taps is not an argument."""

    def function(self) -> tuple[str, str]:
        """Return the name and the text of the function."""
        size = self.positions
        name = f"depthwise_f32_{size}"
        parameters, advance = "int32_t columns, int32_t column, int32_t step, ", ""
        if self.columns:
            name, parameters = f"{name}_{self.columns}_by_{self.stride}", ""
            taps = [f for kx in range(self.columns) for f in self._tap(kx)]
            advance = f", w += {self.columns} * channels"
            step = f"{self.stride} * channels"
        else:
            taps = [
                "const float *tap = from;",
                "MODEL_ROLLED",
                "for (int32_t kx = 0; kx < columns; ++kx, tap += column, w += channels) {",
                "  const model_f32v v = LOAD_F32(w);",
                *(f"  s{p} = FMA(s{p}, LOAD_F32(tap{times(p, 'step')}), v);" for p in range(size)),
                "}",
            ]
            step = "step"
        clamp, bounds = "", ""
        if self.has_clamp:
            name += "_clamped"
            clamp, bounds = "AT_MOST(AT_LEAST(s{0}, least), most)", ", float low, float high"
        results = [(clamp or "s{0}").format(p) for p in range(size)]
        lines = [
            f"/* `count` windows in tiles of {size}, with all columns inside of the map. The last",
            " * tile and the last vector begin earlier, so that they are complete. */",
            f"MODEL_TILE void {name}(float *restrict y, const float *restrict x,",
            "  const float *restrict weights, const float *restrict bias, int32_t count,",
            f"  int32_t rows, int32_t row, {parameters}int32_t channels{bounds})",
            "{",
            *(["  const model_f32v least = ALL_F32(low), most = ALL_F32(high);"] * self.has_clamp),
            f"  for (int32_t i = 0; i < count; i += {size}) {{",
            f"    const int32_t at = i < count - {size} ? i : count - {size};",
            "    for (int32_t b = 0; b < channels; b += MODEL_F32) {",
            "      const int32_t c = b < channels - MODEL_F32 ? b : channels - MODEL_F32;",
            f"      const float *from = x + at * {step} + c, *w = weights + c;",
            "      const model_f32v start = LOAD_F32(bias + c);",
            f"      model_f32v {', '.join(f's{p} = start' for p in range(size))};",
            f"      for (int32_t ky = 0; ky < rows; ++ky, from += row{advance}) {{",
            *(f"        {text}" for text in taps),
            "      }",
            "      float *const to = y + at * channels + c;",
            *(
                f"      STORE_F32(to{times(p, 'channels')}, {result});"
                for p, result in enumerate(results)
            ),
            "    }",
            "  }",
            "}",
            "",
        ]
        return name, "\n".join(lines)

    def _tap(self, column: int) -> list[str]:
        """Return the statements for a tap of all windows of a tile."""
        places = (times(p * self.stride + column, "channels") for p in range(self.positions))
        return [
            f"const model_f32v v{column} = LOAD_F32(w{times(column, 'channels')});",
            *(
                f"s{p} = FMA(s{p}, LOAD_F32(from{place}), v{column});"
                for p, place in enumerate(places)
            ),
        ]


END = "(first + count) * {}"


def float_linear(layer: Layer, op: LinearOperation) -> None:
    """Print `graph.conv2d` and `graph.matmul` on float32 with constant weights."""
    if op.weight_scale is not None:
        raise Refused("int8 weights with float inputs require graph.matmul; quantize the network")
    geometry = Geometry.of(op)
    if (planes := sparse_planes(layer, op, geometry)) is not None:
        sparse_float(layer, op, planes)
        return
    weights = constant_weights(op)
    total = geometry.groups * geometry.n
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    residual = layer.read_if(op.residual, "residual")
    nest = float_nest(layer, op, geometry)
    if nest is not None:
        winograd = Winograd.of(nest, COptions.winograd)
        if winograd is not None:
            record_use("winograd")
            if layer.options.winograd != COptions.winograd:
                winograd = Winograd.of(nest, layer.options.winograd)
        if winograd is not None:
            layer.vector_cycles = winograd.cycles
            nest = winograd.nest
        elif layer.options.common_tiles:
            nest = float_nest(layer, op, geometry, common=True) or nest
        w, bias = float_weights(layer, op, nest, weights), float_bias(layer, op, nest)
        with layer.variants(FLOAT_LANES) as otherwise:
            names = x, y, w, bias, residual or ""
            if winograd is not None:
                _print_winograd(layer, op, winograd, names)
            else:
                print_float_tiles(layer, op, nest, names)
            otherwise()
            place = window(layer, op) if isinstance(op, Conv2dOp) and not geometry.is_direct else ""
            epilogue = epilogue_lines(layer, op, y, residual, f"first * {total}", END.format(total))
            joined = geometry.with_merged_groups(nest.merged_groups)
            _rows(layer, joined, (x, y, w, place), bias, epilogue, nest.tile.width)
        return
    bias = layer.read_if(op.bias, "bias")
    # An ordered sum starts from 0; the bias is added last, with the residual.
    first, last = (bias, None) if op.ordered is None else (None, bias)

    def packed() -> Array:
        return pack(np.asarray(weights.array(), np.float32), geometry)

    w = layer.constant("weights", "float", total * geometry.k, 4, packed)

    def finish(start: str, end: str) -> list[str]:
        return epilogue_lines(layer, op, y, residual, start, end, last)

    if isinstance(op, Conv2dOp) and geometry.is_depthwise:
        print_float_depthwise(layer, op, geometry, (x, y, w, first), finish)
        return
    place = window(layer, op) if isinstance(op, Conv2dOp) and not geometry.is_direct else ""
    lines = finish(f"first * {total}", END.format(total))
    _rows(layer, geometry, (x, y, w, place), first, lines, geometry.n)


def _print_winograd(
    layer: Layer, op: LinearOperation, winograd: Winograd, names: tuple[str, str, str, str, str]
) -> None:
    four = winograd.of_four(layer.options.winograd)
    if four is None:
        winograd.print(layer, op, names)
        return
    with layer.variants(f"{NEON} || {RVV}") as otherwise:
        four.print(layer, op, names)
        otherwise()
        winograd.print(layer, op, names)


def float_nest(
    layer: Layer, op: LinearOperation, geometry: Geometry, *, common: bool = False
) -> Nest | None:
    """
    Return the loops over register tiles for a layer, or `None` if only loops without vectors
    support it, such as for depthwise convolutions. With `common`, the tile is the same for
    different numbers of positions.
    """
    if not layer.options.vectors or geometry.is_depthwise or op.ordered is not None:
        return None
    if op.bias is not None and not isinstance(op.bias.owner, ConstantOp):
        return None
    options = layer.options
    return Nest.of(
        op, geometry, 4, options.workspace, in_place=True, rank=options.tile_rank, common=common
    )


def pack(weights: NDArray[np.float32], geometry: Geometry) -> NDArray[np.float32]:
    """
    Pack weights as [groups, k, n], where k is the products per output and n the outputs per group.
    Weights of depthwise convolutions are packed as [k, channels].
    """
    if geometry.is_depthwise:
        return np.ascontiguousarray(weights.reshape(geometry.groups, geometry.k).T)
    split = weights.reshape(geometry.groups, geometry.n, geometry.k)
    return np.ascontiguousarray(split.transpose(0, 2, 1))


def _start(total: int, bias: str | None) -> str:
    start = f"{bias}[o]" if bias is not None else "0.0f"
    return f"for (int32_t o = 0; o < {total}; ++o) to[o] = {start};"


def _rows(
    layer: Layer,
    geometry: Geometry,
    names: tuple[str, str, str, str],
    bias: str | None,
    epilogue: list[str],
    panel: int,
) -> None:
    """
    Print products of input rows (windows) with weights that are packed in panels of `panel`
    outputs, without register tiles. `names` are the C names of input, result, weights and struct
    `window`.
    """
    x, y, w, place = names
    k, n, total = geometry.k, geometry.n, geometry.groups * geometry.n
    multiply = layer.kernels.use("multiply_rows")
    rows = rows_at_once(layer, geometry, 4 * k)
    if not geometry.is_direct:
        layer.scratch("float", "rows", rows * k, 4)
    depth = open_row_loop(layer, geometry, rows)
    layer.loop(
        "r", "count", [f"float *to = {y} + (first + r) * {total};", _start(total, bias)], depth
    )
    rows_at = f"{x} + first * {k}" if geometry.is_direct else "rows"
    body: list[str] = []
    grouped = geometry.groups > 1
    if not geometry.is_direct:
        gather = layer.kernels.use("gather", NAME="f32", IN="float", ROW="float", SHIFT="")
        offset = f" + g * {geometry.group_channels}" if grouped else ""
        arguments = f"{k}, {x}{offset}, {place}, first + r, {geometry.group_channels}, 0.0f"
        body.append(f"for (int32_t r = 0; r < count; ++r) {gather}(rows + r * {k}, {arguments});")
    to, factors = f"{y} + first * {total}", w
    if grouped:
        to, factors = f"{to} + g * {n}", f"{w} + g * {k * -(-n // panel) * panel}"
    if panel < n:
        width = f"{n} - b < {panel} ? {n} - b : {panel}" if n % panel else str(panel)
        body += [
            f"for (int32_t b = 0; b < {n}; b += {panel}) {{",
            f"  {multiply}(count, {width}, {k}, {rows_at}, {k}, {factors} + b * {k}, {panel}, "
            f"{to} + b, {total});",
            "}",
        ]
    else:
        body.append(
            f"{multiply}(count, {n}, {k}, {rows_at}, {k}, {factors}, {panel}, {to}, {total});"
        )
    if grouped:
        layer.loop("g", geometry.groups, body, depth)
    else:
        layer.block(body, depth)
    layer.block(epilogue, depth)
    layer.line("}")


def epilogue_lines(
    layer: Layer,
    op: LinearOperation,
    y: str,
    residual: str | None,
    start: str,
    end: str,
    bias: str | None = None,
) -> list[str]:
    """
    Return the C loop that adds `bias` and `residual` to the elements [start, end) of the result
    `y`, and applies the activation. `bias` and `residual` are C names or `None`. Without any of
    these, return no lines.
    """
    if residual is None and bias is None and op.activation is None:
        return []
    channels = shape_of(op.result)[-1]
    value = f"{y}[i]" + (f" + {bias}[i % {channels}]" if bias is not None else "")
    value += f" + {residual}[i]" if residual is not None else ""
    result = apply(layer.kernels, op.activation, "v")
    return [
        f"for (int32_t i = {start}; i < {end}; ++i) {{",
        f"  const float v = {value};",
        f"  {y}[i] = {result};",
        "}",
    ]
