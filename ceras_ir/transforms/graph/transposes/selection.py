"""Transposes below operations that treat every dimension alone: slices, borders, reductions."""

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i64
from xdsl.ir import Attribute
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ceras_ir.dialects.graph import (
    ArgOp,
    CastOp,
    GatherOp,
    PadOp,
    ReduceOp,
    SliceOp,
    TransposeOp,
    integers,
    shape_of,
)
from ceras_ir.dialects.graph.canonicalization.layout import is_per_axis, permutation_of
from ceras_ir.transforms.graph.transposes.order import rebuilt, replace_below

PER_DIMENSION = ("starts", "strides", "low", "high", "interior")
"""Properties with one entry for every dimension."""


class SinkTransposeThroughSelection(RewritePattern):
    """What is said of dimension `d` of a transposed operand is said of dimension `order[d]`."""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self,
        op: SliceOp | GatherOp | PadOp | ReduceOp | ArgOp | CastOp,
        rewriter: PatternRewriter,
        /,
    ):
        transpose = op.input.owner
        if not isinstance(transpose, TransposeOp) or is_per_axis(op.input):
            return
        order, result = permutation_of(transpose), shape_of(op.result)
        # A reduction in row-major order would add in another one.
        if isinstance(op, ReduceOp):
            axes = [order[a] for a in op.axes.get_values()]
            if axes != sorted(axes):
                return
        back = [order.index(i) for i in range(len(order))]
        changed: dict[str, Attribute] = {}
        for name, attribute in op.properties.items():
            if name in PER_DIMENSION and isinstance(attribute, DenseArrayBase):
                entries = [int(v) for v in attribute.get_values()]
                changed[name] = integers([entries[b] for b in back])
        if isinstance(op, ReduceOp):
            changed["axes"] = integers([order[a] for a in op.axes.get_values()])
        elif isinstance(op, GatherOp | ArgOp):
            changed["axis"] = IntegerAttr(order[op.axis.value.data], i64)
        new = rebuilt(op, [transpose.input], [result[b] for b in back], changed)
        replace_below(op, new, order, rewriter)


SELECTION_PATTERNS: tuple[RewritePattern, ...] = (SinkTransposeThroughSelection(),)
