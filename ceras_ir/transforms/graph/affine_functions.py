"""Rules of `fold-affine`: factors, addends and clips next to functions."""

from __future__ import annotations

from math import inf, isfinite

from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from ceras_ir.dialects import graph
from ceras_ir.network.storage import copy_statistics
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.pattern_pass import PatternPass


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
