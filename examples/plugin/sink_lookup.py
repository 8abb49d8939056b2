"""Define a pass for int8 networks that looks values up after max pooling, on fewer elements."""

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)

from ceras_ir.dialects.graph import LookupOp, Pool, Pool2dOp, shape_of, tensor_type


class SinkLookup(RewritePattern):
    """Exchange a table and the max pooling that is the only consumer of the result."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: Pool2dOp, rewriter: PatternRewriter) -> None:
        lookup = op.input.owner
        if op.kind.data is not Pool.MAX or not isinstance(lookup, LookupOp):
            return
        if not lookup.result.has_one_use() or lookup.rows is not None:
            return
        if not rises(lookup):
            return  # The largest input need not have the largest entry.
        pooled = TensorType(tensor_type(lookup.input).element_type, shape_of(op.result))
        pool = Pool2dOp.build(
            operands=[lookup.input], properties=dict(op.properties), result_types=[pooled]
        )
        moved = LookupOp.build(
            operands=[pool.result],
            properties=dict(lookup.properties),
            result_types=[op.result.type],
        )
        pool.location, moved.location = lookup.location, op.location
        rewriter.replace(op, [pool, moved])
        rewriter.erase(lookup)


def rises(lookup: LookupOp) -> bool:
    """Return whether each entry of the table is at least as large as the previous entry."""
    return bool(np.all(np.diff(lookup.tables.astype(np.int64)) >= 0))


@dataclass(frozen=True)
class SinkLookupPass(ModulePass):
    """
    Move lookup tables below the max pooling that follows. This is exact for monotonic tables, such
    as those of tanh and sigmoid: the entry of the largest input is the largest entry. Other tables
    remain.
    """

    name = "sink-lookup"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        PatternRewriteWalker(SinkLookup()).rewrite_module(op)
