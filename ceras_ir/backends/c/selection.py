"""Operations that pick elements or put a border around them: slice, gather, take, pad."""

from math import prod

import numpy as np

from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.printers import prints
from ceras_ir.backends.c.strides import nest, row_major
from ceras_ir.backends.c.types import int_literal, value_type
from ceras_ir.dialects.graph import GatherOp, Pad, PadOp, SliceOp, TakeOp, shape_of
from ceras_ir.interpreters.float_text import float_literal
from ceras_ir.interpreters.resampling import border_indices


@prints(SliceOp)
def slice_(layer: Layer, op: SliceOp) -> None:
    """`graph.slice`."""
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    shape, strides = shape_of(op.result), row_major(shape_of(op.input))
    starts = op.starts.get_values()
    first = sum(a * s for a, s in zip(starts, strides, strict=True))
    steps = [a * s for a, s in zip(op.strides.get_values(), strides, strict=True)]
    layer.line(f"const {value_type(op.input)} *from = {x} + {first};")
    nest(layer, shape, [row_major(shape), steps], lambda at: [f"{y}[{at[0]}] = from[{at[1]}];"])


@prints(GatherOp)
def gather(layer: Layer, op: GatherOp) -> None:
    """`graph.gather`."""
    shape, axis = shape_of(op.input), op.axis.value.data
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    indices = op.indices.get_values()
    table = layer.array("indices", np.array(indices, np.int32), "int32_t")
    inner = prod(shape[axis + 1 :])
    layer.line(f"for (int32_t i = 0; i < {prod(shape[:axis])}; ++i) {{")
    source = f"{x} + (i * {shape[axis]} + {table}[j]) * {inner}"
    layer.loop(
        "j",
        len(indices),
        [f"memcpy({y} + (i * {len(indices)} + j) * {inner}, {source}, {inner} * sizeof *{y});"],
        1,
    )
    layer.line("}")


@prints(TakeOp)
def take(layer: Layer, op: TakeOp) -> None:
    """`graph.take`."""
    (rows, width), count = shape_of(op.input), shape_of(op.indices)[0]
    x, at = layer.read(op.input, "x"), layer.read(op.indices, "at")
    y = layer.write(op.result)
    body = [
        f"int64_t row = (int64_t){at}[i];",
        f"row = row < 0 ? row + {rows} : row;",
        f"row = row < 0 ? 0 : row > {rows - 1} ? {rows - 1} : row;",
        f"memcpy({y} + i * {width}, {x} + row * {width}, {width} * sizeof *{y});",
    ]
    layer.loop("i", count, body)


@prints(PadOp)
def pad(layer: Layer, op: PadOp) -> None:
    """`graph.pad`: by a table of source indices per dimension, or a fill and a strided copy."""
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    source, target = shape_of(op.input), shape_of(op.result)
    low = op.low.get_values()
    if op.function is Pad.CONSTANT:
        stored = op.stored_value
        fill = (
            float_literal(stored) if value_type(op.result) == "float" else int_literal(int(stored))
        )
        layer.loop("i", prod(target), [f"{y}[i] = {fill};"])
        strides = row_major(target)
        first = sum(a * s for a, s in zip(low, strides, strict=True))
        between = op.interior.get_values()
        steps = [(i + 1) * s for i, s in zip(between, strides, strict=True)]
        layer.line(f"{value_type(op.result)} *to = {y} + {first};")
        nest(
            layer,
            source,
            [steps, row_major(source)],
            lambda at: [f"to[{at[0]}] = {x}[{at[1]}];"],
        )
        return
    tables: list[str] = []
    for d, (n, size, stride) in enumerate(zip(source, target, row_major(source), strict=True)):
        index = border_indices(op.function, n, low[d], size - n - low[d]) * stride
        tables.append(layer.array(f"from_{d}", index.astype(np.int32), "int32_t"))
    layer.line("int32_t to = 0;")
    index = " + ".join(f"{table}[i{d}]" for d, table in enumerate(tables)) or "0"
    with layer.nested("i", target) as depth:
        layer.line(f"{y}[to++] = {x}[{index}];", depth)
