"""Between float and integers, and between two integer scales."""

from math import prod

from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.operands import quantized
from ceras_ir.backends.c.requant import Refused, rescaling
from ceras_ir.backends.c.types import (
    centred_bound,
    float_literal,
    int_literal,
    less,
    value_type,
    zero_point_of,
)
from ceras_ir.dialects.graph import DequantizeOp, QuantizeOp, RequantizeOp, shape_of
from ceras_ir.dialects.quant import UniformType


def _per_tensor(element: UniformType, name: str) -> UniformType:
    if element.is_per_axis:
        raise Refused(f"{name} has a scale per channel; use one for the tensor")
    return element


def quantize(layer: Layer, op: QuantizeOp) -> None:
    """`graph.quantize`."""
    element = _per_tensor(quantized(op.result, "result"), "result")
    storage, point = value_type(op.result), element.zero_point
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    rint = layer.kernels.use("rint_f32")
    low, high = element.low - point, element.high - point
    body = [
        f"float v = {x}[i] / {float_literal(element.scale)};",
        "v = v == v ? v : 0.0f;",
    ]
    if element.storage.width.data < 32:
        # Clamped before rounding: the bounds are integers, so the order does not matter.
        body.append(
            f"v = v < {float_literal(low)} ? {float_literal(low)} "
            f": v > {float_literal(high)} ? {float_literal(high)} : v;"
        )
        offset = less("", -point) if point else ""
        body.append(f"{y}[i] = ({storage})((int32_t){rint}(v){offset});")
    else:
        body += [
            "v = v < -2147483648.0f ? -2147483648.0f : v > 2147483648.0f ? 2147483648.0f : v;",
            f"int64_t q = (int64_t){rint}(v);",
            f"q = (q > INT32_MAX ? INT32_MAX : q){less('', -point) if point else ''};",
            f"{y}[i] = ({storage})(q < {int_literal(element.low)} ? {int_literal(element.low)} "
            f": q > {int_literal(element.high)} ? {int_literal(element.high)} : q);",
        ]
    layer.loop("i", prod(shape_of(op.result)), body)


def dequantize(layer: Layer, op: DequantizeOp) -> None:
    """`graph.dequantize`."""
    element = _per_tensor(quantized(op.input, "input"), "input")
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    if centred_bound(element) > 1 << 31:
        raise Refused("a 32-bit input with a zero point; use zero point 0")
    value = less(f"{x}[i]", element.zero_point)
    layer.loop(
        "i",
        prod(shape_of(op.result)),
        [f"{y}[i] = (float)({value}) * {float_literal(element.scale)};"],
    )


def requantize(layer: Layer, op: RequantizeOp) -> None:
    """`graph.requantize`."""
    element = quantized(op.input, "input")
    rescale = rescaling(op.requant, centred_bound(element), value_type(op.result))
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    terms = [less(f"{x}[i]", zero_point_of(element))]
    layer.loop("i", prod(shape_of(op.result)), rescale.lines(terms, f"{y}[i]"))
