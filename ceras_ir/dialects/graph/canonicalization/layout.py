"""
Canonical forms of reshapes and transposes: none that is an identity, never two in a row, never
on a constant, and a reshape wherever a transpose only moves dimensions of extent 1. Nor are
there two slices in a row, which exporters write one dimension at a time.
"""

from xdsl.dialects.builtin import DenseResourceAttr
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.traits import HasCanonicalizationPatternsTrait

from ceras_ir.dialects.graph.constant import ConstantOp
from ceras_ir.dialects.graph.layout import ReshapeOp, TransposeOp
from ceras_ir.dialects.graph.operation import element_of, is_per_axis, shape_of
from ceras_ir.dialects.graph.selection import SliceOp


def permutation_of(op: TransposeOp) -> tuple[int, ...]:
    """Dimension `i` of the result is dimension `permutation[i]` of the operand."""
    return tuple(op.permutation.get_values())


def inverse(permutation: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes another."""
    return tuple(permutation.index(i) for i in range(len(permutation)))


def is_reshape(shape: tuple[int, ...], permutation: tuple[int, ...]) -> bool:
    """Whether transposing `shape` leaves the elements where they are."""
    moved = [p for p in permutation if shape[p] != 1]
    return moved == sorted(moved)


class RemoveIdentityLayout(RewritePattern):
    """A reshape to the same shape or a transpose to the same order is its operand."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp | TransposeOp, rewriter: PatternRewriter, /):
        if op.fold() is not None:
            rewriter.replace(op, (), [op.input])


class MergeReshapes(RewritePattern):
    """`reshape(reshape(x))` is `reshape(x)`: the row-major order is the same throughout."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp, rewriter: PatternRewriter, /):
        inner = op.input.owner
        if not isinstance(inner, ReshapeOp):
            return
        merged = ReshapeOp(inner.input, shape_of(op.result))
        merged.location = op.location
        rewriter.replace(op, merged)


class MergeTransposes(RewritePattern):
    """`transpose(transpose(x, p), q)` is `transpose(x, r)` with `r[i] = p[q[i]]`."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter, /):
        inner = op.input.owner
        if not isinstance(inner, TransposeOp):
            return
        first, second = permutation_of(inner), permutation_of(op)
        merged = TransposeOp(inner.input, [first[i] for i in second])
        merged.location = op.location
        rewriter.replace(op, merged)


class MergeSlices(RewritePattern):
    """`slice(slice(x))` is one slice of `x`, which reads no more elements."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SliceOp, rewriter: PatternRewriter, /):
        inner = op.input.owner
        if not isinstance(inner, SliceOp) or is_per_axis(op.input):
            return
        sizes, steps = shape_of(op.result), inner.strides.get_values()
        # Where one element is left a stride means nothing, and may be of any size.
        strides = [
            step * stride if size > 1 else 1
            for step, stride, size in zip(steps, op.strides.get_values(), sizes, strict=True)
        ]
        starts = [
            first + step * start
            for first, step, start in zip(
                inner.starts.get_values(), steps, op.starts.get_values(), strict=True
            )
        ]
        merged = SliceOp(inner.input, starts, sizes, strides)
        merged.location = op.location
        rewriter.replace(op, merged)


class TransposeToReshape(RewritePattern):
    """A transpose that keeps the order of all dimensions but those of extent 1 moves nothing."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter, /):
        order = permutation_of(op)
        if order == tuple(range(len(order))) or is_per_axis(op.input):
            return
        if not is_reshape(shape_of(op.input), order):
            return
        reshape = ReshapeOp(op.input, shape_of(op.result))
        reshape.location = op.location
        rewriter.replace(op, reshape)


class FoldConstantLayout(RewritePattern):
    """A reshape or transpose of a constant is a constant."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp | TransposeOp, rewriter: PatternRewriter, /):
        constant = op.input.owner
        if not isinstance(constant, ConstantOp) or is_per_axis(op.input):
            return
        # An elided constant has a shape but no elements to move.
        if isinstance(constant.value, DenseResourceAttr):
            return
        array = constant.array()
        moved = (
            array.transpose(permutation_of(op))
            if isinstance(op, TransposeOp)
            else array.reshape(shape_of(op.result))
        )
        element = element_of(op.result)
        rewriter.replace(op, ConstantOp.from_array(moved, element, location=constant.location))


LAYOUT_PATTERNS: tuple[RewritePattern, ...] = (
    RemoveIdentityLayout(),
    MergeReshapes(),
    MergeTransposes(),
    MergeSlices(),
    TransposeToReshape(),
    FoldConstantLayout(),
)
"""For `ReshapeOp`, `TransposeOp` and `SliceOp`."""


class LayoutPatterns(HasCanonicalizationPatternsTrait):
    """Given to the operations from here, because the patterns name them."""

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return LAYOUT_PATTERNS


for _operation in (ReshapeOp, TransposeOp, SliceOp):
    _operation.traits.add_trait(LayoutPatterns())
