"""
Print convolutions and matrix products: select the kernel, and pack weights that are computed at run
time.

Computed weights are packed into the workspace in the layout of constant weights, so that the same
kernels multiply.
"""

from functools import partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.amx_tiles import AmxTile
from ceras_ir.backends.c.float_tiled import print_float_tiles
from ceras_ir.backends.c.integer_layer import Epilogue, IntegerLayer
from ceras_ir.backends.c.layer import Layer, from_row, prints
from ceras_ir.backends.c.linear_float import epilogue_lines, float_linear, float_nest
from ceras_ir.backends.c.linear_integer import integer_linear, print_rows
from ceras_ir.backends.c.linear_tiled import print_tiles, tiled_nest
from ceras_ir.backends.c.ordered_rows import ordered_rows, uses_ordered_rows
from ceras_ir.backends.c.register_tiles import FLOAT_LANES, TILES, lanes_of
from ceras_ir.backends.c.sums import LIMIT, ROW_TYPES, Geometry, analyse_computed, row_type
from ceras_ir.backends.c.tile_loops import is_shared
from ceras_ir.backends.c.tile_nest import Nest
from ceras_ir.backends.c.tile_panels import Panels, adds_offset_on_load
from ceras_ir.backends.c.values import (
    Refused,
    apply,
    centred_bound,
    half_of,
    quantized,
    value_type,
    zero_point_of,
)
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import LinearOperation, MatmulOp, shape_of
from ceras_ir.dialects.mem import FoldZeroPointOp, PackTilesOp
from ceras_ir.dialects.quant import UniformType

MIN_PACKED_PRODUCTS = 1 << 12
"""The minimum number of products for which packing pays."""

MIN_PACKED_POSITIONS = 4
"""The minimum number of rows of the first factor for which packing of bytes pays."""

NEON_BYTES = 16
"""The number of products of an Arm vector: longer rows are padded to a multiple of it."""


def computed_matmul(layer: Layer, op: MatmulOp) -> None:
    """Print `graph.matmul` on float32 with weights that are computed at run time."""
    geometry = Geometry.of(op)
    x, w, y = layer.read(op.input, "x"), layer.read(op.weights, "w"), layer.write(op.result)
    bias, residual = layer.read_if(op.bias, "bias"), layer.read_if(op.residual, "residual")
    n, k = shape_of(op.weights)
    if not layer.options.vectors or op.macs < MIN_PACKED_PRODUCTS:
        _dot_products(layer, op, (x, w, y), bias, residual)
        return
    common = layer.options.common_tiles
    nest = float_nest(layer, op, geometry, common=common) if bias is None else None
    if nest is None:
        # Each output is a separate sum in a vector, in the order of k with each step rounded.
        packed = layer.scratch("float", "columns", n * k, 4)
        pack = layer.kernels.use("pack_panels")
        multiply = layer.kernels.use("multiply_rows")
        layer.line(f"{pack}({packed}, {w}, {n}, {k}, {k}, {n});")
        size = prod(shape_of(op.result))
        layer.line(f"for (int32_t i = 0; i < {size}; ++i) {y}[i] = 0.0f;")
        rows = geometry.positions
        layer.line(f"{multiply}({rows}, {n}, {k}, {x}, {k}, {packed}, {n}, {y}, {n});")
        layer.block(epilogue_lines(layer, op, y, residual, "0", str(size), bias))
        return
    with layer.variants(FLOAT_LANES) as otherwise:
        print_packed(layer, op, nest, (x, y, residual or ""), "pack_tiles", w, k)
        otherwise()
        _dot_products(layer, op, (x, w, y), bias, residual)


def print_packed(
    layer: Layer,
    op: LinearOperation,
    nest: Nest,
    names: tuple[str, str, str],
    way: str,
    w: str,
    pitch: int,
) -> None:
    """
    Print the statements that pack computed weights, then multiply in register tiles. `names` are
    the C names of input, result and residual ("" without a residual). `way` is the name of a
    function that packs the weights at the C expression `w`, of which the rows, or with
    `pack_columns` the columns, are at a distance of `pitch`.
    """
    x, y, residual = names
    k, n, width = nest.channels, nest.outputs, nest.tile.width
    size, step = nest.padded_outputs * k, 1 if way == "pack_columns" else pitch
    zeros = layer.scratch("float", "zeros", nest.padded_outputs, 4)
    layer.line(f"(void)memset({zeros}, 0, {nest.padded_outputs}U * sizeof *{zeros});")
    pack = layer.kernels.use(way)
    declarations: list[str] = []
    if is_shared(layer) and not layer.shares(n * k):
        # A core packs few elements faster than it reads packed elements from another core.
        declarations = layer.own_scratch("float", "panels", size, 4)
        declarations.append(f"{pack}(panels, {w}, {n}, {k}, {pitch}, {width});")
    else:
        packed = layer.scratch("float", "panels", size, 4)
        layer.rows(
            n,
            n * k,
            lambda first, count: (
                f"{pack}({from_row(packed, first, k)}, {from_row(w, first, step)}, {count}, {k}, "
                f"{pitch}, {width});"
            ),
            width,
        )
    print_float_tiles(layer, op, nest, (x, y, "panels", zeros, residual), declarations)


def _dot_products(
    layer: Layer, op: MatmulOp, names: tuple[str, str, str], bias: str | None, residual: str | None
) -> None:
    x, w, y = names
    (m, k), (n, _) = shape_of(op.input), shape_of(op.weights)
    layer.line(f"for (int32_t i = 0; i < {m}; ++i) {{")
    terms = f" + {bias}[j]" if bias is not None else ""
    terms += f" + {residual}[i * {n} + j]" if residual is not None else ""
    body = [
        "float sum = 0.0f;",
        f"for (int32_t k = 0; k < {k}; ++k) sum += {x}[i * {k} + k] * {w}[j * {k} + k];",
        f"const float v = sum{terms};",
        f"{y}[i * {n} + j] = {apply(layer.kernels, op.activation, 'v')};",
    ]
    layer.loop("j", n, body, 1)
    layer.line("}")


def computed_integer_matmul(layer: Layer, op: MatmulOp) -> None:
    """Print `graph.matmul` on quantized tensors with weights that are computed at run time."""
    geometry, sums = Geometry.of(op), analyse_computed(op)
    is_worth = geometry.positions >= MIN_PACKED_POSITIONS and op.macs >= MIN_PACKED_PRODUCTS
    nest = tiled_nest(layer, op, geometry, sums) if is_worth else None
    padded = nest.padded_outputs if nest else geometry.n
    of = IntegerLayer.of(layer, op, geometry, sums, padded)
    w = layer.read(op.weights, "w")
    if nest is None:
        _integer_rows(of, w)
        return
    with layer.variants(TILES) as otherwise:
        print_tiles(of, nest, partial(_pack_bytes, w))
        otherwise()
        _integer_rows(of, w, f"!{TILES}")


def _pack_bytes(
    w: str,
    of: IntegerLayer,
    nest: Nest,
    epilogue: Epilogue | None,
    offset: int,
    amx: AmxTile | None,
) -> Panels:
    """
    Print the code that packs the computed weights `w` and the bias into the workspace in the layout
    of register tiles. Return their C names.

    `offset` (0 or 128) is added to each input byte before the product, which the bias must correct.
    """
    layer = of.layer
    shape = nest.panel_shape(lanes_of(value_type(of.op.input)).step)
    packed = layer.scratch("int8_t", "panels", prod(shape), 1)
    pack = layer.kernels.use("pack_bytes", NAME=str(shape[-1]), STEP=str(shape[-1]))
    n, k = shape_of(of.op.weights)
    layer.line(f"{pack}({packed}, {w}, {n}, {k}, {nest.tile.width});")
    unmoved = ["MODEL_RVV"] if adds_offset_on_load(of, nest) else []
    is_bytes = value_type(of.op.input) != "int16_t"
    if amx is not None and amx.multiplies_signed(value_type(of.op.input)):
        layer.kernels.use("amx")
        unmoved.append("MODEL_HAS_AMX")
    moved = f"({' || '.join(unmoved)} ? 0 : {offset})" if unmoved else str(offset)
    if is_bytes:
        moved = f"(MODEL_NEON ? {offset - 128} : {moved})"
    extra = epilogue.extra if epilogue else np.zeros(1, np.int64)
    bias = _bias(of, w, extra, moved, nest.padded_outputs, TILES)
    return Panels(packed, bias, bias)


def _bias(
    of: IntegerLayer, w: str, extra: NDArray[np.int64], moved: str, count: int, condition: str
) -> str:
    """
    Print the code that computes the bias in the workspace, and return its C name.

    The bias corrects the zero point of the input and the offset `moved` (C text), so it depends on
    the sums of the computed weights `w`. `extra` is added to the bias of each output. Zeros follow
    up to `count` outputs. Constants are compiled under `condition`.
    """
    layer, sums, (n, k) = of.layer, of.sums, shape_of(of.op.weights)
    bias = layer.scratch("int32_t", "bias", count, 4)
    start = sums.bias + extra
    known = "NULL"
    if not (start == start[0]).all():
        known = layer.constant("start", "int32_t", n, 4, lambda: start.astype(np.int32), condition)
    point = zero_point_of(sums.x)
    distance = f"{point} + {moved}" if point else moved
    kernel = layer.kernels.use("computed_bias")
    layer.line(f"{kernel}({bias}, {w}, {n}, {k}, {known}, {start[0]}, {distance});")
    if count > n:
        layer.line(f"(void)memset({bias} + {n}, 0, {count - n}U * sizeof *{bias});")
    return bias


def _integer_rows(of: IntegerLayer, w: str, condition: str = "") -> None:
    """
    Print a product with the computed weights `w` for a block of input rows at a time, without
    register tiles. Factors are multiplied as bytes if both are bytes, otherwise as 16 or 32 bits.
    Constants are compiled under `condition`.
    """
    layer, op, x = of.layer, of.op, of.x
    assert op.requant is not None
    n, k = shape_of(op.weights)
    elements = quantized(op.input, "input"), quantized(op.weights, "weights")
    stored = value_type(op.input)
    if stored == of.sums.weight_type == "int8_t" and of.sums.raw_bound < LIMIT:
        row, moved = row_type(op.input)
        bias = _bias(of, w, np.zeros(1, np.int64), moved.removeprefix(" + "), n, condition)
        length, weights = -(-k // NEON_BYTES) * NEON_BYTES if k > NEON_BYTES else k, w
        if length > k:
            weights = layer.scratch("int8_t", "weights", n * length, 1)
            pad = layer.kernels.use("widen", NAME="bytes", IN="int8_t", ROW="int8_t", SHIFT="")
            layer.line(f"for (int32_t o = 0; o < {n}; ++o)")
            layer.line(f"{pad}(weights + o * {length}, {length}, {w} + o * {k}, {k});", 1)
        holes = {"NAME": f"{stored}_to_bytes", "IN": stored, "ROW": row, "SHIFT": moved}
        widen = layer.kernels.use("widen", **holes)
        fill = f"{widen}(rows + r * {length}, {length}, {x} + (first + r) * {k}, {k});"
        print_rows(of, row, length, fill, (weights, "int8_t"), f"{bias}[o]")
        return
    values = [f"{layer.read(op.bias, 'bias')}[o]"] if op.bias is not None else []
    if of.sums.half_folded and (half := half_of(op.requant)):
        values.append(str(half))
    row = "int16_t" if max(map(centred_bound, elements)) < 1 << 15 else "int32_t"
    layer.scratch(row, "weights", n * k, ROW_TYPES[row][1])
    centre, point = _centre(layer, value_type(op.weights), elements[1], row)
    layer.line(f"{centre}(weights, {w}, {n * k}, {point});")
    centre, point = _centre(layer, stored, elements[0], row)
    fill = f"{centre}(rows + r * {k}, {x} + (first + r) * {k}, {k}, {point});"
    print_rows(of, row, k, fill, ("weights", row), *values)


def _centre(layer: Layer, stored: str, element: UniformType, row: str) -> tuple[str, int]:
    """
    Return the C function that subtracts the zero point from each element of a row, and the zero
    point. It converts from the C type `stored` to the C type `row`.
    """
    name = f"{stored}_to_{row}"
    return layer.kernels.use("centre", NAME=name, IN=stored, ROW=row), zero_point_of(element)


# The host packs the computed weights of a product on VTA into tiles, and computes the bias.


@prints(PackTilesOp)
def pack_tiles(layer: Layer, op: PackTilesOp) -> None:
    """
    Print `mem.pack_tiles`, which copies computed weights to the tiles of an accelerator. Loops
    follow the order of the input in memory.
    """
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    shape, (n, k) = shape_of(op.result), op.plain_shape
    (_, blocks, *_, lanes), (rows, columns) = shape, shape_of(op.input)
    if n % lanes or k % lanes:
        layer.line(f"(void)memset({y}, 0, {prod(shape)}U * sizeof *{y});")
    out, into = ("i", "j") if op.transposed is None else ("j", "i")
    tile = f"{out} / {lanes} * {blocks} + {into} / {lanes}"
    place = f"(({tile}) * {lanes} + {out} % {lanes}) * {lanes} + {into} % {lanes}"
    copy = f"for (int32_t j = 0; j < {columns}; ++j) {y}[{place}] = {x}[i * {columns} + j];"
    layer.loop("i", rows, [copy])


@prints(FoldZeroPointOp)
def fold_zero_point(layer: Layer, op: FoldZeroPointOp) -> None:
    """
    Print `mem.fold_zero_point`, which subtracts the zero point times the sum of the weights from
    the bias of each output channel.
    """
    bias, tiles = layer.read(op.bias, "bias"), layer.read(op.tiles, "tiles")
    y = layer.write(op.result)
    blocks, *inner, lanes, _ = shape_of(op.tiles)
    count, rows = prod(inner), prod(shape_of(op.bias)[1:-1])
    total = [
        "int32_t sum = 0;",
        f"for (int32_t c = 0; c < {count}; ++c)",
        f"  for (int32_t k = 0; k < {lanes}; ++k)",
        f"    sum += {tiles}[((o * {count} + c) * {lanes} + b) * {lanes} + k];",
    ]
    place = f"(o * {rows} + r) * {lanes} + b"
    point = op.zero_point.value.data
    store = [
        f"for (int32_t r = 0; r < {rows}; ++r)",
        f"  {y}[{place}] = {bias}[{place}] - ({point}) * sum;",
    ]
    layer.line(f"for (int32_t o = 0; o < {blocks}; ++o) {{")
    layer.loop("b", lanes, [*total, *store], 1)
    layer.line("}")


@prints(graph.Conv2dOp, graph.MatmulOp)
def linear(layer: Layer, op: graph.Conv2dOp | graph.MatmulOp) -> None:
    """
    Print `graph.conv2d` and `graph.matmul` with the kernel for their types, weights and shape.
    """
    if op.table is not None:
        raise Refused("a table behind a sum of products; leave fuse-lookup out, which is for nnet")
    if isinstance(op, graph.MatmulOp) and not isinstance(op.weights.owner, graph.ConstantOp):
        (computed_integer_matmul if op.is_quantized else computed_matmul)(layer, op)
    elif op.is_quantized:
        integer_linear(layer, op)
    elif uses_ordered_rows(layer, op):
        ordered_rows(layer, op)
    else:
        float_linear(layer, op)
