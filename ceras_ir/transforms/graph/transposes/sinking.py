"""
Transposes below operations that can work in another order of dimensions.

Each says what becomes of its properties then: `GraphOperation.reordered`.
"""

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ceras_ir.dialects.graph import GraphOperation, TransposeOp, shape_of
from ceras_ir.dialects.graph.layout import inverse, permutation_of
from ceras_ir.transforms.graph.transposes.order import (
    common_order,
    replace_below,
    without_transpose,
)


class SinkTranspose(RewritePattern):
    """`f(transpose(x))` is `transpose(g(x))`, where `g` is `f` in the order of `x`."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: GraphOperation, rewriter: PatternRewriter, /):
        if len(op.operands) != 1 or not isinstance(transpose := op.operands[0].owner, TransposeOp):
            return
        order, result = permutation_of(transpose), shape_of(op.output)
        if (changed := op.reordered(order)) is None:
            return
        shape = [result[p] for p in inverse(order)]
        new = op.rebuilt([transpose.input], shape=shape, changed=changed)
        replace_below(op, new, order, rewriter)


class SinkTransposes(RewritePattern):
    """The same for several operands, broadcast: all are transposed alike, or transposed back."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: GraphOperation, rewriter: PatternRewriter, /):
        result = shape_of(op.output)
        order = common_order(op.operands, len(result)) if len(op.operands) > 1 else None
        if order is None or (changed := op.reordered(order)) is None:
            return
        operands = [without_transpose(v, order, op, rewriter) for v in op.operands]
        shape = [result[p] for p in inverse(order)]
        new = op.rebuilt(operands, shape=shape, changed=changed)
        replace_below(op, new, order, rewriter)


SINKING_PATTERNS: tuple[RewritePattern, ...] = (SinkTranspose(), SinkTransposes())
