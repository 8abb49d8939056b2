"""
Products of stored integers, whose scales come later: ConvInteger, MatMulInteger and relatives.

Where the zero point p of the first operand is computed, sums are taken of 8-bit integers all the
same: `sum (x - p) w = sum (x - m) w + (m - p) sum w` with m = 128 for uint8, and 0 for int8.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
import onnx
from xdsl.dialects.builtin import i8, i32
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import CastOp, DequantizeOp, Pad, PadOp, QuantizeOp, element_of
from ceras_ir.dialects.graph.constant import is_integer
from ceras_ir.dialects.quant import UniformType
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import Emitter, shape_of_value
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.operators.dynamic import dynamically_quantized
from ceras_ir.frontends.onnx.operators.matrix import matrix_product
from ceras_ir.frontends.onnx.operators.quantized import MICROSOFT
from ceras_ir.frontends.onnx.operators.quantized_linear import float_operator
from ceras_ir.frontends.onnx.quantization import dequantized, quantized, stored_type, uniform_type
from ceras_ir.frontends.onnx.quantized_constant import QuantizedConstant
from ceras_ir.frontends.onnx.registry import constant_operands, operator
from ceras_ir.frontends.onnx.tensors import Array
from ceras_ir.frontends.onnx.values import Constant, Value
from ceras_ir.frontends.onnx.windows import read_window

WEIGHTS: dict[str, tuple[int, int]] = {
    "ConvInteger": (1, 3),
    "MatMulInteger": (1, 3),
    f"{MICROSOFT}MatMulIntegerToFloat": (1, 5),
    f"{MICROSOFT}DynamicQuantizeMatMul": (1, 3),
}
"""Which operands are the weights and their zero point."""


constant_operands(
    WEIGHTS,
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
    compose = Composer(emitter)
    result = compose.mul(compose.cast(product), compose.mul(*scales))
    return result if bias is None else compose.add(result, bias)


def _weights(emitter: Emitter, axis: int) -> QuantizedConstant:
    """The weights of the node, at scale 1; `axis` is that of the outputs."""
    index, point = WEIGHTS[emitter.node.operator]
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
    node, compose = emitter.node, Composer(emitter)
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
        moved: Value = compose.sub(compose.cast(x), compose.cast(point))
        if kind == "Conv":
            moved, added = _padded(emitter, moved)
        # Back by the zero point, where padding now is too.
        moved = compose.add(moved, compose.sub(compose.cast(point), compose.number(middle)))
    byte = QuantizeOp(emitter.materialize(moved), UniformType(1.0, storage=i8))
    real = emitter.emit(DequantizeOp(emitter.emit(byte)))
    totals = _totals(weights, axis, len(shape_of_value(x)))
    if kind == "Conv":
        product = float_operator(emitter, kind, [real, weights], ("pads", "auto_pad"), added)
    else:
        product = matrix_product(emitter, real, weights)
    sums = quantized(emitter, product, UniformType(1.0, storage=i32), node.outputs[0])
    total = emitter.emit(CastOp(emitter.materialize(sums), i32))
    rest = compose.sub(
        emitter.constant(np.array(middle, np.int32), "middle"), compose.cast(point, i32)
    )
    return compose.add(total, compose.mul(emitter.constant(totals, "totals"), rest))


def _padded(emitter: Emitter, x: Value) -> tuple[Value, list[onnx.AttributeProto]]:
    """`x` with the padding of a convolution written out, and the attribute of no more of it."""
    node, shape, kernel = emitter.node, emitter.shape(0), emitter.shape(1)[2:]
    if len(shape) not in (3, 4) or len(kernel) != len(shape) - 2:
        raise node.unsupported(f"an input of shape {list(shape)}; one or two dimensions are taken")
    top, left, bottom, right = read_window(node, kernel, shape[2:]).padding
    before, after = (top, left)[4 - len(shape) :], (bottom, right)[4 - len(shape) :]
    if any((*before, *after)):
        x = emitter.emit(
            PadOp(Pad.CONSTANT, emitter.materialize(x), (0, 0, *before), (0, 0, *after))
        )
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
