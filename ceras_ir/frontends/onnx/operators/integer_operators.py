"""
Operators on integers, each read as its float operator between DequantizeLinear and QuantizeLinear.

That is how ONNX and ONNX Runtime define them, except for where they round; `fold-qdq` makes one
quantized operation of the three. ConvInteger, MatMulInteger and relatives are products of stored
integers, whose scales come later. Where the zero point p of their first operand is computed, sums
are taken of 8-bit integers all the same: `sum (x - p) w = sum (x - m) w + (m - p) sum w` with
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
from ceras_ir.frontends.onnx.model.windows import read_window
from ceras_ir.frontends.onnx.operators.matrix import matrix_product
from ceras_ir.frontends.onnx.operators.quantized import dynamically_quantized

PARAMETERS: dict[str, tuple[int, ...]] = {
    "QLinearConv": (1, 2, 4, 5, 6, 7),
    "QLinearMatMul": (1, 2, 4, 5, 6, 7),
    f"{MICROSOFT}QGemm": (1, 2, 4, 5, 7, 8),
    f"{MICROSOFT}QLinearAdd": (1, 2, 4, 5, 6, 7),
    f"{MICROSOFT}QLinearMul": (1, 2, 4, 5, 6, 7),
    f"{MICROSOFT}QLinearAveragePool": (1, 2, 3, 4),
    f"{MICROSOFT}QLinearGlobalAveragePool": (1, 2, 3, 4),
    f"{MICROSOFT}QLinearSigmoid": (1, 2, 3, 4),
    f"{MICROSOFT}QLinearLeakyRelu": (1, 2, 3, 4),
    f"{MICROSOFT}QLinearSoftmax": (1, 2, 3, 4),
}
"""Which operands are scales and zero points."""


constant_operands(
    PARAMETERS, "scales and zero points must be constants", "quantize the model statically"
)


def _real(emitter: Emitter, index: int, axis: int = 0) -> Value:
    """Operand `index` as real numbers; the scale and the zero point follow it."""
    point = emitter.array(index + 2) if emitter.node.has_input(index + 2) else None
    return real_numbers(emitter, emitter.value(index), emitter.array(index + 1), point, axis)


def _result(emitter: Emitter, value: Value, first: int, storage: str | None = None) -> Value:
    """
    `value` in the type that operands `first` and `first + 1` describe, without the latter stored
    as `storage` or as the first operand.
    """
    node = emitter.node
    if node.has_input(first + 1):
        storage = emitter.array(first + 1).dtype.name
    storage = storage or stored_type(emitter, emitter.value(0))
    point = emitter.array(first + 1) if node.has_input(first + 1) else None
    element = uniform_type(emitter, storage, emitter.array(first), point, (), 0)
    return quantized(emitter, value, element, node.outputs[0])


def float_operator(
    emitter: Emitter,
    kind: str,
    operands: Sequence[Value],
    dropped: Sequence[str] = (),
    added: Sequence[onnx.AttributeProto] = (),
) -> Value:
    """The float operator `kind` with the attributes of the current node, but for some."""
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
    """The bias is stored in 32 bits at scale(x) * scale(w)."""
    operands = [_real(emitter, 0), _real(emitter, 3)]
    if node.has_input(8):
        operands.append(_bias(emitter, 8, 1, 4))
    return _result(emitter, float_operator(emitter, "Conv", operands), 6)


def _bias(emitter: Emitter, index: int, first: int, second: int, factor: float = 1.0) -> Value:
    """A bias of integers at `factor` times the product of two scales, one or one per channel."""
    scale = emitter.array(first).astype(np.float64) * emitter.array(second).astype(np.float64)
    scale = (scale * factor).reshape(-1)
    return real_numbers(emitter, emitter.value(index), scale, None, -1)


@operator("QLinearMatMul")
def qlinear_matmul(node: Node, emitter: Emitter) -> Value:
    """Weights may have a scale per column."""
    product = float_operator(emitter, "MatMul", [_real(emitter, 0), _real(emitter, 3, axis=-1)])
    return _result(emitter, product, 6)


@operator(f"{MICROSOFT}QGemm")
def qgemm(node: Node, emitter: Emitter) -> Value:
    """`C` is stored in 32 bits at alpha * scale(A) * scale(B); without an output scale, the result
    is float."""
    axis = 0 if node.flag("transB") else -1
    operands = [_real(emitter, 0), _real(emitter, 3, axis)]
    if node.has_input(6):
        operands.append(_bias(emitter, 6, 1, 4, node.number("alpha", 1.0)))
    product = float_operator(emitter, "Gemm", operands)
    if not node.has_input(7):
        return product
    return _result(emitter, product, 7)


@operator(f"{MICROSOFT}QLinearAdd", f"{MICROSOFT}QLinearMul")
def qlinear_binary(node: Node, emitter: Emitter) -> Value:
    """Both operands come with their scales."""
    kind = node.operator.removeprefix(f"{MICROSOFT}QLinear")
    result = float_operator(emitter, kind, [_real(emitter, 0), _real(emitter, 3)])
    return _result(emitter, result, 6)


ONE_OPERAND = ("AveragePool", "GlobalAveragePool", "Sigmoid", "LeakyRelu", "Softmax")


@operator(*(f"{MICROSOFT}QLinear{name}" for name in ONE_OPERAND))
def qlinear_unary(node: Node, emitter: Emitter) -> Value:
    """Pooling and functions of one operand."""
    if node.flag("channels_last"):
        raise node.unsupported("channels_last=1; export with channels_last=0")
    kind = node.operator.removeprefix(f"{MICROSOFT}QLinear")
    shape = emitter.shape(0)
    if kind == "Softmax" and shape[node.axis(node.integer("axis", -1), len(shape))] == 1:
        raise node.unsupported(
            "one element along the axis, for which ONNX Runtime stores 0 in place of 1; "
            "use Softmax between DequantizeLinear and QuantizeLinear"
        )
    dropped, added = ["channels_last", "opset"], list[onnx.AttributeProto]()
    if kind == "AveragePool" and node.flag("count_include_pad") and len(shape) in (3, 4):
        dropped += ["auto_pad", "ceil_mode", "pads"]
        added.append(_all_padding(node, shape))
    result = float_operator(emitter, kind, [_real(emitter, 0)], dropped, added)
    return _result(emitter, result, 3)


def _all_padding(node: Node, shape: Sequence[int]) -> onnx.AttributeProto:
    """
    `pads` with what rounding up adds: where ONNX Runtime's quantized average counts padding, it
    divides by the whole window, unlike ONNX's float one.
    """
    top, left, bottom, right = read_window(node, shape[2:]).padding
    pads = [top, left, bottom, right] if len(shape) == 4 else [left, right]
    return onnx.helper.make_attribute("pads", pads)


@rule(f"{MICROSOFT}QLinearConcat")
def constant_concat(node: Node) -> str | None:
    """scales and zero points must be constants"""
    for i, name in enumerate(node.inputs):
        if name and (i < 2 or i % 3 != 2) and not node.is_constant(i):
            return f"'{name}' is computed; quantize the model statically"
    return None


@operator(f"{MICROSOFT}QLinearConcat")
def qlinear_concat(node: Node, emitter: Emitter) -> Value:
    """The result's scale and zero point come first, then each operand with its own."""
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
"""Which operands are the weights and their zero point."""


constant_operands(
    WEIGHT_OPERANDS,
    "the second operand and its zero point must be constants",
    "keep this product in float",
)


@operator("ConvInteger")
def conv_integer(node: Node, emitter: Emitter) -> Value:
    """
    Weights are real numbers of scale 1, and the 32-bit result has the scale of the input: 1, or
    that of QuantizeLinear.
    """
    return _product(emitter, "Conv", 0, _point(emitter, 2))


@operator("MatMulInteger")
def matmul_integer(node: Node, emitter: Emitter) -> Value:
    """A matrix product, with weights and result as those of `ConvInteger`."""
    return _product(emitter, "MatMul", -1, _point(emitter, 2))


@operator(f"{MICROSOFT}MatMulIntegerToFloat")
def matmul_integer_to_float(node: Node, emitter: Emitter) -> Value:
    """`MatMulInteger` times the scales of both operands, plus a bias."""
    product = _product(emitter, "MatMul", -1, _point(emitter, 4))
    bias = emitter.value(6) if node.has_input(6) else None
    return _scaled(emitter, product, (emitter.value(2), emitter.value(3)), bias)


@operator(f"{MICROSOFT}DynamicQuantizeMatMul")
def dynamic_quantize_matmul(node: Node, emitter: Emitter) -> Value:
    """`DynamicQuantizeLinear`, then `MatMulInteger` times the scales, plus a bias."""
    with emitter.in_float():
        stored, scale, point = dynamically_quantized(emitter, emitter.value(0))
    weights = _weights(emitter, -1)
    bias = emitter.value(4) if node.has_input(4) else None
    return matrix_product_to_float(emitter, stored, point, weights, (scale, emitter.value(2)), bias)


def _point(emitter: Emitter, index: int) -> Value | None:
    return emitter.value(index) if emitter.node.has_input(index) else None


def matrix_product_to_float(
    emitter: Emitter,
    stored: Value,
    point: Value,
    weights: QuantizedConstant,
    scales: tuple[Value, Value],
    bias: Value | None,
) -> Value:
    """
    `MatMulInteger` of `stored` minus a computed zero point and of weights [K, N] at scale 1, times
    both scales, plus a bias.
    """
    sums = _with_computed_point(emitter, "MatMul", -1, stored, point, weights)
    return _scaled(emitter, sums, scales, bias)


def _scaled(
    emitter: Emitter, product: Value, scales: tuple[Value, Value], bias: Value | None
) -> Value:
    result = emitter.mul(emitter.cast(product), emitter.mul(*scales))
    return result if bias is None else emitter.add(result, bias)


def _weights(emitter: Emitter, axis: int) -> QuantizedConstant:
    """The weights of the node, at scale 1; `axis` is that of the outputs."""
    index, point = WEIGHT_OPERANDS[emitter.node.operator]
    value, shape = emitter.value(index), emitter.shape(index)
    known = emitter.array(point) if emitter.node.has_input(point) else None
    weights = dequantized(emitter, value, _whole(emitter, value, known, shape, axis))
    assert isinstance(weights, QuantizedConstant)
    return weights


def _product(emitter: Emitter, kind: str, axis: int, point: Value | None) -> Value:
    """The sums; `axis` is that of the outputs in the weights."""
    node, x, weights = emitter.node, emitter.value(0), _weights(emitter, axis)
    if (point is None or isinstance(point, Constant)) and not _is_computed(x):
        known = None if point is None else point.load()
        read = _whole(emitter, x, known, emitter.shape(0), 0)
        # The same integers at their own scale, by which the result is greater.
        given = None if isinstance(x, Constant) else element_of(x)
        if isinstance(given, UniformType) and given == read.rescaled(_scale_of(given)):
            read = given
        scale = _scale_of(read)
        result = float_operator(emitter, kind, [dequantized(emitter, x, read), weights])
        return quantized(emitter, result, UniformType(scale, storage=i32), node.outputs[0])
    return _with_computed_point(emitter, kind, axis, x, point, weights)


def _whole(
    emitter: Emitter, value: Value, point: Array | None, shape: Sequence[int], axis: int
) -> UniformType:
    """Integers at scale 1."""
    ones = np.ones(() if point is None or point.size == 1 else point.shape, np.float32)
    return uniform_type(emitter, stored_type(emitter, value), ones, point, shape, axis)


def _scale_of(element: UniformType) -> float:
    """The one scale of a type; 1 where each channel has a zero point of its own."""
    return 1.0 if element.is_per_axis else element.scale


def _is_computed(value: Value) -> bool:
    """Whether integers come from an operation, and stand for themselves."""
    return (
        isinstance(value, SSAValue)
        and isinstance(value.owner, CastOp)
        and is_integer(element_of(value))
    )


def _with_computed_point(
    emitter: Emitter,
    kind: str,
    axis: int,
    x: Value,
    point: Value | None,
    weights: QuantizedConstant,
) -> Value:
    node = emitter.node
    storage = stored_type(emitter, x)
    if storage not in ("int8", "uint8"):
        raise node.unsupported(f"the first operand is {storage}; int8 and uint8 are taken")
    middle = 128 if storage == "uint8" else 0
    if point is None:
        point = emitter.constant(np.zeros((), storage), "zero_point")
    if prod(shape_of_value(point)) != 1:
        raise node.unsupported("a zero point for every row; give one for all")
    point = emitter.reshaped(point, (1,))
    added: list[onnx.AttributeProto] = []
    with emitter.in_float():
        moved: Value = emitter.sub(emitter.cast(x), emitter.cast(point))
        if kind == "Conv":
            moved, added = _padded(emitter, moved)
        # Back by the zero point, where padding now is too.
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
    rest = emitter.sub(
        emitter.constant(np.array(middle, np.int32), "middle"), emitter.cast(point, i32)
    )
    return emitter.add(total, emitter.mul(emitter.constant(totals, "totals"), rest))


def _padded(emitter: Emitter, x: Value) -> tuple[Value, list[onnx.AttributeProto]]:
    """`x` with the padding of a convolution written out, and the attribute of no more of it."""
    node, shape, weights = emitter.node, emitter.shape(0), emitter.shape(1)
    if len(shape) not in (3, 4) or len(weights) != len(shape):
        raise node.unsupported(f"an input of shape {list(shape)}; one or two dimensions are taken")
    top, left, bottom, right = read_window(node, shape[2:], weights).padding
    before, after = (top, left)[4 - len(shape) :], (bottom, right)[4 - len(shape) :]
    x = emitter.padded(x, (0, 0, *before), (0, 0, *after))
    return x, [onnx.helper.make_attribute("pads", [0] * (2 * len(before)))]


def _totals(weights: Constant, axis: int, rank: int) -> Array:
    """The sum of the weights of every output, shaped to be added to a result of `rank`."""
    whole = weights.load().astype(np.int64)
    if axis == 0:
        sums = whole.reshape(len(whole), -1).sum(axis=1).reshape(-1, *(1,) * (rank - 2))
    else:
        sums = whole.sum(axis=max(-2, -whole.ndim), keepdims=True)
        sums = sums if whole.ndim > 2 else sums.reshape(-1)
    return sums.astype(np.int32)
