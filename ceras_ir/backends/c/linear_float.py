"""Float convolution and matrix product: rows of windows times weights, outputs innermost."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.constants import Array
from ceras_ir.backends.c.depthwise_float import print_depthwise
from ceras_ir.backends.c.float_tiled import float_bias, float_weights, print_float_tiles
from ceras_ir.backends.c.float_winograd import Winograd
from ceras_ir.backends.c.functions import apply
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.linear_sparse import sparse_float, sparse_planes
from ceras_ir.backends.c.operands import constant_weights
from ceras_ir.backends.c.register_tiles import FLOAT_LANES
from ceras_ir.backends.c.requant import Refused
from ceras_ir.backends.c.rows import Geometry, open_row_loop, rows_at_once, window
from ceras_ir.backends.c.tile_nest import Nest
from ceras_ir.dialects.graph import ConstantOp, Conv2dOp, LinearOperation, shape_of

END = "(first + count) * {}"


def float_linear(layer: Layer, op: LinearOperation) -> None:
    """`graph.conv2d` and `graph.matmul` on float32."""
    if op.weight_scale is not None:
        raise Refused("int8 weights beside floats are for graph.matmul; quantize the network")
    geometry = Geometry.of(op)
    if (planes := sparse_planes(layer, op, geometry)) is not None:
        sparse_float(layer, op, planes)
        return
    weights = constant_weights(op)
    total = geometry.groups * geometry.n
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    residual = layer.read(op.residual, "residual") if op.residual is not None else None
    nest = tiled_nest(layer, op, geometry)
    if nest is not None:
        winograd = Winograd.of(nest, layer.options.winograd)
        if winograd is not None:
            nest = replace(nest, tile=winograd.tile)
        w, bias = float_weights(layer, op, nest, weights), float_bias(layer, op, nest)
        with layer.variants(FLOAT_LANES) as otherwise:
            names = x, y, w, bias, residual or ""
            if winograd is not None:
                winograd.print(layer, op, names)
            else:
                print_float_tiles(layer, op, nest, names)
            otherwise()
            place = window(layer, op) if isinstance(op, Conv2dOp) and not geometry.direct else ""
            epilogue = epilogue_lines(layer, op, y, residual, f"first * {total}", END.format(total))
            joined = geometry.together(nest.together)
            _rows(layer, joined, (x, y, w, place), bias, epilogue, nest.tile.width)
        return
    bias = layer.read(op.bias, "bias") if op.bias is not None else None
    # An ordered sum starts from 0: its bias comes last, with the residual.
    first, last = (bias, None) if op.ordered is None else (None, bias)

    def packed() -> Array:
        return pack(np.asarray(weights.array(), np.float32), geometry)

    w = layer.constant("weights", "float", total * geometry.k, 4, packed)

    def finish(start: str, end: str) -> list[str]:
        return epilogue_lines(layer, op, y, residual, start, end, last)

    if isinstance(op, Conv2dOp) and geometry.depthwise:
        print_depthwise(layer, op, geometry, (x, y, w, first), finish)
        return
    place = window(layer, op) if isinstance(op, Conv2dOp) and not geometry.direct else ""
    lines = finish(f"first * {total}", END.format(total))
    _rows(layer, geometry, (x, y, w, place), first, lines, geometry.n)


def tiled_nest(layer: Layer, op: LinearOperation, geometry: Geometry) -> Nest | None:
    """How a layer is cut into tiles, or None where loops serve."""
    if not layer.options.vectors or geometry.depthwise or op.ordered is not None:
        return None
    if op.bias is not None and not isinstance(op.bias.owner, ConstantOp):
        return None
    options = layer.options
    return Nest.of(op, geometry, 4, options.workspace, in_place=True, rank=options.tile_rank)


def pack(weights: NDArray[np.float32], geometry: Geometry) -> NDArray[np.float32]:
    """[groups, k, n]; of depthwise filters [k, channels]."""
    if geometry.depthwise:
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
    """Weights in panels of `panel` outputs, which those of each group fill."""
    x, y, w, place = names
    k, n, total = geometry.k, geometry.n, geometry.groups * geometry.n
    multiply = layer.kernels.use("multiply_rows")
    rows = rows_at_once(layer, geometry, 4 * k)
    if not geometry.direct:
        layer.scratch("float", "rows", rows * k, 4)
    depth = open_row_loop(layer, geometry, rows)
    layer.loop(
        "r",
        "count",
        [
            f"float *to = {y} + (first + r) * {total};",
            _start(total, bias),
        ],
        depth,
    )
    rows_at = f"{x} + first * {k}" if geometry.direct else "rows"
    body: list[str] = []
    grouped = geometry.groups > 1
    if not geometry.direct:
        gather = layer.kernels.use("gather", NAME="f32", IN="float", ROW="float", SHIFT="")
        offset = f" + g * {geometry.taken}" if grouped else ""
        arguments = f"{k}, {x}{offset}, {place}, first + r, {geometry.taken}, 0.0f"
        body.append(f"for (int32_t r = 0; r < count; ++r) {gather}(rows + r * {k}, {arguments});")
    to, factors = f"{y} + first * {total}", w
    if grouped:
        to, factors = f"{to} + g * {n}", f"{w} + g * {k * -(-n // panel) * panel}"
    if panel < n:
        width = f"{n} - b < {panel} ? {n} - b : {panel}" if n % panel else str(panel)
        body += [
            f"for (int32_t b = 0; b < {n}; b += {panel})",
            f"  {multiply}(count, {width}, {k}, {rows_at}, {k}, {factors} + b * {k}, {panel}, "
            f"{to} + b, {total});",
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
    """Bias if it is not in the sums, residual and activation of the elements [start, end)."""
    if residual is None and bias is None and op.activation is None:
        return []
    channels = shape_of(op.result)[-1]
    value = f"{y}[i]" + (f" + {bias}[i % {channels}]" if bias is not None else "")
    value += f" + {residual}[i]" if residual is not None else ""
    result = apply(layer.kernels, op.activation, "v") if op.activation is not None else "v"
    return [
        f"for (int32_t i = {start}; i < {end}; ++i) {{",
        f"  const float v = {value};",
        f"  {y}[i] = {result};",
        "}",
    ]
