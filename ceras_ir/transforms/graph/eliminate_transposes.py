"""
Move transposes down until they meet their inverse, a constant, or the border of the network.

The importer puts transposes around every NHWC operation; afterwards those are left that the
model's own layout at its border asks for, and those that really permute (channel shuffles).
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriteWalker,
    RewritePattern,
)
from xdsl.rewriter import Rewriter

from ceras_ir.dialects.graph import ReshapeOp, TransposeOp
from ceras_ir.dialects.graph.layout import LAYOUT_PATTERNS, permutation_of
from ceras_ir.transforms.graph.transposes.elementwise import ELEMENTWISE_PATTERNS
from ceras_ir.transforms.graph.transposes.sinking import SINKING_PATTERNS
from ceras_ir.transforms.graph.transposes.structure import STRUCTURE_PATTERNS

PATTERNS: tuple[RewritePattern, ...] = (
    *LAYOUT_PATTERNS,
    *SINKING_PATTERNS,
    *ELEMENTWISE_PATTERNS,
    *STRUCTURE_PATTERNS,
)


def merge_equal_moves(module: ModuleOp) -> None:
    """Keep the first of the transposes and reshapes of one value that move it alike."""
    first: dict[tuple[SSAValue, tuple[int, ...] | None, Attribute], TransposeOp | ReshapeOp] = {}
    for op in list(module.walk()):
        if not isinstance(op, TransposeOp | ReshapeOp):
            continue
        order = permutation_of(op) if isinstance(op, TransposeOp) else None
        known = first.setdefault((op.input, order, op.result.type), op)
        if known is not op and known.parent is op.parent:
            op.result.replace_all_uses_with(known.result)
            Rewriter.erase_op(op)


@dataclass(frozen=True)
class EliminateTransposesPass(ModulePass):
    """
    Remove transposes by moving them below other operations. Unused operations go as well, and
    transposes and reshapes that do what another does. Exact, except for matrix products whose sums
    are added in another order.
    """

    name = "eliminate-transposes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        patterns = GreedyRewritePatternApplier(list(PATTERNS))
        PatternRewriteWalker(patterns).rewrite_module(op)
        merge_equal_moves(op)
