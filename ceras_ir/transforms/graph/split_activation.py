"""Take functions that a clamp cannot do out of epilogues, before ranges are measured."""

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.network.precision import copy_precision
from ceras_ir.network.ranges import copy_statistics, drop_statistics
from ceras_ir.transforms.pattern_pass import PatternPass


def split_activation(
    op: graph.Conv2dOp | graph.MatmulOp | graph.BinaryOp, function: graph.FunctionAttr
) -> graph.UnaryOp:
    """Move the activation `function` of `op` to a new operation after it, and return that."""
    unary = graph.UnaryOp(op.result, function)
    unary.location = op.location
    copy_statistics(op, unary)
    copy_precision(op, unary)
    drop_statistics(op)
    op.activation = None
    Rewriter.insert_op(unary, InsertPoint.after(op))
    op.result.replace_uses_with_if(unary.result, lambda use: use.operation is not unary)
    return unary


class SplitActivation(RewritePattern):
    """
    `conv2d(x) {activation = f}` becomes `f(conv2d(x))` where f does more than clip.

    Exact, because the epilogue applied the same function to the same number. The value
    before the function becomes visible: it is what a lookup table is indexed by.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: graph.Conv2dOp | graph.MatmulOp | graph.BinaryOp, rewriter: PatternRewriter, /
    ):
        function = op.activation
        # A requantization clips by its clamp range.
        if function is None or function.clip_range is not None:
            return
        rewriter.notify_op_modified(op)
        split_activation(op, function)


class SplitActivationPass(PatternPass):
    """
    Undo `fuse-activation` for functions other than relu and clip. The value before the function
    then gets a range, and the function becomes a `graph.lookup`. Float targets want them fused, and
    `fuse` does not know whether a layer will stay float.
    """

    name = "split-activation"
    pattern = SplitActivation()
    repeats = False
