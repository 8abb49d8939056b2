"""Rows that are put into a tensor at computed places."""

from math import prod

from ceras_ir.backends.c.arithmetic import combine
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.printers import prints
from ceras_ir.backends.c.reduction import COMBINED
from ceras_ir.backends.c.types import value_type
from ceras_ir.dialects.graph import PutOp, shape_of


@prints(PutOp)
def put(layer: Layer, op: PutOp) -> None:
    """`graph.put`."""
    (count, width), n = shape_of(op.input), shape_of(op.indices)[0]
    x, at = layer.read(op.input, "x"), layer.read(op.indices, "at")
    rows, y = layer.read(op.rows, "rows"), layer.write(op.result)
    layer.line(f"memcpy({y}, {x}, {prod(shape_of(op.input))} * sizeof *{y});")
    body = [
        f"int64_t row = (int64_t){at}[i];",
        f"row = row < 0 ? row + {count} : row;",
        f"if (row < 0 || row >= {count}) continue;",
    ]
    if op.function is None:
        body.append(f"memcpy({y} + row * {width}, {rows} + i * {width}, {width} * sizeof *{y});")
    else:
        kind = COMBINED[op.function]
        value = combine(layer.kernels, kind, value_type(op.result), "a", "b")
        body += [
            f"for (int32_t j = 0; j < {width}; ++j) {{",
            f"  const {value_type(op.result)} a = {y}[row * {width} + j];",
            f"  const {value_type(op.result)} b = {rows}[i * {width} + j];",
            f"  {y}[row * {width} + j] = {value};",
            "}",
        ]
    layer.loop("i", n, body)
