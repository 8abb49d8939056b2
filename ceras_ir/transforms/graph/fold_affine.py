"""
The pass `fold-affine` folds factors and addends of channels into the layers next to them.

The rules for factors, addends and clips next to functions are in this file. The other rules are in
`affine_backward.py` and `affine_forward.py`. The pass `split-affine` does the opposite for targets
that read a function from a table.
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
from ceras_ir.network.storage import copy_precision, copy_statistics, drop_statistics
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.graph.affine_backward import BatchNormRule, BiasRule
from ceras_ir.transforms.graph.affine_forward import DepthwiseRule, ForwardRule, PixelRule
from ceras_ir.transforms.graph.fuse_windows import CropRule
from ceras_ir.transforms.pass_kinds import PatternPass, RulePass

# Rules of `fold-affine`: factors, addends and clips next to functions.


class FuseClips(RewritePattern):
    """
    `clip(clip(x, a, b), c, d)` becomes a clip of `x` to `a` and `b`, each clipped to `c` and `d`.

    Exact: both keep the order of numbers, so that the least and the greatest result are those of
    `a` and `b`, and numbers between them stay.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.UnaryOp, rewriter: PatternRewriter, /):
        inner = op.input.owner
        # Another reader of the inner clip would keep it, and it could be no epilogue.
        if not isinstance(inner, graph.UnaryOp) or not inner.result.has_one_use():
            return
        bounds, limits = inner.function.clip_range, op.function.clip_range
        if bounds is None or limits is None:
            return
        low, high = (min(max(bound, limits[0]), limits[1]) for bound in bounds)
        function = graph.FunctionAttr(graph.Function.CLIP, [low, high])
        if (low, high) == (0.0, inf):
            function = graph.FunctionAttr(graph.Function.RELU)
        new = graph.UnaryOp(inner.input, function)
        new.location = fused_location(inner, op)
        copy_statistics(op, new)
        rewriter.replace(op, new)
        rewriter.erase(inner)


class ClipRule(PatternPass):
    """
    Make one clip of two, such as a ReLU and the bounds of numbers of few bits behind it.

    One epilogue applies one function, so that a second clip would keep a layer with bounds in
    integers from ending in them.
    """

    name = "clips"
    pattern = FuseClips()


ACTIVATIONS = frozenset(
    {
        graph.Function.LEAKY_RELU,
        graph.Function.SIGMOID,
        graph.Function.SWISH,
        graph.Function.HARD_SIGMOID,
        graph.Function.HARD_SWISH,
        graph.Function.ELU,
        graph.Function.CELU,
        graph.Function.SOFTPLUS,
        graph.Function.SOFTSIGN,
        graph.Function.THRESHOLDED_RELU,
        graph.Function.MISH,
        graph.Function.GELU,
        graph.Function.GELU_TANH,
    }
)
"""Whole activations; other functions are parts of what later passes recognize, such as GELU."""


class FuseAffine(RewritePattern):
    """
    `f(x) * a` and `f(x) + b`, with one number a or b and an activation f, become `f(x)` with a
    scale and an offset. Where f only clips, they become `f(x * a)` and `f(x + b)`, with other
    bounds.

    Exact, because what is rounded is rounded in the same order, and rounding does not fall: where a
    clip takes a bound, that is rounded as the result was. Zeros may have another sign.
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
            elif unary.function.kind in ACTIVATIONS:
                _absorb(op, unary, constant, rewriter)
            return


def _absorb(
    op: graph.BinaryOp, unary: graph.UnaryOp, constant: float, rewriter: PatternRewriter
) -> None:
    """Give the function this scale, or this offset, unless it has one already."""
    affine, product = unary.function.affine, op.function is graph.Binary.MUL
    if affine is not None and (product or affine[1] != 0.0):
        return
    pair = (constant, 0.0) if product else (1.0 if affine is None else affine[0], constant)
    function = graph.FunctionAttr(unary.function.kind, unary.function.values, pair)
    new = graph.UnaryOp(unary.input, function)
    new.location = fused_location(unary, op)
    copy_statistics(op, new)
    rewriter.replace(op, new)
    rewriter.erase(unary)


def _move_clip(
    op: graph.BinaryOp, unary: graph.UnaryOp, constant: float, rewriter: PatternRewriter
) -> None:
    """The product or sum of what is clipped, and then the clip."""
    import numpy as np

    assert unary.function.clip_range is not None
    # In front of a quantization it may say where ties go: see `fold-qdq{ties}`.
    if any(isinstance(use.operation, graph.QuantizeOp) for use in op.result.uses):
        return
    low, high = np.array(unary.function.clip_range, np.float32)
    if op.function is graph.Binary.MUL:
        # Below zero bounds change sides, and zero times an infinite one is no number.
        if constant <= 0.0:
            return
        low, high = low * np.float32(constant), high * np.float32(constant)
    else:
        low, high = low + np.float32(constant), high + np.float32(constant)
    inner = op.clone()
    inner.operands[0 if op.lhs is unary.result else 1] = unary.input
    function = graph.FunctionAttr(graph.Function.CLIP, [float(low), float(high)])
    relu = graph.FunctionAttr(graph.Function.RELU)
    outer = graph.UnaryOp(inner.result, relu if function.values == relu.clip_range else function)
    inner.location, outer.location = op.location, unary.location
    copy_statistics(op, outer)
    rewriter.replace(op, (inner, outer))
    rewriter.erase(unary)


class AffineFunctionRule(PatternPass):
    """
    Give a function the factor and the addend, one number each, that its result meets.

    One table or one epilogue then computes all three, as in the learnable affine blocks of
    PP-LCNetV3 and HGNetV2. Before a clip, `batch-norms` moves factor and addend into the
    weights and bias of a layer.

    Exact, but for the sign of zeros.
    """

    name = "functions"
    pattern = GreedyRewritePatternApplier([FuseAffine()])


# Take scales and offsets of functions out of them.


class SplitAffine(RewritePattern):
    """
    `f(x)` with a scale and an offset becomes `f(x) * scale + offset`, alone or as what a float
    convolution, product or binary operation ends with.
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
                # Channels of the result stand for powers of two of it.
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
    Compute the scale and the offset that a float function has by a product and a sum, for targets
    whose functions have none. Undoes
    `fold-affine{functions}`. Exact: they are rounded in the same order.
    """

    name = "split-affine"
    pattern = SplitAffine()
    repeats = False


# Fold factors and addends of channels into the layers next to them.


@dataclass(frozen=True)
class FoldAffinePass(RulePass):
    """
    Fold factors and addends, such as batch normalization, into the layers next to them.

    A function next to them computes them, else the layer before, else the layers after. Between
    layers, the remaining factors and addends of channels become a depthwise convolution.
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
