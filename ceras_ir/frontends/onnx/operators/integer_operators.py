"""
Import operators on integers as the float operator between DequantizeLinear and QuantizeLinear.

ONNX and ONNX Runtime define them in this way, except for some roundings. `fold-qdq` merges the
three into a quantized operation. ConvInteger, MatMulInteger and relatives are products of stored
integers, and the scales are separate operands. If the zero point p of the first operand is
computed, the sums are still of 8-bit integers: `sum (x - p) w = sum (x - m) w + (m - p) sum w` with
m = 128 for uint8, and 0 for int8.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
import onnx
from xdsl.dialects.builtin import i8, i32
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import CastOp, DequantizeOp, QuantizeOp, element_of
from ceras_ir.dialects.graph.constant import is_integer
from ceras_ir.dialects.quant import UniformType
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.quantization import (
    dequantized,
    quantized,
    real_numbers,
    stored_type,
    uniform_type,
)
from ceras_ir.frontends.onnx.emission.registry import (
    MICROSOFT,
    OPERATORS,
    constant_operands,
    operator,
    rule,
)
from ceras_ir.frontends.onnx.emission.values import (
    Constant,
    QuantizedConstant,
    Value,
    shape_of_value,
)
from ceras_ir.frontends.onnx.model.model_file import Array
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.operators.convolution import read_window
from ceras_ir.frontends.onnx.operators.matrix import matrix_product
from ceras_ir.frontends.onnx.operators.quantized import dynamically_quantized

QLINEAR = f"{MICROSOFT}QLinear"
QUANTIZED_UNARY = [
    QLINEAR + n for n in ("AveragePool", "GlobalAveragePool", "Sigmoid", "LeakyRelu", "Softmax")
]
QUANTIZED_BINARY = ["QLinearConv", "QLinearMatMul", f"{QLINEAR}Add", f"{QLINEAR}Mul"]

PARAMETERS: dict[str, Sequence[int]] = {
    **dict.fromkeys(QUANTIZED_BINARY, (1, 2, 4, 5, 6, 7)),
    **dict.fromkeys(QUANTIZED_UNARY, (1, 2, 3, 4)),
    f"{MICROSOFT}QGemm": (1, 2, 4, 5, 7, 8),
}
"""The operands that are scales and zero points."""


constant_operands(
    PARAMETERS, "scales and zero points must be constants", "quantize the model statically"
)


def _real(emitter: Emitter, index: int, axis: int = 0) -> Value:
    """
    Return operand `index` of the node as real values. The next two operands are the scale and the
    zero point; `axis` is the dimension of per-channel scales.
    """
    point = emitter.optional_array(index + 2)
    return real_numbers(emitter, emitter.value(index), emitter.array(index + 1), point, axis)


def _result(emitter: Emitter, value: Value, first: int, storage: str | None = None) -> Value:
    """
    Quantize `value`, the result of the node, with the scale that is operand `first` and the zero
    point that is operand `first + 1`. Without a zero point, the type is `storage` or that of the
    first operand.
    """
    node = emitter.node
    point = emitter.optional_array(first + 1)
    if point is not None:
        storage = point.dtype.name
    storage = storage or stored_type(emitter, emitter.value(0))
    element = uniform_type(emitter, storage, emitter.array(first), point, (), 0)
    return quantized(emitter, value, element, node.outputs[0])


def float_operator(
    emitter: Emitter,
    kind: str,
    operands: Sequence[Value],
    dropped: Sequence[str] = (),
    added: Sequence[onnx.AttributeProto] = (),
) -> Value:
    """
    Import the current node as the float operator `kind` of `operands`. It has the attributes of the
    node except `dropped`, and the attributes `added`.
    """
    node = emitter.node
    names = [f"{node.outputs[0]}/real{i}" for i in range(len(operands))]
    proto = onnx.NodeProto(op_type=kind, name=node.name, input=names, output=node.outputs)
    proto.attribute.extend(a for a in node.proto.attribute if a.name not in dropped)
    proto.attribute.extend(added)
    node.ignore(*(a.name for a in node.proto.attribute))
    inner = Node(proto, node.opset, node.constants)
    emitter.values.update(zip(names, operands, strict=True))
    emitter.node = inner
    result = OPERATORS[kind](inner, emitter)
    emitter.node = node
    for name in names:
        del emitter.values[name]
    if unread := inner.unread():
        raise node.wrong(f"{node.operator} has no attribute '{unread[0]}'")
    return result[0] if isinstance(result, Sequence) else result


@operator("QLinearConv")
def qlinear_conv(node: Node, emitter: Emitter) -> Value:
    """
    Import QLinearConv as a convolution of real values. The bias has 32 bits and the scale of x
    times that of w.
    """
    operands = [_real(emitter, 0), _real(emitter, 3)]
    if node.has_input(8):
        operands.append(_bias(emitter, 8, 1, 4))
    return _result(emitter, float_operator(emitter, "Conv", operands), 6)


def _bias(emitter: Emitter, index: int, first: int, second: int, factor: float = 1.0) -> Value:
    """
    Return operand `index`, a bias of integers, as real values. The scale is `factor` times the
    product of operands `first` and `second`, the scales of input and weights.
    """
    scale = emitter.array(first).astype(np.float64) * emitter.array(second).astype(np.float64)
    scale = (scale * factor).reshape(-1)
    return real_numbers(emitter, emitter.value(index), scale, None, -1)


@operator("QLinearMatMul")
def qlinear_matmul(node: Node, emitter: Emitter) -> Value:
    """
    Import QLinearMatMul as a product of real values. The weights may have a scale for each column.
    """
    product = float_operator(emitter, "MatMul", [_real(emitter, 0), _real(emitter, 3, axis=-1)])
    return _result(emitter, product, 6)


@operator(f"{MICROSOFT}QGemm")
def qgemm(node: Node, emitter: Emitter) -> Value:
    """
    Import QGemm as a product of real values. `C` has the scale alpha * scale(A) * scale(B). The
    result is float if there is no output scale.
    """
    axis = 0 if node.flag("transB") else -1
    operands = [_real(emitter, 0), _real(emitter, 3, axis)]
    if node.has_input(6):
        operands.append(_bias(emitter, 6, 1, 4, node.number("alpha", 1.0)))
    product = float_operator(emitter, "Gemm", operands)
    if not node.has_input(7):
        return product
    return _result(emitter, product, 7)


@operator(f"{QLINEAR}Add", f"{QLINEAR}Mul")
def qlinear_binary(node: Node, emitter: Emitter) -> Value:
    """Import QLinearAdd or QLinearMul on real values. Each operand has a separate scale."""
    kind = node.operator.removeprefix(QLINEAR)
    result = float_operator(emitter, kind, [_real(emitter, 0), _real(emitter, 3)])
    return _result(emitter, result, 6)


@operator(*QUANTIZED_UNARY)
def qlinear_unary(node: Node, emitter: Emitter) -> Value:
    """Import a QLinear pooling or function, such as QLinearSigmoid, on real values."""
    if node.flag("channels_last"):
        raise node.unsupported("channels_last=1; export with channels_last=0")
    kind = node.operator.removeprefix(QLINEAR)
    shape = emitter.shape(0)
    if kind == "Softmax" and shape[node.axis(node.integer("axis", -1), len(shape))] == 1:
        raise node.unsupported(
            "one element along the axis, for which ONNX Runtime stores 0 instead of 1; "
            "use Softmax between DequantizeLinear and QuantizeLinear"
        )
    dropped, added = ["channels_last", "opset"], list[onnx.AttributeProto]()
    if kind == "AveragePool" and node.flag("count_include_pad") and len(shape) in (3, 4):
        # If the quantized average of ONNX Runtime counts padding, it divides by the size of the
        # window, unlike the float average, so `pads` has the padding of `ceil_mode`.
        top, left, bottom, right = read_window(node, shape[2:]).padding
        pads = [top, left, bottom, right] if len(shape) == 4 else [left, right]
        dropped += ["auto_pad", "ceil_mode", "pads"]
        added.append(onnx.helper.make_attribute("pads", pads))
    result = float_operator(emitter, kind, [_real(emitter, 0)], dropped, added)
    return _result(emitter, result, 3)


@rule(f"{QLINEAR}Concat")
def constant_concat(node: Node) -> str | None:
    """scales and zero points must be constants"""
    for i, name in enumerate(node.inputs):
        if name and (i < 2 or i % 3 != 2) and not node.is_constant(i):
            return node.computed(i, "quantize the model statically")
    return None


@operator(f"{QLINEAR}Concat")
def qlinear_concat(node: Node, emitter: Emitter) -> Value:
    """
    Import QLinearConcat on real values. The first two operands are the scale and the zero point of
    the result.
    """
    operands = [_real(emitter, i) for i in range(2, len(node.inputs), 3)]
    if not operands:
        raise node.wrong(f"has {len(node.inputs)} operands, expected at least 5")
    return _result(emitter, float_operator(emitter, "Concat", operands), 0, "uint8")


WEIGHT_OPERANDS: dict[str, tuple[int, int]] = {
    "ConvInteger": (1, 3),
    "MatMulInteger": (1, 3),
    f"{MICROSOFT}MatMulIntegerToFloat": (1, 5),
    f"{MICROSOFT}DynamicQuantizeMatMul": (1, 3),
}
"""The operands with the weights and their zero point."""


constant_operands(
    WEIGHT_OPERANDS,
    "the second operand and its zero point must be constants",
    "keep this product in float",
)


@operator("ConvInteger")
def conv_integer(node: Node, emitter: Emitter) -> Value:
    """
    Import ConvInteger. The weights have scale 1, so the 32-bit sums have the scale of the input (by
    default 1).
    """
    return _product(emitter, "Conv", 0, emitter.optional(2))


@operator("MatMulInteger")
def matmul_integer(node: Node, emitter: Emitter) -> Value:
    """Import MatMulInteger. The weights have scale 1, as in `conv_integer`."""
    return _product(emitter, "MatMul", -1, emitter.optional(2))


@operator(f"{MICROSOFT}MatMulIntegerToFloat")
def matmul_integer_to_float(node: Node, emitter: Emitter) -> Value:
    """
    Import MatMulIntegerToFloat: the product of integers, times the scales of both operands, plus a
    bias.
    """
    product = _product(emitter, "MatMul", -1, emitter.optional(4))
    scales = emitter.value(2), emitter.value(3)
    return scaled_sums(emitter, product, scales, emitter.optional(6))


@operator(f"{MICROSOFT}DynamicQuantizeMatMul")
def dynamic_quantize_matmul(node: Node, emitter: Emitter) -> Value:
    """
    Import DynamicQuantizeMatMul: quantize the input by the range at run time, multiply integers,
    and multiply by the scales.
    """
    with emitter.in_float():
        stored, scale, point = dynamically_quantized(emitter, emitter.value(0))
    sums = integer_product(emitter, "MatMul", -1, stored, point, _weights(emitter, -1))
    return scaled_sums(emitter, sums, (scale, emitter.value(2)), emitter.optional(4))


def scaled_sums(
    emitter: Emitter, product: Value, scales: tuple[Value, Value], bias: Value | None
) -> Value:
    """Multiply the integer sums `product` by both `scales`, and add `bias` if it is given."""
    result = emitter.mul(emitter.cast(product), emitter.mul(*scales))
    return result if bias is None else emitter.add(result, bias)


def _weights(emitter: Emitter, axis: int) -> QuantizedConstant:
    """Return the weights of the node at scale 1. `axis` is the dimension of the output channels."""
    index, point = WEIGHT_OPERANDS[emitter.node.operator]
    value, shape = emitter.value(index), emitter.shape(index)
    known = emitter.optional_array(point)
    weights = dequantized(emitter, value, _unscaled_type(emitter, value, known, shape, axis))
    assert isinstance(weights, QuantizedConstant)
    return weights


def _product(emitter: Emitter, kind: str, axis: int, point: Value | None) -> Value:
    """
    Return the integer sums of products of the node. `axis` is the dimension of the output channels
    in the weights, and `point` is the zero point of the input.
    """
    node, x, weights = emitter.node, emitter.value(0), _weights(emitter, axis)
    is_computed = (
        isinstance(x, SSAValue) and isinstance(x.owner, CastOp) and is_integer(element_of(x))
    )
    if (point is None or isinstance(point, Constant)) and not is_computed:
        known = None if point is None else point.load()
        read = _unscaled_type(emitter, x, known, emitter.shape(0), 0)
        # Keep the scale of quantized integers, which becomes the scale of the result.
        given = None if isinstance(x, Constant) else element_of(x)
        if isinstance(given, UniformType):
            scale = 1.0 if given.is_per_axis else given.scale
            read = given if given == read.rescaled(scale) else read
        # With a zero point for each channel, the scales are 1.
        scale = 1.0 if read.is_per_axis else read.scale
        result = float_operator(emitter, kind, [dequantized(emitter, x, read), weights])
        return quantized(emitter, result, UniformType(scale, storage=i32), node.outputs[0])
    return integer_product(emitter, kind, axis, x, point, weights)


def _unscaled_type(
    emitter: Emitter, value: Value, point: Array | None, shape: Sequence[int], axis: int
) -> UniformType:
    ones = np.ones(() if point is None or point.size == 1 else point.shape, np.float32)
    return uniform_type(emitter, stored_type(emitter, value), ones, point, shape, axis)


def integer_product(
    emitter: Emitter,
    kind: str,
    axis: int,
    x: Value,
    point: Value | None,
    weights: QuantizedConstant,
) -> Value:
    """
    Convolve or multiply integers, minus a computed zero point, by weights at scale 1. `axis` is
    that of the outputs in the weights.
    """
    node = emitter.node
    storage = stored_type(emitter, x)
    if storage not in ("int8", "uint8"):
        raise node.unsupported(f"the first operand is {storage}, expected int8 or uint8")
    middle = 128 if storage == "uint8" else 0
    if point is None:
        point = emitter.constant(np.zeros((), storage), "zero_point")
    if prod(shape_of_value(point)) != 1:
        raise node.unsupported("a zero point for each row; use a single zero point")
    point = emitter.reshaped(point, (1,))
    added: list[onnx.AttributeProto] = []
    with emitter.in_float():
        moved: Value = emitter.sub(emitter.cast(x), emitter.cast(point))
        if kind == "Conv":
            moved, added = _padded(emitter, moved)
        # Add the zero point again, to the padding too.
        moved = emitter.add(moved, emitter.sub(emitter.cast(point), emitter.number(middle)))
    byte = QuantizeOp(emitter.materialize(moved), UniformType(1.0, storage=i8))
    real = emitter.emit(DequantizeOp(emitter.emit(byte)))
    totals = _totals(weights, axis, len(shape_of_value(x)))
    if kind == "Conv":
        product = float_operator(emitter, kind, [real, weights], ("pads", "auto_pad"), added)
    else:
        product = matrix_product(emitter, real, weights)
    sums = quantized(emitter, product, UniformType(1.0, storage=i32), node.outputs[0])
    total = emitter.emit(CastOp(emitter.materialize(sums), i32))
    offset = emitter.constant(np.array(middle, np.int32), "middle")
    rest = emitter.sub(offset, emitter.cast(point, i32))
    return emitter.add(total, emitter.mul(emitter.constant(totals, "totals"), rest))


def _padded(emitter: Emitter, x: Value) -> tuple[Value, list[onnx.AttributeProto]]:
    """
    Pad `x` as the convolution of the node does, and return the attribute for a convolution without
    padding.
    """
    node, shape, weights = emitter.node, emitter.shape(0), emitter.shape(1)
    if len(shape) not in (3, 4) or len(weights) != len(shape):
        raise node.unsupported(f"an input of shape {list(shape)}, expected one or two dimensions")
    top, left, bottom, right = read_window(node, shape[2:], weights).padding
    before, after = (top, left)[4 - len(shape) :], (bottom, right)[4 - len(shape) :]
    x = emitter.padded(x, (0, 0, *before), (0, 0, *after))
    return x, [onnx.helper.make_attribute("pads", [0] * (2 * len(before)))]


def _totals(weights: Constant, axis: int, rank: int) -> Array:
    integers = weights.load().astype(np.int64)
    if axis == 0:
        sums = integers.reshape(len(integers), -1).sum(axis=1).reshape(-1, *(1,) * (rank - 2))
    else:
        sums = integers.sum(axis=max(-2, -integers.ndim), keepdims=True)
        sums = sums if integers.ndim > 2 else sums.reshape(-1)
    return sums.astype(np.int32)
