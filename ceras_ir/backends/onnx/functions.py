"""Elementwise functions as ONNX nodes, and clamp ranges as Relu or Clip."""

from collections.abc import Sequence
from math import isinf

import numpy as np

from ceras_ir.backends.onnx.model_builder import Attribute, ModelBuilder
from ceras_ir.dialects.graph import Function, FunctionAttr
from ceras_ir.dialects.quant import RequantAttr, UniformType

FLOAT = np.dtype(np.float32)


def has_operator(function: FunctionAttr) -> bool:
    """Whether ONNX has a function, as an operator or made of others."""
    kind = function.kind
    is_composed = kind is Function.SWISH or function.clip_range is not None
    return is_composed or kind.facts.onnx is not None


def add_function(
    builder: ModelBuilder, function: FunctionAttr, x: str, name: str, shape: Sequence[int]
) -> str:
    """The nodes that apply `function` to the float tensor `x`; the result."""
    if (affine := function.affine) is not None:
        x = add_function(builder, function.core, x, f"{name}/core", shape)
        scale, offset = (
            builder.constant(np.array(number, np.float32), f"{name}/{what}")
            for number, what in zip(affine, ("scale", "offset"), strict=True)
        )
        x = builder.node("Mul", [x, scale], f"{name}/scaled", FLOAT, shape)
        return builder.node("Add", [x, offset], name, FLOAT, shape)
    if (bounds := function.clip_range) is not None:
        return add_clip(builder, x, *bounds, name, shape)
    kind = function.kind
    if (onnx := kind.facts.onnx) is not None:
        attributes: dict[str, Attribute] = {}
        attributes.update(zip(kind.facts.parameters, function.values, strict=True))
        attributes.update([onnx.mode] if onnx.mode is not None else [])
        return builder.node(
            onnx.name, [x], name, FLOAT, shape, attributes=attributes, since=onnx.since
        )
    assert kind is Function.SWISH, kind
    # As exporters write it; the operator Swish is of opset 24.
    gate = builder.node("Sigmoid", [x], f"{name}/sigmoid", FLOAT, shape)
    return builder.node("Mul", [x, gate], name, FLOAT, shape)


def add_clip(
    builder: ModelBuilder, x: str, low: float, high: float, name: str, shape: Sequence[int]
) -> str:
    """Relu or Clip, with the bounds that it needs; nothing where no bound is finite."""
    if isinf(low) and isinf(high):
        return x
    if low == 0.0 and isinf(high):
        return builder.node("Relu", [x], name, FLOAT, shape)
    bounds = [
        "" if isinf(bound) else builder.constant(np.array(bound, np.float32), what)
        for bound, what in ((low, "low"), (high, "high"))
    ]
    inputs = [x, *(bounds if bounds[1] else bounds[:1])]
    return builder.node("Clip", inputs, name, FLOAT, shape)


def add_clamp(
    builder: ModelBuilder,
    x: str,
    requant: RequantAttr,
    element: UniformType,
    name: str,
    shape: Sequence[int],
) -> str:
    """What a clamp range narrower than the storage says, as bounds of real numbers."""

    def real(stored: int) -> float:
        return float((stored - element.zero_point) * np.float32(element.scale))

    low, high = requant.low.data, requant.high.data
    return add_clip(
        builder,
        x,
        -np.inf if low == element.low else real(low),
        np.inf if high == element.high else real(high),
        name,
        shape,
    )
