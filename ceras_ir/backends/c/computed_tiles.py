"""What the host makes of the computed weights of a product on VTA: tiles, and a bias of them."""

from math import prod

from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.printers import prints
from ceras_ir.dialects.graph import shape_of
from ceras_ir.dialects.mem import FoldZeroPointOp, PackTilesOp


@prints(PackTilesOp)
def pack_tiles(layer: Layer, op: PackTilesOp) -> None:
    """`mem.pack_tiles`, in the order in which the input lies in memory."""
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    shape, (n, k) = shape_of(op.result), op.plain_shape
    (_, blocks, *_, lanes), (rows, columns) = shape, shape_of(op.input)
    if n % lanes or k % lanes:
        layer.line(f"memset({y}, 0, {prod(shape)} * sizeof *{y});")
    out, into = ("i", "j") if op.transposed is None else ("j", "i")
    tile = f"{out} / {lanes} * {blocks} + {into} / {lanes}"
    place = f"(({tile}) * {lanes} + {out} % {lanes}) * {lanes} + {into} % {lanes}"
    copy = f"for (int32_t j = 0; j < {columns}; ++j) {y}[{place}] = {x}[i * {columns} + j];"
    layer.loop("i", rows, [copy])


@prints(FoldZeroPointOp)
def fold_zero_point(layer: Layer, op: FoldZeroPointOp) -> None:
    """`mem.fold_zero_point`: the lanes of an output one after the other, tile by tile."""
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
