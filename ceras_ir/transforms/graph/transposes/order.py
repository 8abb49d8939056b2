"""
Which transpose the operands of an operation have in common, and the operands without it.

An operation of several operands is worth rewriting when the transposes that go away move more
elements than those that operands in another layout need instead.
"""

from collections.abc import Sequence
from math import prod

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ceras_ir.dialects.graph import (
    ConstantOp,
    GraphOperation,
    ReshapeOp,
    TransposeOp,
    is_per_axis,
    shape_of,
)
from ceras_ir.dialects.graph.layout import inverse, is_reshape, permutation_of


def lifted_shape(value: SSAValue, rank: int) -> tuple[int, ...]:
    """The shape with leading ones, as broadcasting sees it."""
    shape = shape_of(value)
    return (1,) * (rank - len(shape)) + shape


def common_order(operands: Sequence[SSAValue], rank: int) -> tuple[int, ...] | None:
    """The permutation that pays to be moved below an operation of these operands, if any."""
    if any(is_per_axis(value) for value in operands):
        return None
    for value in operands:
        transpose = value.owner
        if not isinstance(transpose, TransposeOp) or len(shape_of(value)) != rank:
            continue
        order = permutation_of(transpose)
        # About to become a reshape or a constant, which is no reason to move anything.
        if is_reshape(shape_of(transpose.input), order) or _folds(value):
            continue
        back = inverse(order)
        gained = lost = 0
        for other in operands:
            shape = lifted_shape(other, rank)
            if _folds(other):
                continue
            if isinstance(owner := other.owner, TransposeOp) and permutation_of(owner) == order:
                gained += prod(shape)
            elif not is_reshape(shape, back):
                lost += prod(shape)
        # A tie goes one way only, or two layouts would change places for ever.
        if gained > lost or (gained == lost and order > back):
            return order
    return None


def _folds(value: SSAValue) -> bool:
    """Whether a value is a constant, or a transposed one, which becomes a constant."""
    owner = value.owner.input.owner if isinstance(value.owner, TransposeOp) else value.owner
    return isinstance(owner, ConstantOp)


def without_transpose(
    value: SSAValue, order: tuple[int, ...], user: Operation, rewriter: PatternRewriter
) -> SSAValue:
    """`value` before it was transposed by `order`, with a transpose back where it was not."""
    if isinstance(owner := value.owner, TransposeOp) and permutation_of(owner) == order:
        return owner.input
    rank = len(order)
    if len(shape_of(value)) < rank:
        lift = ReshapeOp(value, lifted_shape(value, rank))
        lift.location = user.location
        value = rewriter.insert(lift).result
    back = TransposeOp(value, inverse(order))
    back.location = user.location
    return rewriter.insert(back).result


def replace_below(
    op: GraphOperation, new: GraphOperation, order: tuple[int, ...], rewriter: PatternRewriter
) -> None:
    """Replace `op` by `new` transposed by `order`."""
    below = TransposeOp(new.output, order)
    below.location = op.location
    rewriter.replace(op, (new, below))
