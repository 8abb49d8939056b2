"""Comparison, selection and casts between plain element types."""

from math import prod

from xdsl.dialects.builtin import Float32Type, IntegerType
from xdsl.ir import SSAValue

from ceras_ir.backends.c.arithmetic import RELATIONS
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.printers import prints
from ceras_ir.backends.c.strides import broadcast_nest
from ceras_ir.backends.c.types import value_type
from ceras_ir.dialects.graph import (
    CastOp,
    CompareOp,
    SelectOp,
    element_of,
    numpy_dtype,
    shape_of,
)
from ceras_ir.interpreters.float_text import float_literal


@prints(CompareOp)
def compare(layer: Layer, op: CompareOp) -> None:
    """`graph.compare`."""
    a, b = layer.read(op.lhs, "a"), layer.read(op.rhs, "b")
    y, sign = layer.write(op.result), RELATIONS[op.function]
    broadcast_nest(
        layer,
        op,
        lambda at: [f"{y}[{at[0]}] = (uint8_t)({a}[{at[1]}] {sign} {b}[{at[2]}]);"],
    )


@prints(SelectOp)
def select(layer: Layer, op: SelectOp) -> None:
    """`graph.select`."""
    c, a, b = (layer.read(v, n) for v, n in zip(op.operands, "cab", strict=True))
    y = layer.write(op.result)
    broadcast_nest(
        layer,
        op,
        lambda at: [f"{y}[{at[0]}] = {c}[{at[1]}] ? {a}[{at[2]}] : {b}[{at[3]}];"],
    )


@prints(CastOp)
def cast(layer: Layer, op: CastOp) -> None:
    """`graph.cast`."""
    x, y, target = layer.read(op.input, "x"), layer.write(op.result), element_of(op.result)
    storage, v = value_type(op.result), f"{x}[i]"
    if target == IntegerType(1):
        value = f"(uint8_t)({v} != 0)"
    elif isinstance(target, Float32Type) or not _is_float(op.input):
        value = f"({storage}){v}"
    else:
        layer.loop("i", prod(shape_of(op.result)), [f"const float v = {v};", *_clamped(op, y)])
        return
    layer.loop("i", prod(shape_of(op.result)), [f"{y}[i] = {value};"])


def _is_float(value: SSAValue) -> bool:
    return isinstance(element_of(value), Float32Type)


def _clamped(op: CastOp, y: str) -> list[str]:
    """C leaves undefined what the type does not hold; powers of two are exact float bounds."""
    dtype, storage = numpy_dtype(element_of(op.result)), value_type(op.result)
    name = dtype.name.upper()
    is_unsigned = dtype.kind == "u"
    bits = 8 * dtype.itemsize - (not is_unsigned)
    low, high = float_literal(-1.0 if is_unsigned else -(2.0**bits)), float_literal(2.0**bits)
    least = "0" if is_unsigned else f"{name}_MIN"
    return [
        f"{y}[i] = v != v ? 0 : v <= {low} ? {least} : v >= {high} ? {name}_MAX : ({storage})v;"
    ]
