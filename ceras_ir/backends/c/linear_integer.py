"""
Quantized convolution and matrix product: rows of windows as integers, dot products with k
contiguous, and one rescaling per output.

Zero points never reach the inner loop. The border of a window is the input's zero point, so a
sum of raw products is off by a constant per output, which the bias absorbs; so does the 128
that 8-bit rows are moved by where the processor multiplies unsigned by signed bytes.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.constants import Array
from ceras_ir.backends.c.depthwise_tiled import Windows, has_columns, print_depthwise
from ceras_ir.backends.c.integer_layer import IntegerLayer
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.linear_loops import print_loops
from ceras_ir.backends.c.linear_sparse import fits_sparse, sparse_integer, sparse_planes
from ceras_ir.backends.c.linear_tiled import print_tiles, tiled_nest
from ceras_ir.backends.c.register_tiles import CONDITION, LANES, TILES
from ceras_ir.backends.c.rows import (
    ROW_TYPES,
    UNSIGNED_OFFSET,
    Geometry,
    dot_rows,
    open_row_loop,
    row_type,
    rows_at_once,
    window,
)
from ceras_ir.backends.c.sums import LIMIT, Sums, analyse
from ceras_ir.backends.c.types import value_type, zero_point_of
from ceras_ir.dialects.graph import Conv2dOp, LinearOperation

SIGNED, UNSIGNED = "!MODEL_UNSIGNED_ROWS", "MODEL_UNSIGNED_ROWS"

ROW_MULTIPLE = 32
"""Rows are padded with zeros to whole vectors: three times faster where k is odd."""


def integer_linear(layer: Layer, op: LinearOperation) -> None:
    """`graph.conv2d` and `graph.matmul` on quantized tensors."""
    geometry, sums = Geometry.of(op), analyse(op)
    planes = sparse_planes(layer, op, geometry) if fits_sparse(op, sums) else None
    nest = None if planes is not None else tiled_nest(layer, op, geometry, sums)
    padded = nest.padded_outputs if nest else geometry.groups * geometry.n
    if nest is not None:
        geometry = geometry.together(nest.together)
    of = IntegerLayer.of(layer, op, geometry, sums, padded)
    if planes is not None:
        sparse_integer(of, planes)
        return
    if layer.options.dsp:
        # Hosts need none of these modules; loading them takes some milliseconds.
        from ceras_ir.backends.c.linear_dsp import dsp_linear, fits_dsp

        if fits_dsp(op, geometry, sums):
            dsp_linear(of)
            return
    if nest is None and not has_columns(of):
        if geometry.depthwise and sums.weight_type != "int32_t":
            _depthwise(of)
        else:
            _rows(of)
        return
    with layer.variants(TILES if nest is not None else CONDITION) as otherwise:
        if nest is not None:
            w = print_tiles(of, nest)
            otherwise()
            bias = _row_bias(layer, sums, row_type(op.input)[0], f"!{TILES}")
            print_loops(replace(of, bias=bias), nest, w)
        else:
            w = print_depthwise(of)
            otherwise()
            _depthwise(of, w)


def _bias(layer: Layer, values: NDArray[np.int64], condition: str = "") -> str:
    wide = bool((np.abs(values) >= LIMIT).any())
    data: Array = values.astype(np.int64 if wide else np.int32)
    ctype, item = ("int64_t", 8) if wide else ("int32_t", 4)
    return layer.constant("bias", ctype, data.size, item, lambda: data, condition)


def _row_bias(layer: Layer, sums: Sums, row: str, condition: str = "") -> str:
    """The bias of rows of a type; of `model_row` as signed bytes and moved by 128."""
    if row != "model_row":
        return _bias(layer, sums.bias, condition)
    also = f"{condition} && " if condition else ""
    signed = sums.bias + (0 if sums.x.is_signed else UNSIGNED_OFFSET) * sums.per_output
    _bias(layer, signed - 128 * sums.per_output, also + UNSIGNED)
    return _bias(layer, signed, also + SIGNED)


def _depthwise(of: IntegerLayer, packed_weights: str = "") -> None:
    """One window at a time; with `packed_weights` those are the vectors', and are unpacked."""
    layer, op, geometry, sums = of.layer, of.window, of.geometry, of.sums
    place = window(layer, op)
    condition = f"!{CONDITION}" if packed_weights else ""
    channels, point = geometry.groups, zero_point_of(sums.x)
    stored = value_type(op.input)
    kernel = layer.kernels.use(
        "depthwise",
        NAME=f"{stored}_{sums.weight_type}" + ("_centred" if point else ""),
        SUM="int32_t",
        IN=stored,
        WEIGHT=sums.weight_type,
        WIDE="int16_t" if stored in ("int8_t", "uint8_t") else "int32_t",
        CENTRE=" - zero_point" if point else "",
    )
    item = int(sums.weight_type[3:-2]) // 8

    def packed() -> Array:
        return np.ascontiguousarray(sums.centred().T).astype(f"int{item * 8}")

    size = channels * geometry.k
    if packed_weights:
        w = layer.scratch("int8_t", "filters", size, 1)
        unpack = layer.kernels.use("unpack_columns")
        rows, columns = Windows.of(op).kernel
        padded = -(-channels // LANES) * LANES
        layer.line(f"{unpack}({w}, {packed_weights}, {rows}, {columns}, {channels}, {padded});")
    else:
        w = layer.constant("weights", sums.weight_type, size, item, packed)
    # The kernel takes the zero point off each element, and so the bias must not.
    bias = _bias(layer, sums.bias + point * sums.per_output, condition)
    layer.scratch("int32_t", "sums", channels, 4)
    layer.loop(
        "p",
        geometry.positions,
        [
            f"const int32_t at = p * {channels};",
            f"for (int32_t o = 0; o < {channels}; ++o) sums[o] = 0;",
            f"{kernel}(sums, {of.x}, {w}, {place}, p, {point});",
            f"for (int32_t o = 0; o < {channels}; ++o) {{",
            *(f"  {t}" for t in of.epilogue("sums[o]", f"{bias}[o]")),
            "}",
        ],
    )


def _rows(of: IntegerLayer) -> None:
    layer, op, geometry, sums = of.layer, of.op, of.geometry, of.sums
    place = window(layer, op) if isinstance(op, Conv2dOp) and not geometry.direct else ""
    stored = value_type(op.input)
    row, shift = row_type(op.input)
    if row == "model_row" and (sums.raw_bound >= LIMIT or sums.weight_type != "int8_t"):
        row, shift = "int16_t", ""
    if row == "int32_t" or sums.weight_type == "int32_t":
        row = "int32_t"
    point = zero_point_of(sums.x)
    multiple = ROW_MULTIPLE if geometry.k > ROW_MULTIPLE // 2 else 1
    length = -(-geometry.k // multiple) * multiple
    item = int(sums.weight_type[3:-2]) // 8

    def packed() -> Array:
        weights = sums.centred()
        result = np.zeros((weights.shape[0], length), f"int{item * 8}")
        result[:, : geometry.k] = weights
        return result

    n, total = geometry.n, geometry.groups * geometry.n
    w = layer.constant("weights", sums.weight_type, total * length, item, packed)
    bias = _row_bias(layer, sums, row)
    holes = {"IN": stored, "ROW": row, "SHIFT": shift}
    holes["NAME"] = f"{stored}_to_{ROW_TYPES[row][0]}"
    if geometry.direct:
        widen = layer.kernels.use("widen", **holes)
        k = geometry.k
        fill = f"{widen}(rows + r * {length}, {length}, {of.x} + (first + r) * {k}, {k});"
    else:
        gather = layer.kernels.use("gather", **holes)
        source = f"{of.x} + g * {geometry.taken}" if geometry.groups > 1 else of.x
        border = f"{point}{shift}" if shift else str(point)
        fill = (
            f"{gather}(rows + r * {length}, {length}, {source}, {place}, first + r, "
            f"{geometry.taken}, {border});"
        )
    channel = f"g * {n} + o" if geometry.groups > 1 else "o"
    print_rows(of, row, length, fill, (w, sums.weight_type), f"{bias}[{channel}]")


def print_rows(
    of: IntegerLayer, row: str, length: int, fill: str, weights: tuple[str, str], *values: str
) -> None:
    """
    Rows of `length` elements of type `row` times rows of weights, given by name and type. `fill`
    makes row `r` of those at `first`; `values` are added to the sum of output `o`.
    """
    layer, geometry, (name, weight_type) = of.layer, of.geometry, weights
    n, total = geometry.n, geometry.groups * geometry.n
    item = ROW_TYPES[row][1]
    dot = dot_rows(layer, row, weight_type)
    rows = rows_at_once(layer, geometry, item * length + 4 * n)
    layer.scratch(row, "rows", rows * length, item)
    layer.scratch("int32_t", "sums", rows * n, 4)
    depth = open_row_loop(layer, geometry, rows)
    grouped = geometry.groups > 1
    panel = f"{name} + g * {n * length}" if grouped else name
    start = f"(first + r) * {total}" + (f" + g * {n}" if grouped else "")
    body = [
        f"for (int32_t r = 0; r < count; ++r) {fill}",
        f"{dot}(count, {n}, {length}, rows, {panel}, sums);",
        "for (int32_t r = 0; r < count; ++r) {",
        f"  const int32_t at = {start};",
        f"  for (int32_t o = 0; o < {n}; ++o) {{",
        *(f"    {t}" for t in of.epilogue(f"sums[r * {n} + o]", *values)),
        "  }",
        "}",
    ]
    if grouped:
        layer.loop("g", geometry.groups, body, depth)
    else:
        layer.block(body, depth)
    layer.line("}")
