"""Make one clip of two, one behind the other."""

from math import inf

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ceras_ir.dialects import graph
from ceras_ir.network.ranges import copy_statistics
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


class FuseClipsPass(PatternPass):
    """
    Make one clip of two, such as a ReLU and the bounds of numbers of few bits behind it.

    One epilogue applies one function, so that a second clip would keep a layer with bounds in
    integers from ending in them.
    """

    name = "fuse-clips"
    pattern = FuseClips()
