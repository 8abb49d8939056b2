"""
Import normalizations, and operators that the optimizer of ONNX Runtime fuses.

Normalizations are compositions of reductions and arithmetic. In inference, batch normalization is a
product and a sum for each channel. `graph` has no operation for it: `fold-affine{batch-norms}`
moves both into a convolution.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import Binary, Function, NormalizeOp, Pool, Pool2dOp, Reduce
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import (
    MICROSOFT,
    UNFUSED_MODEL,
    constant_operands,
    first_output_only,
    operator,
    rule,
)
from ceras_ir.frontends.onnx.emission.values import Constant, Value, shape_of_value
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.operators.activation import LAYER_FUNCTIONS
from ceras_ir.frontends.onnx.operators.convolution import conv
from ceras_ir.frontends.onnx.operators.matrix import gemm, matrix_product, scaled

first_output_only("BatchNormalization")


@rule("BatchNormalization")
def inference(node: Node) -> str | None:
    """training_mode must be 0 and spatial 1"""
    if node.flag("training_mode"):
        return "training_mode is 1; export the model in eval mode"
    if not node.flag("spatial", True):
        return "spatial is 0; export with opset 9 or later"
    return None


constant_operands(
    {"BatchNormalization": range(1, 5)},
    "scale, bias, mean and variance must be constants",
    "make it an initializer",
)


@operator("BatchNormalization")
def batch_normalization(node: Node, emitter: Emitter) -> Value:
    """
    Import BatchNormalization: `x * s + (b - mean * s)` with `s = scale / sqrt(var + epsilon)`. The
    constants are computed in double precision.
    """
    node.ignore("momentum", "spatial", "training_mode", *("is_test",) * (node.opset < 7))
    shape = emitter.shape(0)
    if len(shape) < 2:
        raise node.wrong(f"input of shape {list(shape)} has no channels")
    channels = shape[1]
    parameters: list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]] = []
    for i, name in enumerate(("scale", "bias", "mean", "variance"), 1):
        array = emitter.floats(i)
        if array.shape != (channels,):
            raise node.wrong(f"{name} of shape {list(array.shape)}, expected [{channels}]")
        parameters.append(array.astype(np.float64))
    scale, bias, mean, variance = parameters
    epsilon = node.number("epsilon", 1e-5)
    if not (variance + epsilon > 0.0).all():
        raise node.wrong("variance plus epsilon must be positive")
    factor = scale / np.sqrt(variance + epsilon)
    offset = bias - mean * factor
    column = (channels,) + (1,) * (len(shape) - 2)
    multiplier = emitter.constant(factor.astype(np.float32).reshape(column), "scale")
    product = emitter.binary(Binary.MUL, emitter.value(0), multiplier)
    summand = emitter.constant(offset.astype(np.float32).reshape(column), "offset")
    return emitter.binary(Binary.ADD, product, summand)


def standardized(
    emitter: Emitter, x: Value, axes: Sequence[int], epsilon: float
) -> tuple[Value, Value, Value]:
    """
    Return `(x - mean) / sqrt(variance + epsilon)` with the statistics along `axes`, the mean, and
    the divisor.
    """
    mean = emitter.mean(x, axes)
    centred = emitter.sub(x, mean)
    variance = emitter.mean(emitter.mul(centred, centred), axes)
    deviation = emitter.unary(Function.SQRT, emitter.add(variance, emitter.number(epsilon)))
    return emitter.div(centred, deviation), mean, deviation


def _per_channel(node: Node, emitter: Emitter, index: int, count: int, rank: int) -> Value:
    """
    Return operand `index`, which has `count` elements, reshaped so that it broadcasts along
    dimension 1 of a tensor of `rank`.
    """
    if emitter.shape(index) != (count,):
        got = list(emitter.shape(index))
        raise node.wrong(f"operand {index} of shape {got}, expected [{count}]")
    return emitter.reshaped(emitter.value(index), (count, *(1,) * (rank - 2)))


def _spatial(node: Node, emitter: Emitter) -> tuple[int, ...]:
    shape = emitter.shape(0)
    if len(shape) < 3:
        raise node.wrong(f"input of shape {list(shape)}, expected 3 or more dimensions")
    return shape


@operator("InstanceNormalization")
def instance_normalization(node: Node, emitter: Emitter) -> Value:
    """
    Import InstanceNormalization: normalize each channel of each image over the spatial dimensions.
    """
    shape = _spatial(node, emitter)
    rank = len(shape)
    scale, offset = (_per_channel(node, emitter, i, shape[1], rank) for i in (1, 2))
    epsilon = node.number("epsilon", 1e-5)
    node.ignore("consumed_inputs")
    normal, _, _ = standardized(emitter, emitter.value(0), range(2, rank), epsilon)
    return emitter.add(emitter.mul(normal, scale), offset)


@operator("GroupNormalization")
def group_normalization(node: Node, emitter: Emitter) -> Value:
    """
    Import GroupNormalization: normalize each group of channels over channels and spatial
    dimensions.
    """
    shape = _spatial(node, emitter)
    node.ignore("stash_type")
    groups, channels = node.integer("num_groups", 0), shape[1]
    if groups < 1 or channels % groups:
        raise node.wrong(f"attribute 'num_groups' must divide {channels} channels, got {groups}")
    split = emitter.reshaped(emitter.value(0), (shape[0], groups, prod(shape[1:]) // groups))
    normal, _, _ = standardized(emitter, split, [2], node.number("epsilon", 1e-5))
    normal = emitter.reshaped(normal, shape)
    # Before opset 21, there is a scale and an offset for each group.
    repeat = channels // groups if emitter.shape(1) == (groups,) != (channels,) else 1
    factors: list[Value] = []
    for i in (1, 2):
        value = emitter.value(i)
        if repeat > 1:
            value = emitter.expanded(emitter.reshaped(value, (groups, 1)), (groups, repeat))
        if prod(shape_of_value(value)) != channels:
            got = list(emitter.shape(i))
            raise node.wrong(f"operand {i} of shape {got}, expected [{channels}]")
        factors.append(emitter.reshaped(value, (channels, *(1,) * (len(shape) - 2))))
    return emitter.add(emitter.mul(normal, factors[0]), factors[1])


def scaled_and_shifted(emitter: Emitter, x: Value, index: int) -> Value:
    """Multiply `x` by operand `index` of the node, and add operand `index + 1` if it is given."""
    result = emitter.mul(x, emitter.value(index))
    has_bias = emitter.node.has_input(index + 1)
    return emitter.add(result, emitter.value(index + 1)) if has_bias else result


def layer_normalized(
    emitter: Emitter, x: Value, axes: Sequence[int], epsilon: float, index: int
) -> Sequence[Value]:
    """
    Normalize `x` along `axes`, the last dimensions, multiply by operand `index` of the node, and
    add operand `index + 1` if it is given. Return the result, and the mean and the inverse of the
    standard deviation if the node has these results.
    """
    node, shape = emitter.node, shape_of_value(x)
    factors = [emitter.value(i) for i in (index, index + 1) if node.has_input(i)]
    is_row = list(axes) == [len(shape) - 1] and not any(node.has_output(i) for i in (1, 2))
    if (
        is_row
        and isinstance(x, SSAValue)
        and all(isinstance(v, Constant) and shape_of_value(v) == shape[-1:] for v in factors)
    ):
        scale, *bias = map(emitter.materialize, factors)
        new = NormalizeOp(x, scale, *bias or (None,), epsilon=epsilon, centred=True)
        return emitter.emit(new), x, x
    result, mean, deviation = standardized(emitter, x, axes, epsilon)
    result = scaled_and_shifted(emitter, result, index)
    inverse = emitter.div(emitter.number(1), deviation) if node.has_output(2) else deviation
    return result, mean, inverse


@operator("LayerNormalization")
def layer_normalization(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    Import LayerNormalization over the dimensions from `axis` on. The other results are the mean and
    the inverse of the standard deviation.
    """
    shape = emitter.shape(0)
    node.ignore("stash_type")
    axis = node.axis(node.integer("axis", -1), len(shape))
    axes, epsilon = range(axis, len(shape)), node.number("epsilon", 1e-5)
    results = layer_normalized(emitter, emitter.value(0), axes, epsilon, 1)
    if shape_of_value(results[0]) != shape:
        raise node.wrong(f"scale {list(emitter.shape(1))} does not fit {list(shape[axis:])}")
    return results


@operator("MeanVarianceNormalization")
def mean_variance_normalization(node: Node, emitter: Emitter) -> Value:
    """
    Import MeanVarianceNormalization over `axes`, by default all except channels. The divisor is the
    standard deviation plus 1e-9.
    """
    rank = len(emitter.shape(0))
    given = node.integers("axes")
    axes = sorted({node.axis(a, rank, "axes") for a in ((0, 2, 3) if given is None else given)})
    value = emitter.value(0)
    centred = emitter.sub(value, emitter.mean(value, axes))
    variance = emitter.mean(emitter.mul(centred, centred), axes)
    deviation = emitter.add(emitter.unary(Function.SQRT, variance), emitter.number(1e-9))
    return emitter.div(centred, deviation)


@operator("LpNormalization")
def lp_normalization(node: Node, emitter: Emitter) -> Value:
    """
    Import LpNormalization: divide by the sum of magnitudes (`p` = 1) or by the Euclidean length
    along `axis`; by 1 if that is 0.
    """
    axis = node.axis(node.integer("axis", -1), len(emitter.shape(0)))
    order, value = node.integer("p", 2), emitter.value(0)
    if order not in (1, 2):
        raise node.wrong(f"attribute 'p' must be 1 or 2, got {order}")
    raised = emitter.unary(Function.ABS, value) if order == 1 else emitter.mul(value, value)
    total = emitter.reduce(Reduce.SUM, raised, [axis])
    norm = total if order == 1 else emitter.unary(Function.SQRT, total)
    is_zero = emitter.sub(emitter.number(1), emitter.unary(Function.SIGN, norm))
    return emitter.div(value, emitter.add(norm, is_zero))


@operator("LRN")
def local_response_normalization(node: Node, emitter: Emitter) -> Value:
    """
    Import LRN: `x / (bias + alpha / size * S) ** beta`, where S is the sum of the squares of `size`
    neighboring channels.
    """
    shape, value = emitter.shape(0), emitter.value(0)
    size = node.integer("size", 0)
    if size < 1 or size > 1 << 16 or len(shape) < 2:
        raise node.wrong(f"attribute 'size' must be >= 1, got {size}; shape {list(shape)}")
    n, channels, rest = shape[0], shape[1], prod(shape[2:])
    squares = emitter.reshaped(emitter.mul(value, value), (n, channels, 1, rest))
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    # The window slides over the channels, which are at the position of the height.
    padded = emitter.padded(squares, (0, before, 0, 0), (0, after, 0, 0), value=FloatAttr(0.0, f32))
    padded = emitter.materialize(padded)
    means = emitter.emit(Pool2dOp(Pool.AVERAGE, padded, (size, 1), result_element=f32))
    average = emitter.reshaped(means, shape)
    alpha, beta = node.number("alpha", 1e-4), node.number("beta", 0.75)
    average = emitter.mul(average, emitter.number(alpha))
    base = emitter.add(average, emitter.number(node.number("bias", 1.0)))
    logarithm = emitter.unary(Function.LOG, base)
    exponent = emitter.mul(logarithm, emitter.number(float(np.float32(-beta))))
    return emitter.mul(value, emitter.unary(Function.EXP, exponent))


FUSED_ACTIVATIONS = {**LAYER_FUNCTIONS, "Clip": Function.CLIP}


@operator(f"{MICROSOFT}FusedConv")
def fused_conv(node: Node, emitter: Emitter) -> Value:
    """
    Import FusedConv of ONNX Runtime: Conv, plus a fourth operand if given, then an activation.
    """
    result = conv(node, emitter)
    if node.has_input(3):
        result = emitter.add(result, emitter.value(3))
    return _activated(node, emitter, result, node.numbers("activation_params") or ())


@operator(f"{MICROSOFT}FusedGemm")
def fused_gemm(node: Node, emitter: Emitter) -> Value:
    """Import FusedGemm of ONNX Runtime: Gemm, then an activation."""
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
    """
    Import FusedMatMul of ONNX Runtime: `alpha * MatMul` of operands that may be transposed. With
    `transBatchA` or `transBatchB`, the batch dimensions are after the first dimension.
    """
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
    """
    Import Gelu, FastGelu (with tanh) or BiasGelu of ONNX Runtime. A second operand is added first.
    """
    x, is_fast = emitter.value(0), node.operator.endswith("FastGelu")
    x = emitter.add(x, emitter.value(1)) if node.has_input(1) else x
    return emitter.unary(Function.GELU_TANH if is_fast else Function.GELU, x)


@operator(f"{MICROSOFT}QuickGelu")
def quick_gelu(node: Node, emitter: Emitter) -> Value:
    """Import QuickGelu of ONNX Runtime: `x * sigmoid(alpha * x)`."""
    x = emitter.value(0)
    alpha = node.number("alpha", 1.702)
    inner = x if alpha == 1.0 else emitter.mul(x, emitter.number(alpha))
    return emitter.mul(x, emitter.unary(Function.SIGMOID, inner))


@operator(f"{MICROSOFT}SkipLayerNormalization")
def skip_layer_normalization(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    Import SkipLayerNormalization of ONNX Runtime: LayerNormalization of the sum of two operands,
    which is the fourth result.
    """
    total = _skipped(node, emitter, 4)
    last, epsilon = [len(shape_of_value(total)) - 1], node.number("epsilon", 1e-12)
    return *layer_normalized(emitter, total, last, epsilon, 2), total


@operator("SimplifiedLayerNormalization")
def simplified_layer_normalization(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    Import SimplifiedLayerNormalization: divide by the root mean square along the dimensions from
    `axis` on, then multiply by the scale.
    """
    node.ignore("stash_type")
    x = emitter.value(0)
    rank = len(shape_of_value(x))
    axes = range(node.axis(node.integer("axis", -1), rank), rank)
    epsilon = node.number("epsilon", 1e-5)
    return _divided_by_root(node, emitter, x, emitter.value(1), axes, epsilon)


@operator("RMSNorm")
def deeploy_rms_norm(node: Node, emitter: Emitter) -> Value:
    """
    Import Deeploy's SimplifiedLayerNormalization: divide by the root mean square along the last
    dimension, then multiply by the scale.
    """
    x, epsilon = emitter.value(0), node.number("eps", 1e-5)
    last = [len(shape_of_value(x)) - 1]
    return _divided_by_root(node, emitter, x, emitter.value(1), last, epsilon)[0]


@operator(f"{MICROSOFT}SkipSimplifiedLayerNormalization")
def skip_simplified_layer_normalization(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    Import SkipSimplifiedLayerNormalization of ONNX Runtime: divide the sum of two operands, which
    is the fourth result, by the root mean square.
    """
    total = _skipped(node, emitter, 3)
    last = [len(shape_of_value(total)) - 1]
    epsilon = node.number("epsilon", 1e-5)
    result, inverse = _divided_by_root(node, emitter, total, emitter.value(2), last, epsilon)
    return result, inverse, inverse, total


def _skipped(node: Node, emitter: Emitter, bias: int) -> Value:
    total = emitter.add(emitter.value(0), emitter.value(1))
    return emitter.add(total, emitter.value(bias)) if node.has_input(bias) else total


def _divided_by_root(
    node: Node, emitter: Emitter, x: Value, scale: Value, axes: Sequence[int], epsilon: float
) -> tuple[Value, Value]:
    square = emitter.mean(emitter.mul(x, x), axes)
    root = emitter.unary(Function.SQRT, emitter.add(square, emitter.number(epsilon)))
    inverse = emitter.div(emitter.number(1), root) if node.has_output(1) else root
    return emitter.mul(emitter.div(x, root), scale), inverse
