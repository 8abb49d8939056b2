"""Compute no outputs of a convolution that a slice cuts off."""

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ceras_ir.dialects import graph
from ceras_ir.network.ranges import copy_statistics
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.pattern_pass import PatternPass


class FoldCrop(RewritePattern):
    """
    `slice(conv2d(x))` becomes `conv2d(x)` with less padding, where the slice cuts off rows and
    columns at the ends that padding made possible. Nothing else may read the convolution.

    Exact: what is left is computed of the same elements.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.SliceOp, rewriter: PatternRewriter, /):
        conv = op.input.owner
        if not isinstance(conv, graph.Conv2dOp) or not op.input.has_one_use():
            return
        if conv.is_quantized or conv.residual is not None or conv.ordered is not None:
            return
        starts, shape = op.starts.get_values(), graph.shape_of(op.input)
        result, strides = graph.shape_of(op.result), conv.strides.get_values()
        if any(step != 1 for step in op.strides.get_values()):
            return
        if (result[0], result[3]) != (shape[0], shape[3]):
            return
        padding = list(conv.padding.get_values())
        for d in (1, 2):
            cut = shape[d] - starts[d] - result[d]
            padding[d - 1] -= starts[d] * strides[d - 1]
            padding[d + 1] -= cut * strides[d - 1]
        if min(padding) < 0:
            return
        changed = {"padding": graph.integers(padding)}
        new = conv.rebuilt([*conv.operands], shape=result, changed=changed)
        new.location = fused_location(conv, op)
        copy_statistics(op, new)
        rewriter.replace(op, new)
        rewriter.erase(conv)


class FoldCropPass(PatternPass):
    """
    Give a convolution less padding instead of cutting rows and columns off its result. Causal
    convolutions are exported so (`Chomp1d` of temporal convolutional networks): padded at both
    ends, of which one is cut off.
    """

    name = "fold-crop"
    pattern = FoldCrop()
