"""Between float and integers, and between two integer scales."""

from math import frexp, prod

from xdsl.ir import SSAValue

from ceras_ir.backends.c import per_channel
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.operands import quantized
from ceras_ir.backends.c.printers import prints
from ceras_ir.backends.c.requant import Refused, rescaling
from ceras_ir.backends.c.types import (
    centred_bound,
    int_literal,
    less,
    value_type,
    zero_point_of,
)
from ceras_ir.dialects.graph import (
    DequantizeOp,
    QuantizeOp,
    RequantizeOp,
    ScaledQuantizeOp,
    element_of,
    shape_of,
)
from ceras_ir.dialects.quant import UniformType
from ceras_ir.interpreters.float_text import float_literal

ROUNDED = 0x4B400000
"""The bits of 1.5 * 2^23 in float32: those of a sum with an integer are as much more."""


def _is_per_axis(value: SSAValue) -> bool:
    element = element_of(value)
    return isinstance(element, UniformType) and element.is_per_axis


def _divided(scale: float) -> str:
    """`/ scale`, or the product that is the same for every number where it is a power of two."""
    fraction, exponent = frexp(scale)
    if fraction == 0.5 and abs(exponent) < 120:
        return f"* {float_literal(1.0 / scale)}"
    return f"/ {float_literal(scale)}"


@prints(QuantizeOp)
def quantize(layer: Layer, op: QuantizeOp) -> None:
    """`graph.quantize`."""
    if _is_per_axis(op.result):
        per_channel.quantize(layer, op)
        return
    _quantize(layer, op)


@prints(ScaledQuantizeOp)
def scaled_quantize(layer: Layer, op: ScaledQuantizeOp) -> None:
    """`graph.scaled_quantize`."""
    _quantize(layer, op, f" * {float_literal(op.factor.value.data)}")


def _quantize(layer: Layer, op: QuantizeOp | ScaledQuantizeOp, factor: str = "") -> None:
    """Round every element, multiplied by a `factor` if there is one."""
    element = quantized(op.result, "result")
    storage, point = value_type(op.result), element.zero_point
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    low, high = element.low - point, element.high - point
    head = [f"float v = {x}[i]{factor} {_divided(element.scale)};"]
    if element.storage.width.data < 32:
        # 1.5 * 2^23 leaves no room for a fraction: the sum's bits are an integer, whose order is
        # that of the numbers, for infinities too. The bounds are integers: clamped after rounding.
        body = [
            *head,
            "v = (v == v ? v : 0.0f) + 12582912.0f; /* ties to even */",
            "int32_t q;",
            "memcpy(&q, &v, sizeof q);",
            f"q = q < {ROUNDED + low} ? {ROUNDED + low} : q > {ROUNDED + high} ? {ROUNDED + high} "
            ": q;",
            f"{y}[i] = ({storage})(q - {ROUNDED - point});",
        ]
    else:
        rint = layer.kernels.use("rint_f32")
        body = [
            *head,
            "v = v == v ? v : 0.0f;",
            "v = v < -2147483648.0f ? -2147483648.0f : v > 2147483648.0f ? 2147483648.0f : v;",
            f"int64_t q = (int64_t){rint}(v);",
            f"q = (q > INT32_MAX ? INT32_MAX : q){less('', -point) if point else ''};",
            f"{y}[i] = ({storage})(q < {int_literal(element.low)} ? {int_literal(element.low)} "
            f": q > {int_literal(element.high)} ? {int_literal(element.high)} : q);",
        ]
    layer.loop("i", prod(shape_of(op.result)), body)


@prints(DequantizeOp)
def dequantize(layer: Layer, op: DequantizeOp) -> None:
    """`graph.dequantize`."""
    if _is_per_axis(op.input):
        per_channel.dequantize(layer, op)
        return
    element = quantized(op.input, "input")
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    if centred_bound(element) > 1 << 31:
        raise Refused("a 32-bit input with a zero point; use zero point 0")
    value = less(f"{x}[i]", element.zero_point)
    layer.loop(
        "i",
        prod(shape_of(op.result)),
        [f"{y}[i] = (float)({value}) * {float_literal(element.scale)};"],
    )


@prints(RequantizeOp)
def requantize(layer: Layer, op: RequantizeOp) -> None:
    """`graph.requantize`."""
    element = quantized(op.input, "input")
    rescale = rescaling(op.requant, centred_bound(element), value_type(op.result))
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    terms = [less(f"{x}[i]", zero_point_of(element))]
    layer.loop("i", prod(shape_of(op.result)), rescale.lines(terms, f"{y}[i]"))
