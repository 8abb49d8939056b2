"""
Fold factors and addends of channels into adjacent layers: the pass `fold-affine`.

This file has the rules for factors, addends and clips next to functions. The other rules are in
`affine_backward.py` and `affine_forward.py`. The pass `split-affine` is the inverse for targets
that compute functions by tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite

from xdsl.dialects.builtin import f32
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import InsertPoint

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Function
from ceras_ir.network.storage import copy_precision, copy_statistics, drop_statistics
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.graph.affine_backward import BatchNormRule, BiasRule
from ceras_ir.transforms.graph.affine_forward import DepthwiseRule, ForwardRule, PixelRule
from ceras_ir.transforms.graph.fuse_windows import CropRule
from ceras_ir.transforms.pass_kinds import PatternPass, RulePass


class FuseClips(RewritePattern):
    """
    Rewrite `clip(clip(x, a, b), c, d)` to a single clip with a and b clipped to [c, d]. Exact: a
    clip is monotonic, so that the smallest and the largest result are those of a and b, and values
    between them are unchanged.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.UnaryOp, rewriter: PatternRewriter, /):
        inner = op.input.owner
        # With another consumer, the inner clip would remain and could not be an activation.
        if not isinstance(inner, graph.UnaryOp) or not inner.result.has_one_use():
            return
        bounds, limits = inner.function.clip_range, op.function.clip_range
        if bounds is None or limits is None:
            return
        low, high = (min(max(bound, limits[0]), limits[1]) for bound in bounds)
        new = graph.UnaryOp(inner.input, _clip(low, high))
        new.location = fused_location(inner, op)
        copy_statistics(op, new)
        rewriter.replace(op, new)
        rewriter.erase(inner)


def _clip(low: float, high: float) -> graph.FunctionAttr:
    if (low, high) == (0.0, inf):
        return graph.FunctionAttr(graph.Function.RELU)
    return graph.FunctionAttr(graph.Function.CLIP, [low, high])


class ClipRule(PatternPass):
    """
    Merge two clips, such as a ReLU and the bounds of integers of few bits.

    An output stage applies a single function, so that a second clip would exclude the integer
    bounds from the layer.

    Before:

        %a = graph.unary <relu> %x : tensor<1x4xf32>
        %y = graph.unary <clip, -8.0, 7.0> %a : tensor<1x4xf32>

    After:

        %y = graph.unary <clip, 0.0, 7.0> %x : tensor<1x4xf32>
    """

    name = "clips"
    pattern = FuseClips()


ACTIVATIONS = frozenset(
    {
        *(Function.LEAKY_RELU, Function.SIGMOID, Function.SWISH, Function.HARD_SIGMOID),
        *(Function.HARD_SWISH, Function.ELU, Function.CELU, Function.SOFTPLUS, Function.SOFTSIGN),
        *(Function.THRESHOLDED_RELU, Function.MISH, Function.GELU, Function.GELU_TANH),
    }
)
"""Complete activations; other functions are parts that later passes recognize, as in GELU."""


class FuseAffine(RewritePattern):
    """
    Rewrite `f(x) * a` and `f(x) + b` to `f(x)` with a scale and an offset. a and b are scalars and
    f is an activation. A clip is moved instead: `f(x * a)` and `f(x + b)` with other bounds. Exact,
    because roundings have the same order and rounding is monotonic: a bound is rounded as the
    result was. The sign of zeros can differ.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.BinaryOp, rewriter: PatternRewriter, /):
        if op.function not in (graph.Binary.MUL, graph.Binary.ADD) or op.activation is not None:
            return
        for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            unary, constant = value.owner, graph.constant_number(other)
            if not isinstance(unary, graph.UnaryOp) or not value.has_one_use():
                continue
            if constant is None or not isfinite(constant):
                continue
            if unary.channel_exponents is not None or value.type != op.result.type:
                continue
            if unary.function.clip_range is not None:
                _move_clip(op, unary, constant, rewriter)
            elif unary.function.data in ACTIVATIONS:
                _absorb(op, unary, constant, rewriter)
            return


def _absorb(
    op: graph.BinaryOp, unary: graph.UnaryOp, constant: float, rewriter: PatternRewriter
) -> None:
    affine, product = unary.function.affine, op.function is graph.Binary.MUL
    if affine is not None and (product or affine[1] != 0.0):
        return
    pair = (constant, 0.0) if product else (1.0 if affine is None else affine[0], constant)
    function = graph.FunctionAttr(unary.function.data, unary.function.values, pair)
    new = graph.UnaryOp(unary.input, function)
    new.location = fused_location(unary, op)
    copy_statistics(op, new)
    rewriter.replace(op, new)
    rewriter.erase(unary)


def _move_clip(
    op: graph.BinaryOp, unary: graph.UnaryOp, constant: float, rewriter: PatternRewriter
) -> None:
    import numpy as np

    assert unary.function.clip_range is not None
    # Before a quantization, the addend can specify the rounding of ties: see `fold-qdq{ties}`.
    if any(isinstance(use.operation, graph.QuantizeOp) for use in op.result.uses):
        return
    low, high = np.array(unary.function.clip_range, np.float32)
    if op.function is graph.Binary.MUL:
        # A negative factor would swap the bounds, and 0 times an infinite bound is NaN.
        if constant <= 0.0:
            return
        low, high = low * np.float32(constant), high * np.float32(constant)
    else:
        low, high = low + np.float32(constant), high + np.float32(constant)
    inner = op.clone()
    inner.operands[0 if op.lhs is unary.result else 1] = unary.input
    outer = graph.UnaryOp(inner.result, _clip(float(low), float(high)))
    inner.location, outer.location = op.location, unary.location
    copy_statistics(op, outer)
    rewriter.replace(op, (inner, outer))
    rewriter.erase(unary)


class AffineFunctionRule(PatternPass):
    """
    Include a scalar factor and addend after a function in the function.

    A single table or output stage then computes all three, as in the learnable affine blocks of
    PP-LCNetV3 and HGNetV2. If the function is a clip, `batch-norms` then moves factor and addend
    into the weights and bias of a layer. Exact except for the sign of zeros.

    Before:

        %k = graph.constant dense<0.75> : tensor<1xf32> : tensor<1xf32>
        %f = graph.unary <hard_swish> %x : tensor<1x4xf32>
        %y = graph.binary mul %f, %k : (tensor<1x4xf32>, tensor<1xf32>) -> tensor<1x4xf32>

    After:

        %y = graph.unary <hard_swish, scale 0.75, offset 0.0> %x : tensor<1x4xf32>
    """

    name = "functions"
    pattern = GreedyRewritePatternApplier([FuseAffine()])


class SplitAffine(RewritePattern):
    """
    Rewrite `f(x)` with a scale and an offset to `f(x) * scale + offset`. The function can also be
    the activation of a float convolution, product or binary operation.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self,
        op: graph.UnaryOp | graph.Conv2dOp | graph.MatmulOp | graph.BinaryOp,
        rewriter: PatternRewriter,
        /,
    ):
        import numpy as np

        function = op.function if isinstance(op, graph.UnaryOp) else op.activation
        if function is None or (affine := function.affine) is None:
            return
        scale, offset = (np.array([number], np.float32) for number in affine)
        if not isinstance(op, graph.UnaryOp):
            op.activation = function.core
        else:
            op.function = function.core
            if (factors := op.channel_factors) is not None:
                # The result is scaled by a power of two per channel.
                offset = offset * factors[1]
        constants = [graph.ConstantOp.from_array(a, location=op.location) for a in (scale, offset)]
        by, more = (constant.result for constant in constants)
        scaled = graph.BinaryOp(graph.Binary.MUL, op.result, by, result_element=f32)
        moved = graph.BinaryOp(graph.Binary.ADD, scaled.result, more, result_element=f32)
        for new in (scaled, moved):
            new.location = op.location
            copy_precision(op, new)
        copy_statistics(op, moved)
        drop_statistics(op)
        rewriter.notify_op_modified(op)
        rewriter.insert((*constants, scaled, moved), InsertPoint.after(op))
        op.result.replace_uses_with_if(moved.result, lambda use: use.operation is not scaled)


class SplitAffinePass(PatternPass):
    """
    Compute the scale and the offset of a float function by a product and a sum.

    This is for targets with functions without scale and offset, and undoes
    `fold-affine{functions}`. Exact: the roundings have the same order.

    Before:

        %y = graph.unary <hard_swish, scale 2.0, offset 0.25> %x : tensor<1x4xf32>

    After:

        %a = graph.unary <hard_swish> %x : tensor<1x4xf32>
        %s = graph.constant dense<2.0> : tensor<1xf32> : tensor<1xf32>
        %t = graph.constant dense<0.25> : tensor<1xf32> : tensor<1xf32>
        %b = graph.binary mul %a, %s : (tensor<1x4xf32>, tensor<1xf32>) -> tensor<1x4xf32>
        %y = graph.binary add %b, %t : (tensor<1x4xf32>, tensor<1xf32>) -> tensor<1x4xf32>
    """

    name = "split-affine"
    pattern = SplitAffine()
    repeats = False


@dataclass(frozen=True)
class FoldAffinePass(RulePass):
    """
    Fold factors and addends, such as batch normalization, into adjacent layers.

    They become part of an adjacent function, else of the layer before, else of the layers after.
    The remaining factors and addends per channel between layers become a depthwise convolution.
    """

    name = "fold-affine"

    def table(self) -> tuple[ModulePass, ...]:
        return (
            ClipRule(),
            AffineFunctionRule(),
            BatchNormRule(),
            BiasRule(),
            # `fuse-windows` cannot fold a crop after a batch normalization; `batch-norms` frees it.
            CropRule(),
            PixelRule(),
            ForwardRule(),
            DepthwiseRule(),
        )
