"""Leave out repetitions of elements that broadcasting makes anyway."""

from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.canonicalization.layout import LAYOUT_PATTERNS, permutation_of
from ceras_ir.dialects.graph.operation import broadcast_shape
from ceras_ir.transforms.pattern_pass import PatternPass


class DropExpand(RewritePattern):
    """
    `x * gather(g)` becomes `x * g` where the gather repeats the one element of a dimension, and x
    has as many there; so for every binary operation, comparison and selection.

    Exact: broadcasting reads the same element.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: graph.BinaryOp | graph.CompareOp | graph.SelectOp, rewriter: PatternRewriter, /
    ):
        for i, value in enumerate(op.operands):
            if (repeated := _repeated(value)) is None:
                continue
            operands = [*op.operands]
            operands[i] = repeated
            shape: tuple[int, ...] | None = ()
            for operand in operands:
                shape = None if shape is None else broadcast_shape(shape, graph.shape_of(operand))
            if shape != graph.shape_of(op.result):
                continue
            op.operands[i] = repeated
            rewriter.notify_op_modified(op)
            return


def _repeated(value: SSAValue) -> SSAValue | None:
    """What a value repeats along a dimension."""
    gather = value.owner
    if not isinstance(gather, graph.GatherOp):
        return None
    is_one = graph.shape_of(gather.input)[gather.axis.value.data] == 1
    return gather.input if is_one else None


class TransposeBeforeExpand(RewritePattern):
    """
    `transpose(gather(g))` becomes `gather(transpose(g))` where the gather repeats one element.

    Exact, and fewer elements move.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.TransposeOp, rewriter: PatternRewriter, /):
        gather = op.input.owner
        if _repeated(op.input) is None or not isinstance(gather, graph.GatherOp):
            return
        order = permutation_of(op)
        axis = order.index(gather.axis.value.data)
        before = graph.TransposeOp(gather.input, order)
        behind = graph.GatherOp(before.result, axis, gather.indices.get_values())
        before.location, behind.location = op.location, gather.location
        rewriter.replace(op, (before, behind))


class DropExpandsPass(PatternPass):
    """
    Leave out gathers that repeat the one element of a dimension in front of operations that
    broadcast. PyTorch's `x * gate.expand_as(x)`, in squeeze-and-excitation, is exported so: the
    gate became an image, and moved between layouts.
    """

    name = "drop-expands"
    pattern = GreedyRewritePatternApplier([*LAYOUT_PATTERNS, TransposeBeforeExpand(), DropExpand()])
