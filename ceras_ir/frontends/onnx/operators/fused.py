"""Import operators that the optimizer of ONNX Runtime fuses from several operators of ONNX."""

from collections.abc import Sequence

from ceras_ir.dialects.graph import Function
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import MICROSOFT, UNFUSED_MODEL, operator
from ceras_ir.frontends.onnx.emission.values import Value, shape_of_value
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.operators.activation import LAYER_FUNCTIONS
from ceras_ir.frontends.onnx.operators.convolution import conv
from ceras_ir.frontends.onnx.operators.matrix import gemm, matrix_product, scaled
from ceras_ir.frontends.onnx.operators.normalization import scaled_and_shifted, standardized

FUSED_ACTIVATIONS = {**LAYER_FUNCTIONS, "Clip": Function.CLIP}


@operator(f"{MICROSOFT}FusedConv")
def fused_conv(node: Node, emitter: Emitter) -> Value:
    """Emit `Conv`, plus a fourth operand, then a function."""
    result = conv(node, emitter)
    if node.has_input(3):
        result = emitter.add(result, emitter.value(3))
    return _activated(node, emitter, result, node.numbers("activation_params") or ())


@operator(f"{MICROSOFT}FusedGemm")
def fused_gemm(node: Node, emitter: Emitter) -> Value:
    """Emit `Gemm`, then a function."""
    names = [f"activation_{name}" for name in ("alpha", "beta", "gamma")]
    given = [node.number(name, 0.0) for name in names if node.has_attribute(name)]
    return _activated(node, emitter, gemm(node, emitter), given)


def _activated(node: Node, emitter: Emitter, x: Value, parameters: Sequence[float]) -> Value:
    name = node.string("activation", "")
    if not name:
        return x
    if (function := FUSED_ACTIVATIONS.get(name)) is None:
        known = ", ".join(FUSED_ACTIVATIONS)
        message = f"activation is one of {known}, got '{name}'"
        raise node.unsupported(f"{message}; {UNFUSED_MODEL}")
    if len(parameters) != len(function.facts.parameters):
        count = len(function.facts.parameters)
        raise node.wrong(f"{len(parameters)} parameters of {name}, expected {count}")
    return emitter.unary(function, x, *parameters)


@operator(f"{MICROSOFT}FusedMatMul")
def fused_matmul(node: Node, emitter: Emitter) -> Value:
    """Emit `alpha * MatMul` of transposed operands; the first dimension may precede the batch."""
    operands: list[Value] = []
    for i, side in enumerate("AB"):
        value, turned = emitter.value(i), node.flag(f"trans{side}")
        rank = len(shape_of_value(value))
        order = list(range(rank))
        if node.flag(f"transBatch{side}") and rank > 2:
            order.insert(rank - 2, order.pop(0))
        if turned and rank > 1:
            order[-2:] = order[:-3:-1]
        operands.append(emitter.transposed(value, order))
    a, b = operands
    return matrix_product(emitter, a, scaled(emitter, b, node.number("alpha", 1.0), "factor"))


@operator(*(f"{MICROSOFT}{name}" for name in ("Gelu", "BiasGelu", "FastGelu")))
def gelu(node: Node, emitter: Emitter) -> Value:
    """Emit the function `gelu`, or `gelu_tanh` for `FastGelu`. A second operand is added first."""
    x, is_fast = emitter.value(0), node.operator.endswith("FastGelu")
    x = emitter.add(x, emitter.value(1)) if node.has_input(1) else x
    return emitter.unary(Function.GELU_TANH if is_fast else Function.GELU, x)


@operator(f"{MICROSOFT}QuickGelu")
def quick_gelu(node: Node, emitter: Emitter) -> Value:
    """Emit `x * sigmoid(alpha * x)`."""
    x = emitter.value(0)
    alpha = node.number("alpha", 1.702)
    inner = x if alpha == 1.0 else emitter.mul(x, emitter.number(alpha))
    return emitter.mul(x, emitter.unary(Function.SIGMOID, inner))


@operator(f"{MICROSOFT}SkipLayerNormalization")
def skip_layer_normalization(node: Node, emitter: Emitter) -> Sequence[Value]:
    """Emit `LayerNormalization` of a sum, which is the fourth result."""
    total = _skipped(node, emitter, 4)
    last, epsilon = [len(shape_of_value(total)) - 1], node.number("epsilon", 1e-12)
    result, mean, deviation = standardized(emitter, total, last, epsilon)
    result = scaled_and_shifted(emitter, result, 2)
    inverse = emitter.div(emitter.number(1), deviation) if node.has_output(2) else deviation
    return result, mean, inverse, total


@operator("SimplifiedLayerNormalization")
def simplified_layer_normalization(node: Node, emitter: Emitter) -> Sequence[Value]:
    """Divide by the root mean square along the last dimensions, then scale."""
    node.ignore("stash_type")
    x = emitter.value(0)
    rank = len(shape_of_value(x))
    axes = range(node.axis(node.integer("axis", -1), rank), rank)
    return _divided_by_root(node, emitter, x, emitter.value(1), axes)


@operator(f"{MICROSOFT}SkipSimplifiedLayerNormalization")
def skip_simplified_layer_normalization(node: Node, emitter: Emitter) -> Sequence[Value]:
    """Emit `SimplifiedLayerNormalization` of a sum, which is the fourth result."""
    total = _skipped(node, emitter, 3)
    last = [len(shape_of_value(total)) - 1]
    result, inverse = _divided_by_root(node, emitter, total, emitter.value(2), last)
    return result, inverse, inverse, total


def _skipped(node: Node, emitter: Emitter, bias: int) -> Value:
    total = emitter.add(emitter.value(0), emitter.value(1))
    return emitter.add(total, emitter.value(bias)) if node.has_input(bias) else total


def _divided_by_root(
    node: Node, emitter: Emitter, x: Value, scale: Value, axes: Sequence[int]
) -> tuple[Value, Value]:
    epsilon = node.number("epsilon", 1e-5)
    square = emitter.mean(emitter.mul(x, x), axes)
    root = emitter.unary(Function.SQRT, emitter.add(square, emitter.number(epsilon)))
    inverse = emitter.div(emitter.number(1), root) if node.has_output(1) else root
    return emitter.mul(emitter.div(x, root), scale), inverse
