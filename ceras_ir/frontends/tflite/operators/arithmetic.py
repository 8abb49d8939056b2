"""Import elementwise arithmetic, and conversions between floats, integers and scales."""

import numpy as np
from xdsl.dialects.builtin import f32, i16
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary
from ceras_ir.dialects.graph.operation import broadcast_shape
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.frontends.onnx.emission.values import Constant, Value
from ceras_ir.frontends.tflite.fixed_point import requant_of
from ceras_ir.frontends.tflite.operation import Operation, Stored, operator

ADDEND_SHIFTS = {"int8": 20, "uint8": 20, "int16": 15}
"""The left shift of an addend before it is rescaled."""

SUM_LOW, SUM_HIGH = -(1 << 31), (1 << 31) - 1

ELEMENTWISE = {"ADD": "Add", "SUB": "Sub", "MUL": "Mul", "DIV": "Div"}


def numbers(op: Operation, index: int) -> Value:
    """Return operand `index` as floats or plain integers; a quantized constant is dequantized."""
    value = op.value(index)
    if isinstance(value, Stored):
        return op.real(index)
    return value


@operator("ADD", "SUB", "MUL", "DIV")
def arithmetic(op: Operation) -> Value:
    """Import ADD, SUB, MUL or DIV of floats or quantized values, with broadcast operands."""
    if not op.is_quantized:
        result = op.one(ELEMENTWISE[op.name], [numbers(op, 0), numbers(op, 1)])
        return op.activated(result, 0)
    if op.name == "DIV":
        raise op.unsupported("a quotient of integers; quantize the network without it")
    sides = op.element(0), op.element(1)
    if op.name == "MUL":
        # The kernel multiplies and divides the scales in single precision.
        product = np.float32(sides[0].scale) * np.float32(sides[1].scale)
        factor = float(product / np.float32(op.result_element.scale))
        requant = op.requant([factor], op.clamp(0))
        return _binary(op, Binary.MUL, requant)
    shift = ADDEND_SHIFTS[op.input(0).kind]
    twice = 2.0 * max(side.scale for side in sides)
    addends = [_addend(op, side.scale / twice) for side in sides]
    factor = twice / (2.0**shift * op.result_element.scale)
    requant = op.requant([factor], op.clamp(0))
    kind = Binary.ADD if op.name == "ADD" else Binary.SUB
    return _binary(op, kind, requant, (addends[0], addends[1]), shift)


DIFFERENCE_SHIFT = 7
"""The left shift of the operands of a squared difference, which fits 16 bits."""


def squared_difference(op: Operation) -> SSAValue:
    """Emit the square of a difference of int8, which has 16 bits at twice the larger scale."""
    kinds = {op.input(0).kind, op.input(1).kind, op.output.kind}
    if kinds != {"int8"}:
        raise op.unsupported(f"of {', '.join(sorted(kinds))}; quantize to int8")
    sides = op.element(0), op.element(1)
    twice = 2.0 * max(side.scale for side in sides)
    addends = _addend(op, sides[0].scale / twice), _addend(op, sides[1].scale / twice)
    element = UniformType(twice / (1 << DIFFERENCE_SHIFT), storage=i16)
    kept = RequantAttr(0, low=element.low, high=element.high)
    difference = _binary(op, Binary.SUB, kept, addends, DIFFERENCE_SHIFT, element)
    target = op.result_element
    factor = twice * twice / ((1 << 2 * DIFFERENCE_SHIFT) * target.scale)
    requant = op.requant([factor], (target.low, target.high))
    return op.emitter.emit(
        graph.BinaryOp(Binary.MUL, difference, difference, result_element=target, requant=requant)
    )


def _addend(op: Operation, factor: float) -> RequantAttr:
    found = requant_of([factor], 0, SUM_LOW, SUM_HIGH)
    assert found is not None  # The factor is at most a half.
    return found


def _binary(
    op: Operation,
    kind: Binary,
    requant: RequantAttr,
    addends: tuple[RequantAttr, RequantAttr] | None = None,
    shift: int = 0,
    element: UniformType | None = None,
) -> SSAValue:
    lhs, rhs = op.tensor(0), op.tensor(1)
    shapes = [graph.shape_of(v) for v in (lhs, rhs)]
    if broadcast_shape(*shapes) is None:
        raise op.wrong(f"shapes {list(shapes[0])} and {list(shapes[1])} do not broadcast")
    # A scalar broadcasts as a vector of one element does.
    lhs, rhs = (v if graph.shape_of(v) or not any(shapes) else _vector(op, v) for v in (lhs, rhs))
    return op.emitter.emit(
        graph.BinaryOp(
            kind,
            lhs,
            rhs,
            result_element=element or op.result_element,
            shifts=(shift, shift),
            addends=addends,
            requant=requant,
        )
    )


def _vector(op: Operation, value: SSAValue) -> SSAValue:
    return op.emitter.materialize(op.emitter.reshaped(value, (1,)))


@operator("DEQUANTIZE", "DENSIFY")
def dequantize(op: Operation) -> Value:
    """
    Import DEQUANTIZE: convert stored integers to real values, or float16 to float32. It also
    imports DENSIFY, since constants are read with all elements.
    """
    value = op.value(0)
    if isinstance(value, Constant):
        return op.real(0)
    if graph.element_of(value) == f32:
        return value
    if not isinstance(graph.element_of(value), UniformType):
        raise op.unsupported(f"'{op.input(0).name}' without a scale")
    return op.emitter.emit(graph.DequantizeOp(value))


@operator("QUANTIZE")
def quantize(op: Operation) -> Value:
    """Import QUANTIZE: convert floats, or integers at another scale, to the type of the result."""
    target = op.result_element
    if not op.input(0).is_quantized:
        real = op.emitter.materialize(op.real(0))
        return op.emitter.emit(graph.QuantizeOp(real, target, Rounding.HALF_AWAY))
    source = op.element(0)
    if source == target:
        return op.tensor(0)
    requant = op.requant([source.scale / target.scale], (target.low, target.high))
    return op.emitter.emit(graph.RequantizeOp(op.tensor(0), target, requant))
