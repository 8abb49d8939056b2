"""Leave out operations that change nothing."""

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from ceras_ir.dialects import graph
from ceras_ir.network.ranges import copy_statistics
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.pattern_pass import PatternPass

NEUTRAL = {graph.Binary.MUL: 1.0, graph.Binary.DIV: 1.0, graph.Binary.SUB: 0.0}
"""On the right; a sum with 0 is not among them, because it makes 0 of -0."""


class FoldIdentities(RewritePattern):
    """`x * 1`, `1 * x`, `x / 1` and `x - 0` become `x`, in float32 and of the same shape. Exact."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.BinaryOp, rewriter: PatternRewriter, /):
        if op.activation is not None or op.result.type not in (op.lhs.type, op.rhs.type):
            return
        pairs = [(op.lhs, op.rhs)]
        if op.function is graph.Binary.MUL:
            pairs.append((op.rhs, op.lhs))
        for value, other in pairs:
            constant = graph.constant_array(other)
            if value.type != op.result.type or constant is None or constant.dtype != np.float32:
                continue
            if op.function in NEUTRAL and (constant == NEUTRAL[op.function]).all():
                rewriter.replace(op, [], [value])
                return


class AddOpposite(RewritePattern):
    """`x - y * -1` becomes `x + y`. Exact: a float has an opposite."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.BinaryOp, rewriter: PatternRewriter, /):
        opposite = op.rhs.owner
        if op.function is not graph.Binary.SUB or not isinstance(opposite, graph.BinaryOp):
            return
        if opposite.function is not graph.Binary.MUL or opposite.activation is not None:
            return
        for value, other in ((opposite.lhs, opposite.rhs), (opposite.rhs, opposite.lhs)):
            if graph.constant_number(other) == -1.0 and value.type == op.rhs.type:
                if graph.element_of(value) != f32:
                    return
                new = graph.BinaryOp(
                    graph.Binary.ADD, op.lhs, value, result_element=f32, activation=op.activation
                )
                new.location = fused_location(op, opposite)
                copy_statistics(op, new)
                rewriter.replace(op, new)
                return


class FoldIdentitiesPass(PatternPass):
    """
    Leave out float multiplications and divisions by 1, and subtractions of 0; add a value instead
    of subtracting its opposite.
    """

    name = "fold-identities"
    pattern = GreedyRewritePatternApplier([FoldIdentities(), AddOpposite()])
