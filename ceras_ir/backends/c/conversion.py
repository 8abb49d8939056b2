"""
Print conversions between floats and integers, and between scales of integers. Scales and zero
points are per-tensor or per-channel.
"""

from math import frexp, prod

import numpy as np
from xdsl.dialects.builtin import IntAttr
from xdsl.ir import SSAValue

from ceras_ir.backends.c.layer import Layer, prints
from ceras_ir.backends.c.lookup import byte_lookup_kernel
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
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import QuantizeOp, shape_of
from ceras_ir.dialects.graph.constant import is_bipolar
from ceras_ir.dialects.quant import Rounding, UniformType
from ceras_ir.interpreters.float_text import float_literal
from ceras_ir.network import integer


def _tables(layer: Layer, value: SSAValue) -> tuple[UniformType, str, str, str]:
    """
    Return the type of a value with per-channel scales, and C text: the name of the array of scales,
    the name of the array of zero points, and the declaration of `c`, the channel of element `i`.
    """
    element, shape = graph.element_of(value), shape_of(value)
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


def _quantize_channels(layer: Layer, op: QuantizeOp) -> None:
    """Print `graph.quantize` with per-channel scales. A result of 32 bits raises `Refused`."""
    element, scales, points, channel = _tables(layer, op.result)
    if element.storage.width.data > 16:
        raise Refused("a 32-bit result with a scale per channel; use one for the tensor")
    if op.mode is not Rounding.HALF_EVEN:
        raise Refused("ties away from zero with a scale per channel; use one for the tensor")
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    rint = layer.kernels.use("rint_f32")
    low, high = int_literal(element.low), int_literal(element.high)
    body = [
        channel,
        f"float v = {x}[i] / {scales}[c];",
        "v = v == v ? v : 0.0f;",
        # Larger values remain out of range with any zero point.
        "v = v < -131072.0f ? -131072.0f : v > 131072.0f ? 131072.0f : v;",
        f"const int32_t q = (int32_t){rint}(v) + {points}[c];",
        f"{y}[i] = ({value_type(op.result)})(q < {low} ? {low} : q > {high} ? {high} : q);",
    ]
    layer.each(prod(shape_of(op.result)), body)


def _dequantize_channels(layer: Layer, op: graph.DequantizeOp) -> None:
    _, scales, points, channel = _tables(layer, op.input)
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    body = [channel, f"{y}[i] = (float)({x}[i] - {points}[c]) * {scales}[c];"]
    layer.each(prod(shape_of(op.result)), body)


ROUNDED = 0x4B400000
"""The bits of 1.5 * 2^23 in float32. The bits of the sum with an integer differ by this integer."""


def _is_per_axis(value: SSAValue) -> bool:
    element = graph.element_of(value)
    return isinstance(element, UniformType) and element.is_per_axis


def _divided(scale: float) -> str:
    """
    Return the C text `/ scale`. If `scale` is a power of two, return the equal but faster `*
    inverse`.
    """
    fraction, exponent = frexp(scale)
    if fraction == 0.5 and abs(exponent) < 120:
        return f"* {float_literal(1.0 / scale)}"
    return f"/ {float_literal(scale)}"


@prints(QuantizeOp)
def quantize(layer: Layer, op: QuantizeOp) -> None:
    if is_bipolar(graph.element_of(op.result)):
        _sign(layer, op)
        return
    (_quantize_channels if _is_per_axis(op.result) else _quantize)(layer, op)


@prints(graph.ScaledQuantizeOp)
def scaled_quantize(layer: Layer, op: graph.ScaledQuantizeOp) -> None:
    factor = f" * {float_literal(op.factor.value.data)}"
    (_sign if is_bipolar(graph.element_of(op.result)) else _quantize)(layer, op, factor)


def _sign(layer: Layer, op: QuantizeOp | graph.ScaledQuantizeOp, factor: str = "") -> None:
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    body = [f"{y}[i] = ({value_type(op.result)})({x}[i]{factor} >= 0.0f ? 1 : -1);"]
    layer.each(prod(shape_of(op.result)), body)


def _quantize(layer: Layer, op: QuantizeOp | graph.ScaledQuantizeOp, factor: str = "") -> None:
    element = quantized(op.result, "result")
    storage, point = value_type(op.result), element.zero_point
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    low, high = element.low - point, element.high - point
    head = [f"float v = {x}[i]{factor} {_divided(element.scale)};"]
    if isinstance(op, QuantizeOp) and op.mode is Rounding.HALF_AWAY:
        body = _rounded_away(head, element, f"{y}[i] = ({storage})")
    elif element.storage.width.data < 32:
        # 1.5 * 2^23 leaves no bits for a fraction. The bits of the sum are an integer in the order
        # of the values, including infinities. The bounds are integers, so the clamp may follow the
        # rounding.
        body = [
            *head,
            "v = (v == v ? v : 0.0f) + 12582912.0f; /* ties to even */",
            "int32_t q;",
            "(void)memcpy(&q, &v, sizeof q);",
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
    layer.each(prod(shape_of(op.result)), body)


def _rounded_away(head: list[str], element: UniformType, assignment: str) -> list[str]:
    """
    Return the C lines `head`, followed by lines that round `v` half away from zero and clamp it.
    `assignment` is the C text before the parenthesized result.
    """
    if element.storage.width.data > 16:
        raise Refused("a 32-bit result with ties away from zero; use 8 or 16 bits")
    point = element.zero_point
    low, high = (f"{bound - point}.0f" for bound in (element.low, element.high))
    return [
        *head,
        "v = v == v ? v : 0.0f;",
        f"v = v < {low} ? {low} : v > {high} ? {high} : v;",
        "int32_t q = (int32_t)v;",
        "const float rest = v - (float)q; /* exact */",
        "q += (rest >= 0.5f) - (rest <= -0.5f);",
        f"{assignment}(q{less('', -point) if point else ''});",
    ]


@prints(graph.DequantizeOp)
def dequantize(layer: Layer, op: graph.DequantizeOp) -> None:
    if _is_per_axis(op.input):
        _dequantize_channels(layer, op)
        return
    element = quantized(op.input, "input")
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    if centred_bound(element) > 1 << 31:
        raise Refused("a 32-bit input with a zero point; use zero point 0")
    value = less(f"{x}[i]", element.zero_point)
    layer.each(
        prod(shape_of(op.result)),
        [f"{y}[i] = (float)({value}) * {float_literal(element.scale)};"],
    )


@prints(graph.RequantizeOp)
def requantize(layer: Layer, op: graph.RequantizeOp) -> None:
    element = quantized(op.input, "input")
    bound, in_words = centred_bound(element), layer.options.vectors
    rescale = rescaling(op.requant, bound, value_type(op.result), in_words=in_words)
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    if layer.options.helium and value_type(op.input) == value_type(op.result) == "int8_t":
        # A gather looks up 16 elements, which takes fewer instructions than the arithmetic.
        values = np.arange(-128, 128) - zero_point_of(element)
        table = integer.requantize(values, op.requant, quantized(op.result, "result"))
        name = layer.array("table", table, "int8_t")
        layer.line(f"{byte_lookup_kernel(layer)}({y}, {x}, {name}, {prod(shape_of(op.result))});")
        return
    terms = [less(f"{x}[i]", zero_point_of(element))]
    layer.each(prod(shape_of(op.result)), rescale.lines(terms, f"{y}[i]"))
