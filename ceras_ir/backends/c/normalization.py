"""Functions of whole rows: normalization, and softmax and normalization of integers."""

from math import prod

from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.printers import prints
from ceras_ir.backends.c.types import int_literal, value_type, zero_point_of
from ceras_ir.dialects.graph import shape_of, stored_element
from ceras_ir.dialects.graph.normalization import (
    IntegerNormalizeOp,
    IntegerSoftmaxOp,
    NormalizeOp,
)
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.interpreters.float_text import float_literal


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
    kernel = layer.kernels.use("integer_softmax", **_types(op))
    layer.line(
        f"{kernel}({x}, {y}, {table}, {shape_of(op.table)[0] - 1}, {prod(shape[:axis])}, "
        f"{shape[axis]}, {prod(shape[axis + 1 :])}, {_rescaling(op.requant)});"
    )


def _types(op: IntegerNormalizeOp | IntegerSoftmaxOp) -> dict[str, str]:
    source, target = value_type(op.input), value_type(op.result)
    return {"NAME": f"{source}_{target}", "IN": source, "OUT": target}


def _rescaling(requant: RequantAttr) -> str:
    """Shift, zero point and clamp range as arguments."""
    fields = (requant.shift, requant.zero_point, requant.low, requant.high)
    return ", ".join(str(field.data) for field in fields)
