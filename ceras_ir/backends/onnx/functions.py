"""Elementwise functions as ONNX nodes, and clamp ranges as Relu or Clip."""

from collections.abc import Sequence
from math import isinf

import numpy as np

from ceras_ir.backends.onnx.model_builder import ModelBuilder
from ceras_ir.dialects.graph import Function, FunctionAttr
from ceras_ir.dialects.quant import RequantAttr, UniformType

FLOAT = np.dtype(np.float32)

PLAIN: dict[Function, tuple[str, int]] = {
    Function.RELU: ("Relu", 13),
    Function.SIGMOID: ("Sigmoid", 13),
    Function.TANH: ("Tanh", 13),
    Function.HARD_SWISH: ("HardSwish", 14),
    Function.EXP: ("Exp", 13),
    Function.LOG: ("Log", 13),
    Function.ERF: ("Erf", 13),
    Function.SQRT: ("Sqrt", 13),
    Function.ABS: ("Abs", 13),
    Function.SIGN: ("Sign", 13),
    Function.FLOOR: ("Floor", 13),
    Function.CEIL: ("Ceil", 13),
    Function.ROUND: ("Round", 11),
    Function.SOFTPLUS: ("Softplus", 1),
    Function.SOFTSIGN: ("Softsign", 1),
    Function.MISH: ("Mish", 18),
    Function.GELU: ("Gelu", 20),
}
"""Functions that are an operator without attributes, and since which opset."""

WITH_PARAMETERS: dict[Function, tuple[str, tuple[str, ...]]] = {
    Function.LEAKY_RELU: ("LeakyRelu", ("alpha",)),
    Function.HARD_SIGMOID: ("HardSigmoid", ("alpha", "beta")),
    Function.ELU: ("Elu", ("alpha",)),
    Function.CELU: ("Celu", ("alpha",)),
    Function.THRESHOLDED_RELU: ("ThresholdedRelu", ("alpha",)),
}
"""Functions whose parameters are attributes."""


def add_function(
    builder: ModelBuilder, function: FunctionAttr, x: str, name: str, shape: Sequence[int]
) -> str:
    """The nodes that apply `function` to the float tensor `x`; the result."""
    kind = function.kind
    if kind in PLAIN:
        operator, since = PLAIN[kind]
        return builder.node(operator, [x], name, FLOAT, shape, since=since)
    if kind in WITH_PARAMETERS:
        operator, names = WITH_PARAMETERS[kind]
        attributes = dict(zip(names, function.values, strict=True))
        return builder.node(operator, [x], name, FLOAT, shape, attributes=attributes)
    if kind is Function.CLIP:
        return add_clip(builder, x, function.values[0], function.values[1], name, shape)
    if kind is Function.GELU_TANH:
        kind_of = {"approximate": "tanh"}
        return builder.node("Gelu", [x], name, FLOAT, shape, attributes=kind_of, since=20)
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
