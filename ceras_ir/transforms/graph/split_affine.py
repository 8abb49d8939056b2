"""Take scales and offsets of functions out of them."""

from xdsl.dialects.builtin import f32
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from ceras_ir.dialects import graph
from ceras_ir.network.storage import copy_precision, copy_statistics, drop_statistics
from ceras_ir.transforms.pattern_pass import PatternPass


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
