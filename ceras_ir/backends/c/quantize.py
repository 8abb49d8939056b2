"""
Conversions between float and integers, and between two integer scales.

A scale and a zero point belong to a whole tensor or, at the begin of this file, to each channel.
"""

from math import frexp, prod

import numpy as np
from xdsl.dialects.builtin import IntAttr
from xdsl.ir import SSAValue

from ceras_ir.backends.c.layer import Layer, prints
from ceras_ir.backends.c.values import (
    Refused,
    centred_bound,
    int_literal,
    less,
    quantized,
    rescaling,
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


def _tables(layer: Layer, value: SSAValue) -> tuple[UniformType, str, str, str]:
    """The type of `value`, its scales and zero points, and the channel of element `i`."""
    element, shape = element_of(value), shape_of(value)
    assert isinstance(element, UniformType) and isinstance(element.axis, IntAttr)
    axis = element.axis.data
    inner = prod(shape[axis + 1 :])
    scales = np.array([scale.data for scale in element.scales]).astype(np.float32)
    points = np.array([point.data for point in element.zero_points], np.int32)
    if element.storage.width.data > 16 and points.any():
        raise Refused("32-bit numbers with zero points; use zero point 0")
    index = "i" if inner == 1 else f"i / {inner}"
    return (
        element,
        layer.array("scales", scales, "float"),
        layer.array("points", points, "int32_t"),
        f"const int32_t c = {index} % {shape[axis]};",
    )


def quantize_channels(layer: Layer, op: QuantizeOp) -> None:
    """`graph.quantize` to a type of 8 or 16 bits."""
    element, scales, points, channel = _tables(layer, op.result)
    if element.storage.width.data > 16:
        raise Refused("a 32-bit result with a scale per channel; use one for the tensor")
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    rint = layer.kernels.use("rint_f32")
    low, high = int_literal(element.low), int_literal(element.high)
    body = [
        channel,
        f"float v = {x}[i] / {scales}[c];",
        "v = v == v ? v : 0.0f;",
        # Beyond what any zero point brings back into range.
        "v = v < -131072.0f ? -131072.0f : v > 131072.0f ? 131072.0f : v;",
        f"const int32_t q = (int32_t){rint}(v) + {points}[c];",
        f"{y}[i] = ({value_type(op.result)})(q < {low} ? {low} : q > {high} ? {high} : q);",
    ]
    layer.loop("i", prod(shape_of(op.result)), body)


def dequantize_channels(layer: Layer, op: DequantizeOp) -> None:
    """`graph.dequantize`."""
    _, scales, points, channel = _tables(layer, op.input)
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    body = [channel, f"{y}[i] = (float)({x}[i] - {points}[c]) * {scales}[c];"]
    layer.loop("i", prod(shape_of(op.result)), body)


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
        quantize_channels(layer, op)
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
        dequantize_channels(layer, op)
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
