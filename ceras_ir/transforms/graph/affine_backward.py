"""Fold factors and addends of channels into the preceding layer: rules of `fold-affine`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import (
    Binary,
    BinaryOp,
    ConstantOp,
    Conv2dOp,
    MatmulOp,
    constant_array,
    shape_of,
)
from ceras_ir.dialects.sparse import MASK
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.pass_kinds import PatternPass
from ceras_ir.transforms.rebuilding import rebuild_linear

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def per_channel(value: SSAValue, channels: int) -> NDArray[np.float32] | None:
    """
    Return the float32 constant `value` as a vector [channels]: a constant with an element per
    channel (the last axis), or a scalar, which is repeated. Return `None` for other values.
    """
    import numpy as np

    shape = shape_of(value)
    if any(extent != 1 for extent in shape[:-1]) or shape[-1:] not in ((), (1,), (channels,)):
        return None
    array = constant_array(value)
    if array is None or array.dtype != np.float32:
        return None
    return np.broadcast_to(array.astype(np.float32, copy=False).reshape(-1), (channels,))


class FoldPerChannelConstant(RewritePattern):
    """
    Fold a factor or addend per channel into the layer before it.

        (conv(x, w) + b) * s    ->  conv(x, w * s) + b * s
        (conv(x, w) + b) + t    ->  conv(x, w) + (b + t)

    `graph.matmul` likewise. Equal over the reals. In float32 each weight and bias is rounded a
    second time: a relative error below 2^-23 of the sum of the magnitudes of the terms.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BinaryOp, rewriter: PatternRewriter, /):
        flipped = not isinstance(op.lhs.owner, Conv2dOp | MatmulOp)
        value, other = (op.rhs, op.lhs) if flipped else (op.lhs, op.rhs)
        linear = value.owner
        if not isinstance(linear, Conv2dOp | MatmulOp) or op.is_quantized:
            return
        # Another consumer needs the value before the constant; an activation is not linear.
        if not value.has_one_use() or linear.activation or linear.residual is not None:
            return
        if shape_of(op.result) != shape_of(value):
            return
        if (constant := per_channel(other, shape_of(value)[-1])) is None:
            return
        folded = _fold(linear, op, constant, is_right_hand=flipped)
        if folded is None:
            return
        weights, bias = folded
        rewriter.insert([c for c in (weights, bias) if c is not None])
        new_weights = linear.weights if weights is None else weights.result
        epilogue = {"activation": op.activation}
        new = rebuild_linear(linear, epilogue, weights=new_weights, bias=bias.result)
        new.location = fused_location(linear, op)
        rewriter.replace(op, new)
        rewriter.erase(linear)


def _fold(
    linear: Conv2dOp | MatmulOp, op: BinaryOp, constant: NDArray[np.float32], is_right_hand: bool
) -> tuple[ConstantOp | None, ConstantOp] | None:
    import numpy as np

    if (bias := known_bias(linear, constant.size)) is None:
        return None
    owner = None if linear.bias is None else linear.bias.owner
    location = owner.location if isinstance(owner, ConstantOp) else linear.location
    factor = None
    match op.function:
        case Binary.MUL:
            factor, bias = constant, bias * constant
        case Binary.ADD:
            bias = bias + constant
        case Binary.SUB if is_right_hand:
            factor, bias = np.full_like(constant, -1), constant - bias
        case Binary.SUB:
            bias = bias - constant
        case _:
            # Minimum and maximum are not linear; a quotient would be rounded twice.
            return None
    weights = None
    if factor is not None and (weights := _scaled(linear.weights, factor)) is None:
        return None
    return weights, ConstantOp.from_array(bias, location=location)


def _scaled(weights: SSAValue, factor: NDArray[np.float32]) -> ConstantOp | None:
    constant = weights.owner
    if not isinstance(constant, ConstantOp):
        return None
    import numpy as np

    array = constant.array()
    column = factor.reshape((-1,) + (1,) * (array.ndim - 1))
    scaled = array.astype(np.float32, copy=False) * column
    return ConstantOp.from_array(scaled, location=constant.location)


class FoldDepthwiseOfOnePixel(RewritePattern):
    """
    Fold a depthwise 1x1 convolution into the convolution before it, as factors and a bias. Some
    converters write batch normalizations in this form. Equal over the reals; each weight and bias
    is rounded a second time.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: Conv2dOp, rewriter: PatternRewriter, /):
        linear, factors = op.input.owner, _factors_of(op)
        if not isinstance(linear, Conv2dOp) or factors is None or linear.is_quantized:
            return
        if not op.input.has_one_use() or linear.activation or linear.residual is not None:
            return
        if MASK in linear.attributes or linear.ordered is not None:
            return
        before, after = known_bias(linear, factors.size), known_bias(op, factors.size)
        weights = _scaled(linear.weights, factors)
        if before is None or after is None or weights is None:
            return
        bias = ConstantOp.from_array(before * factors + after, location=op.location)
        rewriter.insert((weights, bias))
        epilogue = {"activation": op.activation}
        new = rebuild_linear(
            linear, epilogue, weights=weights.result, bias=bias.result, residual=op.residual
        )
        new.location = fused_location(linear, op)
        rewriter.replace(op, new)
        rewriter.erase(linear)


def _factors_of(op: Conv2dOp) -> NDArray[np.float32] | None:
    shape = shape_of(op.weights)
    plain = (*op.strides.get_values(), *shape[1:]) == (1,) * 5
    if not plain or shape[0] != op.group_count or any(op.padding.get_values()):
        return None
    if op.is_quantized or op.ordered is not None or MASK in op.attributes:
        return None
    array = constant_array(op.weights)
    return None if array is None else array.astype("float32").reshape(-1)


def known_bias(op: Conv2dOp | MatmulOp, channels: int) -> NDArray[np.float32] | None:
    """
    Return the bias of `op` as a vector [channels], or zeros if the layer has no bias. Return `None`
    if the bias is not a constant.
    """
    import numpy as np

    if op.bias is None:
        return np.zeros(channels, np.float32)
    return per_channel(op.bias, channels)


class BatchNormRule(PatternPass):
    """
    Fold `graph.binary` with a constant per channel into the preceding convolution or product.

    A depthwise 1x1 convolution is folded into the preceding convolution in the same way.

    Before:

        %w = graph.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
        %s = graph.constant dense<3.0> : tensor<1xf32> : tensor<1xf32>
        %t = graph.constant dense<0.5> : tensor<1xf32> : tensor<1xf32>
        %a = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
        %b = graph.binary mul %a, %s : (tensor<1x1xf32>, tensor<1xf32>) -> tensor<1x1xf32>
        %y = graph.binary add %b, %t : (tensor<1x1xf32>, tensor<1xf32>) -> tensor<1x1xf32>

    After:

        %w = graph.constant dense<[[3.0, 6.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
        %b = graph.constant dense<0.5> : tensor<1xf32> : tensor<1xf32>
        %y = graph.matmul %x, %w bias %b : tensor<1xf32>
            : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
    """

    name = "batch-norms"
    pattern = GreedyRewritePatternApplier([FoldPerChannelConstant(), FoldDepthwiseOfOnePixel()])


class FuseBias(RewritePattern):
    """
    Rewrite `matmul(x, w) + dequantize(c)` to `matmul(x, w) bias dequantize(c)`, where `c` is a
    constant vector with an integer per channel. The rule also applies to `conv2d`. Float constants
    are handled by `batch-norms`. Exact, because the output stage first adds the same number.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.BinaryOp, rewriter: PatternRewriter, /):
        if op.function is not graph.Binary.ADD or op.is_quantized:
            return
        for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            linear = value.owner
            if not isinstance(linear, graph.LinearOperation) or not value.has_one_use():
                continue
            # A quantized layer adds integers, even if the table returns floats.
            if linear.is_quantized:
                continue
            # A layer has a single bias, which is added first.
            if linear.bias is not None or linear.residual is not None or linear.activation:
                continue
            if not _is_stored_vector(other) or graph.shape_of(other) != (
                graph.shape_of(value)[-1],
            ):
                continue
            new = rebuild_linear(linear, {"activation": op.activation}, bias=other)
            new.location = fused_location(linear, op)
            rewriter.replace(op, new)
            rewriter.erase(linear)
            return


def _is_stored_vector(value: SSAValue) -> bool:
    owner = value.owner
    return isinstance(owner, graph.DequantizeOp) and isinstance(owner.input.owner, graph.ConstantOp)


class BiasRule(PatternPass):
    """
    Fuse the addition of a dequantized constant per channel into the preceding layer.

    Before:

        %c = graph.constant dense<[7, -7]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32, 0.5>>
        %b = graph.dequantize %c : (tensor<2x!quant.uniform<i32:f32, 0.5>>) -> tensor<2xf32>
        %m = graph.matmul %x, %w : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<1x2xf32>
        %y = graph.binary add %m, %b : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>

    After:

        %c = graph.constant dense<[7, -7]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32, 0.5>>
        %b = graph.dequantize %c : (tensor<2x!quant.uniform<i32:f32, 0.5>>) -> tensor<2xf32>
        %y = graph.matmul %x, %w bias %b : tensor<2xf32>
            : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<1x2xf32>
    """

    name = "biases"
    pattern = FuseBias()
    repeats = False
