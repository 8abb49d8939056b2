"""
Add the ONNX nodes of elementwise functions and clamps, and recognize shifts.

The importer converts BitShift, a shift of unsigned integers, to a product or quotient with a power
of two. The export recognizes this form and writes BitShift again. ONNX has no power of unsigned
integers, so the operation that computes the power is omitted if shifts are its only consumers.
"""

from collections.abc import Sequence
from math import isinf
from typing import NamedTuple

import numpy as np
from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.onnx.values import Attribute, ModelBuilder, stored_width
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Function, FunctionAttr
from ceras_ir.dialects.quant import RequantAttr, UniformType

FLOAT_DTYPE = np.dtype(np.float32)


def has_operator(function: FunctionAttr) -> bool:
    """
    Return whether ONNX can express an elementwise function, as an operator or as several nodes.
    """
    kind = function.data
    is_composed = kind is Function.SWISH or function.clip_range is not None
    return is_composed or kind.facts.onnx is not None


def add_function(
    builder: ModelBuilder, function: FunctionAttr, x: str, name: str, shape: Sequence[int]
) -> str:
    """
    Add nodes that apply `function` to the float tensor named `x`, and return the name of the
    result. `name` is the wanted name of the last node, `shape` the shape of the result.
    """
    if (affine := function.affine) is not None:
        x = add_function(builder, function.core, x, f"{name}/core", shape)
        scale, offset = (
            builder.constant(np.array(number, np.float32), f"{name}/{role}")
            for number, role in zip(affine, ("scale", "offset"), strict=True)
        )
        x = builder.node("Mul", [x, scale], f"{name}/scaled", FLOAT_DTYPE, shape)
        return builder.node("Add", [x, offset], name, FLOAT_DTYPE, shape)
    if (bounds := function.clip_range) is not None:
        return add_clip(builder, x, *bounds, name, shape)
    kind = function.data
    if (onnx := kind.facts.onnx) is not None:
        attributes: dict[str, Attribute] = {}
        attributes.update(zip(kind.facts.parameters, function.values, strict=True))
        attributes.update([onnx.mode] if onnx.mode is not None else [])
        return builder.node(
            onnx.name, [x], name, FLOAT_DTYPE, shape, attributes=attributes, since=onnx.since
        )
    assert kind is Function.SWISH, kind
    # The form that exporters write. The operator Swish requires opset 24.
    gate = builder.node("Sigmoid", [x], f"{name}/sigmoid", FLOAT_DTYPE, shape)
    return builder.node("Mul", [x, gate], name, FLOAT_DTYPE, shape)


def add_clip(
    builder: ModelBuilder, x: str, low: float, high: float, name: str, shape: Sequence[int]
) -> str:
    """
    Add a node that clips the float tensor named `x` to [low, high], and return the name of the
    result; `x` if both bounds are infinite.

    A single finite bound becomes Relu, Max or Min, because Clip in ONNX Runtime replaces a missing
    bound by the largest float32, which changes infinities.
    """
    bounds = [
        builder.constant(np.array(bound, np.float32), role)
        for bound, role in ((low, "low"), (high, "high"))
        if not isinf(bound)
    ]
    if not bounds:
        return x
    if isinf(high) and low == 0.0:
        return builder.node("Relu", [x], name, FLOAT_DTYPE, shape)
    operator = "Clip" if len(bounds) == 2 else "Min" if isinf(low) else "Max"
    return builder.node(operator, [x, *bounds], name, FLOAT_DTYPE, shape)


def add_clamp(
    builder: ModelBuilder,
    x: str,
    requant: RequantAttr,
    element: UniformType,
    name: str,
    shape: Sequence[int],
) -> str:
    """
    Add a Clip of the float tensor named `x` to the real values of the bounds of `requant`, and
    return the name of the result. `element` is the quantized type of the result; bounds that are
    also those of the integers of ONNX are omitted, because QuantizeLinear applies them.
    """

    def real(stored: int) -> float:
        return float((stored - element.zero_point) * np.float32(element.scale))

    low, high = requant.low.data, requant.high.data
    held = element.widened(stored_width(element))
    real_low = -np.inf if low == held.low else real(low)
    real_high = np.inf if high == held.high else real(high)
    return add_clip(builder, x, real_low, real_high, name, shape)


SHIFT_DIRECTIONS = {Binary.MUL: "LEFT", Binary.DIV: "RIGHT"}


class Shift(NamedTuple):
    """The operands of a `BitShift`: the shifted value, the number of bits, and LEFT or RIGHT."""

    value: SSAValue
    amount: SSAValue
    direction: str


def shift_of(op: Operation) -> Shift | None:
    """
    Return the shift if `op` is a product or a quotient of `x` and `2 ** n` in unsigned integers,
    otherwise `None`.
    """
    if not isinstance(op, graph.BinaryOp) or op.function not in SHIFT_DIRECTIONS:
        return None
    power = op.rhs.owner
    if not isinstance(power, graph.BinaryOp) or not _is_power_of_two(power):
        return None
    return Shift(op.lhs, power.rhs, SHIFT_DIRECTIONS[op.function])


def is_only_for_shifts(op: graph.BinaryOp) -> bool:
    """Return whether `op` computes `2 ** n` for shifts only, so that it needs no ONNX node."""
    return _is_power_of_two(op) and all(
        use.index == 1 and shift_of(use.operation) is not None for use in op.result.uses
    )


def _is_power_of_two(op: graph.BinaryOp) -> bool:
    if op.function is not Binary.POW or not graph.is_plain(op.result):
        return False
    base, dtype = graph.constant_array(op.lhs), graph.numpy_dtype(graph.element_of(op.result))
    return dtype.kind == "u" and base is not None and bool(np.all(base == 2))
