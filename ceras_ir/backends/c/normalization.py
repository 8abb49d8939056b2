"""Functions of whole rows: normalization, and softmax and normalization of integers."""

from math import prod

from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.printers import prints
from ceras_ir.backends.c.types import int_literal, value_type, zero_point_of
from ceras_ir.dialects.graph import constant_array, shape_of, stored_element
from ceras_ir.dialects.graph.normalization import (
    IntegerNormalizeOp,
    IntegerSoftmaxOp,
    NormalizeOp,
)
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.interpreters.float_text import float_literal

LEAST_LOOKED_UP = 64
"""Elements of a row for which a table of its results pays."""


@prints(NormalizeOp)
def normalize(layer: Layer, op: NormalizeOp) -> None:
    """`graph.normalize`."""
    x, scale = layer.read(op.input, "x"), layer.read(op.scale, "scale")
    bias = "NULL" if op.bias is None else layer.read(op.bias, "bias")
    y, kernel = layer.write(op.result), layer.kernels.use("normalize")
    n = shape_of(op.input)[-1]
    layer.line(
        f"{kernel}({x}, {y}, {scale}, {bias}, {prod(shape_of(op.input)) // n}, {n}, "
        f"{int(op.is_centred)}, {float_literal(op.epsilon.value.data)});"
    )


@prints(IntegerNormalizeOp)
def integer_normalize(layer: Layer, op: IntegerNormalizeOp) -> None:
    """`graph.integer_normalize`."""
    x, scale, bias = (
        layer.read(value, name)
        for value, name in ((op.input, "x"), (op.scale, "scale"), (op.bias, "bias"))
    )
    y, n = layer.write(op.result), shape_of(op.input)[-1]
    kernel = layer.kernels.use("integer_normalize", **_types(op))
    centre = zero_point_of(stored_element(op.input))
    layer.line(
        f"{kernel}({x}, {y}, {scale}, {bias}, {prod(shape_of(op.input)) // n}, {n}, {centre}, "
        f"{int(op.is_centred)}, {op.shift}, {int_literal(op.epsilon.value.data)}, {op.root}, "
        f"{op.root_shift}, {_rescaling(op.requant)});"
    )


@prints(IntegerSoftmaxOp)
def integer_softmax(layer: Layer, op: IntegerSoftmaxOp) -> None:
    """`graph.integer_softmax`."""
    x, table = layer.read(op.input, "x"), layer.read(op.table, "table")
    y, shape, axis = layer.write(op.result), shape_of(op.input), op.axis.value.data
    outer, n, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    head = f"({x}, {y}, {table}, {shape_of(op.table)[0] - 1}, {outer}, {n}"
    kernel = layer.kernels.use("integer_softmax", **_types(op))
    portable = f"{kernel}{head}, {inner}, {_rescaling(op.requant)});"
    if not _has_byte_rows(layer, op, n, inner):
        layer.line(portable)
        return
    lookup = layer.kernels.use("softmax_bytes")
    with layer.variants("MODEL_LOOKUP") as otherwise:
        layer.line(f"{lookup}{head}, {_rescaling(op.requant)});")
        otherwise()
        layer.line(portable)


def _has_byte_rows(layer: Layer, op: IntegerSoftmaxOp, n: int, inner: int) -> bool:
    """Whether rows are contiguous bytes and long enough for tables in registers."""
    is_bytes = value_type(op.input) == value_type(op.result) == "int8_t"
    if not (layer.options.vectors and is_bytes and inner == 1 and n >= LEAST_LOOKED_UP):
        return False
    table = constant_array(op.table)
    return table is not None and table.min() >= 0 and table.max() < 1 << 16


def _types(op: IntegerNormalizeOp | IntegerSoftmaxOp) -> dict[str, str]:
    source, target = value_type(op.input), value_type(op.result)
    return {"NAME": f"{source}_{target}", "IN": source, "OUT": target}


def _rescaling(requant: RequantAttr) -> str:
    """Shift, zero point and clamp range as arguments."""
    fields = (requant.shift, requant.zero_point, requant.low, requant.high)
    return ", ".join(str(field.data) for field in fields)
