"""Between float and integers with a scale and a zero point for every channel."""

from math import prod

import numpy as np
from xdsl.dialects.builtin import IntAttr
from xdsl.ir import SSAValue

from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.requant import Refused
from ceras_ir.backends.c.types import int_literal, value_type
from ceras_ir.dialects.graph import DequantizeOp, QuantizeOp, element_of, shape_of
from ceras_ir.dialects.quant import UniformType


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


def quantize(layer: Layer, op: QuantizeOp) -> None:
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


def dequantize(layer: Layer, op: DequantizeOp) -> None:
    """`graph.dequantize`."""
    _, scales, points, channel = _tables(layer, op.input)
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    body = [channel, f"{y}[i] = (float)({x}[i] - {points}[c]) * {scales}[c];"]
    layer.loop("i", prod(shape_of(op.result)), body)
