"""
Move transposes down until they meet their inverse, a constant, or a graph output.

The importer inserts transposes around each NHWC operation. After this pass, the remaining
transposes convert the layouts of graph inputs and outputs, or permute elements (channel shuffles).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import Rewriter

from ceras_ir.dialects.graph import (
    BinaryOp,
    ConstantOp,
    GraphOperation,
    MatmulOp,
    ReshapeOp,
    TransposeOp,
    constant_array,
    element_of,
    is_per_axis,
    shape_of,
)
from ceras_ir.dialects.graph.attributes import Elementwise
from ceras_ir.dialects.graph.layout import LAYOUT_PATTERNS, inverse, is_reshape, permutation_of
from ceras_ir.dialects.sparse import MASK, MaskAttr

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def lifted_shape(value: SSAValue, rank: int) -> tuple[int, ...]:
    """
    Return the shape of `value` with extents of 1 in front, so that it has `rank` axes: [C] -> [1,
    1, C].
    """
    shape = shape_of(value)
    return (1,) * (rank - len(shape)) + shape


def common_order(operands: Sequence[SSAValue], rank: int) -> tuple[int, ...] | None:
    """
    Return the permutation of transposed operands of an operation for which a transpose of the
    result is better, or `None`. The transposes that disappear must move more elements than the
    inverse transposes that the other operands then need. `rank` is the number of axes of the
    result.
    """
    if any(is_per_axis(value) for value in operands):
        return None
    for value in operands:
        transpose = value.owner
        if not isinstance(transpose, TransposeOp) or len(shape_of(value)) != rank:
            continue
        order = permutation_of(transpose)
        # The transpose becomes a reshape or a constant, so that it need not move.
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
        # A tie has a single direction; otherwise two layouts would alternate forever.
        if gained > lost or (gained == lost and order > back):
            return order
    return None


def _folds(value: SSAValue) -> bool:
    # A transposed constant becomes a constant.
    owner = value.owner.input.owner if isinstance(value.owner, TransposeOp) else value.owner
    return isinstance(owner, ConstantOp)


def without_transpose(
    value: SSAValue, order: tuple[int, ...], user: Operation, rewriter: PatternRewriter
) -> SSAValue:
    """
    Return the operand of `value` if it is a transpose by `order`. Otherwise insert a transpose of
    `value` by the inverse of `order` and return the result. New operations get the location of
    `user`.
    """
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


class SinkTranspose(RewritePattern):
    """
    Rewrite `f(transpose(x))` to `transpose(g(x))`, where g is f with the properties that
    `GraphOperation.reordered` returns, such as another axis. If f has several operands, operands
    that are not transposed by the same permutation receive the inverse transpose.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: GraphOperation, rewriter: PatternRewriter, /):
        result = shape_of(op.output)
        if len(op.operands) == 1:
            transpose = op.operands[0].owner
            order = permutation_of(transpose) if isinstance(transpose, TransposeOp) else None
        else:
            order = common_order(op.operands, len(result))
        if order is None or (changed := op.reordered(order)) is None:
            return
        operands = [without_transpose(v, order, op, rewriter) for v in op.operands]
        shape = [result[p] for p in inverse(order)]
        new = op.rebuilt(operands, shape=shape, changed=changed)
        below = TransposeOp(new.output, order)
        below.location = op.location
        rewriter.replace(op, (new, below))


class SinkReshapeThroughUnary(RewritePattern):
    """Rewrite `f(reshape(x))` to `reshape(f(x))` for elementwise f."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: GraphOperation, rewriter: PatternRewriter, /):
        if len(op.operands) != 1 or not isinstance(reshape := op.operands[0].owner, ReshapeOp):
            return
        if not op.has_trait(Elementwise) or op.depends_on_channel:
            return
        new = op.rebuilt([reshape.input], shape=shape_of(reshape.input))
        below = ReshapeOp(new.output, shape_of(op.output))
        below.location = op.location
        rewriter.replace(op, (new, below))


class SinkReshapeThroughBinary(RewritePattern):
    """
    Rewrite `op(reshape(x), y)` to `reshape(op(x, z))`, where z is y in a shape that combines the
    same elements with x. y must be another reshape from the same shape, a vector along a last axis
    that the reshape keeps, or a constant if the reshape only moves extents of 1. Transposes after
    an average pooling over all pixels become such reshapes.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BinaryOp, rewriter: PatternRewriter, /):
        for value in (op.lhs, op.rhs):
            reshape = value.owner
            if not isinstance(reshape, ReshapeOp) or shape_of(value) != shape_of(op.result):
                continue
            source = shape_of(reshape.input)
            operands = [_before(v, reshape) for v in (op.lhs, op.rhs)]
            if operands[0] is None or operands[1] is None or is_per_axis(op.result):
                continue
            constants = [v for v in operands if isinstance(v, ConstantOp)]
            rewriter.insert(constants)
            new = op.rebuilt([SSAValue.get(v) for v in operands if v is not None], shape=source)
            below = ReshapeOp(new.output, shape_of(op.result))
            below.location = op.location
            rewriter.replace(op, (new, below))
            return


def _before(value: SSAValue, reshape: ReshapeOp) -> SSAValue | ConstantOp | None:
    # The value that broadcasts to the operand of `reshape` as `value` does to the result.
    source, target = shape_of(reshape.input), shape_of(reshape.result)
    if isinstance(owner := value.owner, ReshapeOp) and shape_of(value) == target:
        return owner.input if shape_of(owner.input) == source else None
    shape = shape_of(value)
    is_vector = len(shape) <= 1 and (prod(shape) == 1 or source[-1:] == target[-1:])
    if is_vector and len(source) >= len(shape):
        return value
    dense = [[i for i, extent in enumerate(s) if extent != 1] for s in (source, target)]
    same = [source[i] for i in dense[0]] == [target[i] for i in dense[1]]
    array = constant_array(value)
    if array is None or not isinstance(owner, ConstantOp) or is_per_axis(value) or not same:
        return None
    lifted = (*(1,) * (len(target) - len(shape)), *shape)
    moved = [1] * len(source)
    for new_axis, axis in zip(*dense, strict=True):
        moved[new_axis] = lifted[axis]
    return ConstantOp.from_array(array.reshape(moved), element_of(value), location=owner.location)


class ShortenConstant(RewritePattern):
    """Remove leading extents of 1 of a constant operand: `[1, 1, 1, C]` becomes `[C]`."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BinaryOp, rewriter: PatternRewriter, /):
        rank = len(shape_of(op.result))
        for i, (value, other) in enumerate(((op.lhs, op.rhs), (op.rhs, op.lhs))):
            shape = shape_of(value)
            if not isinstance(owner := value.owner, ConstantOp) or len(shape_of(other)) < rank:
                continue
            if len(shape) < 2 or shape[0] != 1 or is_per_axis(value):
                continue
            array = constant_array(value)
            if array is None:
                continue
            first = next((d for d in range(len(shape) - 1) if shape[d] != 1), len(shape) - 1)
            short = ConstantOp.from_array(
                array.reshape(shape[first:]), element_of(value), location=owner.location
            )
            rewriter.insert(short)
            operands = [short.result, other] if i == 0 else [other, short.result]
            rewriter.replace(op, op.rebuilt(operands, shape=lifted_shape(op.result, rank)))
            return


def leading_ones(shape: tuple[int, ...]) -> int:
    """Return the number of extents of 1 at the start of `shape`: (1, 1, 8, 1) -> 2."""
    return next((i for i, extent in enumerate(shape) if extent != 1), len(shape))


Group = tuple[list[int], list[int]]
"""Axes of the operand and of the result of a reshape that hold the same elements."""


def reshape_groups(source: tuple[int, ...], target: tuple[int, ...]) -> list[Group]:
    """
    Divide a reshape from `source` to `target` into as many independent reshapes of adjacent axes as
    possible: (4, 6) to (2, 2, 6) -> [([0], [0, 1]), ([1], [2])]. Each pair has axes of `source` and
    axes of `target` with the same elements.

    Extents of 1 are omitted in `source`, and in `target` before the first group; later extents of 1
    of `target` belong to the preceding group.
    """
    groups: list[Group] = []
    inner = [i for i, extent in enumerate(source) if extent != 1]
    outer = list(range(leading_ones(target), len(target)))
    while inner:
        before, after = [inner.pop(0)], [outer.pop(0)]
        have, need = source[before[0]], target[after[0]]
        while have != need:
            if have < need:
                before.append(inner.pop(0))
                have *= source[before[-1]]
            else:
                after.append(outer.pop(0))
                need *= target[after[-1]]
        while outer and target[outer[0]] == 1:
            after.append(outer.pop(0))
        groups.append((before, after))
    return groups


class SinkTransposeThroughReshape(RewritePattern):
    """
    Rewrite `reshape(transpose(x))` to `transpose(reshape(x))`. The axes that the reshape merges or
    splits must be adjacent in x too. If they have another order in x (a channel shuffle), a
    transpose of only these axes remains before the reshape.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp, rewriter: PatternRewriter, /):
        transpose = op.input.owner
        if not isinstance(transpose, TransposeOp) or is_per_axis(op.input):
            return
        order, source = permutation_of(transpose), shape_of(transpose.input)
        target = shape_of(op.result)
        # Axes of x with an extent above 1, in total and for each group.
        dense = [i for i, extent in enumerate(source) if extent != 1]
        runs: list[tuple[int, list[int], list[int]]] = []
        for before, after in reshape_groups(shape_of(op.input), target):
            run = [order[i] for i in before]
            start = min(dense.index(i) for i in run)
            if sorted(run) != dense[start : start + len(run)]:
                return
            runs.append((start, run, after))
        sunk = sorted(runs)
        inner = [i for _, run, _ in sunk for i in run]
        # Only the inner transpose would remain, so that no transpose moves.
        if inner != dense and sunk == runs:
            return
        value = transpose.input
        if inner != dense:
            units = [i for i, extent in enumerate(source) if extent == 1]
            shuffle = TransposeOp(value, [*units, *inner])
            shuffle.location = transpose.location
            value = rewriter.insert(shuffle).result
        # A batch of 1 remains the first axis.
        moved = [*range(leading_ones(target)), *(i for _, _, after in sunk for i in after)]
        reshape = ReshapeOp(value, [target[i] for i in moved])
        below = TransposeOp(reshape.result, [moved.index(i) for i in range(len(target))])
        reshape.location = below.location = op.location
        rewriter.replace(op, (reshape, below))


class FoldTransposeIntoMatmul(RewritePattern):
    """
    Rewrite `matmul(reshape(transpose(x)), w)` to `matmul(reshape(x), v)`, where v has the columns
    of the constant weights in the order of x. The products are equal but are added in another
    order, so that float32 sums differ by rounding.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MatmulOp, rewriter: PatternRewriter, /):
        reshape = op.input.owner
        if not isinstance(reshape, ReshapeOp) or not isinstance(
            transpose := reshape.input.owner, TransposeOp
        ):
            return
        order = permutation_of(transpose)
        flattened = shape_of(reshape.input)
        rows, columns = shape_of(op.input)
        # Only the axes that form a row are permuted.
        if order[0] != 0 or flattened[0] != rows or prod(flattened[1:]) != columns:
            return
        constant = op.weights.owner
        if not isinstance(constant, ConstantOp) or is_per_axis(op.weights):
            return
        array = constant_array(op.weights)
        if array is None:
            return
        outputs = array.shape[0]

        def permuted(array: NDArray[np.generic]) -> NDArray[np.generic]:
            moved = array.reshape(outputs, *flattened[1:]).transpose(inverse(order))
            return moved.reshape(outputs, columns)

        weights = ConstantOp.from_array(
            permuted(array), element_of(op.weights), location=constant.location
        )
        flat = ReshapeOp(transpose.input, (rows, columns))
        flat.location = reshape.location
        rewriter.insert((weights, flat))
        rest = list(op.operands[2:])
        new = op.rebuilt([flat.result, weights.result, *rest])
        if isinstance(mask := op.attributes.get(MASK), MaskAttr):
            new.attributes[MASK] = MaskAttr.of(permuted(mask.array) != 0)
        rewriter.replace(op, new)


PATTERNS: tuple[RewritePattern, ...] = (
    *LAYOUT_PATTERNS,
    SinkTranspose(),
    SinkReshapeThroughUnary(),
    SinkReshapeThroughBinary(),
    ShortenConstant(),
    SinkTransposeThroughReshape(),
    FoldTransposeIntoMatmul(),
)


def merge_equal_moves(module: ModuleOp) -> None:
    """Merge transposes and reshapes with the same operand, permutation and result type."""
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
    Remove transposes by moving them below other operations.

    Dead code and duplicate transposes and reshapes are removed too. Exact except for matrix
    products with sums in another order.

    Before:

        %a = graph.transpose %x {permutation = array<i64: 1, 0>}
            : (tensor<2x3xf32>) -> tensor<3x2xf32>
        %b = graph.unary <relu> %a : tensor<3x2xf32>
        %y = graph.transpose %b {permutation = array<i64: 1, 0>}
            : (tensor<3x2xf32>) -> tensor<2x3xf32>

    After:

        %y = graph.unary <relu> %x : tensor<2x3xf32>
    """

    name = "eliminate-transposes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        patterns = GreedyRewritePatternApplier(list(PATTERNS))
        PatternRewriteWalker(patterns).rewrite_module(op)
        merge_equal_moves(op)
