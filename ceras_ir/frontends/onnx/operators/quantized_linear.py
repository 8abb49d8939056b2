"""
Operators on integers, each read as its float operator between DequantizeLinear and QuantizeLinear.

That is what ONNX and ONNX Runtime define them to be, but for where they round; `fold-qdq` makes
one quantized operation of the three.
"""

from collections.abc import Sequence

import numpy as np
import onnx

from ceras_ir.frontends.onnx.emitter import Emitter
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.operators.quantized import MICROSOFT
from ceras_ir.frontends.onnx.quantization import (
    quantized,
    real_numbers,
    stored_type,
    uniform_type,
)
from ceras_ir.frontends.onnx.registry import OPERATORS, constant_operands, operator, rule
from ceras_ir.frontends.onnx.values import Value
from ceras_ir.frontends.onnx.windows import read_window

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
    kernel = node.integers("kernel_shape") or ()
    if len(kernel) != len(shape) - 2:
        raise node.wrong(f"attribute 'kernel_shape' must be {len(shape) - 2} integers")
    top, left, bottom, right = read_window(node, kernel, tuple(shape[2:])).padding
    pads = [top, left, bottom, right] if len(kernel) == 2 else [left, right]
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
