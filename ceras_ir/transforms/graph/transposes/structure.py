"""Transposes below reshapes and matrix products."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ceras_ir.dialects.graph import (
    ConstantOp,
    MatmulOp,
    ReshapeOp,
    TransposeOp,
    constant_array,
    element_of,
    is_per_axis,
    shape_of,
)
from ceras_ir.dialects.graph.layout import inverse, permutation_of
from ceras_ir.dialects.sparse import MASK, MaskAttr

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def leading_ones(shape: tuple[int, ...]) -> int:
    """How many dimensions come before the first that holds more than one element."""
    return next((i for i, extent in enumerate(shape) if extent != 1), len(shape))


Group = tuple[list[int], list[int]]
"""Dimensions of a reshape's operand and of its result that hold the same elements."""


def reshape_groups(source: tuple[int, ...], target: tuple[int, ...]) -> list[Group]:
    """
    The finest division of a reshape into independent reshapes of neighbouring dimensions.

    Extents of 1 are left out in `source`, and in `target` before the first group; later ones
    go with the group before them.
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
    `reshape(transpose(x))` is `transpose(reshape(x))` where every group of dimensions that the
    reshape merges or splits is also a run of neighbours in `x`. Neighbours in another order
    (a channel shuffle) are transposed among themselves before.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp, rewriter: PatternRewriter, /):
        transpose = op.input.owner
        if not isinstance(transpose, TransposeOp) or is_per_axis(op.input):
            return
        order, source = permutation_of(transpose), shape_of(transpose.input)
        target = shape_of(op.result)
        # Dimensions of x that hold more than one element, and those of them in each group.
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
        # Only the inner transpose would be left: nothing to move.
        if inner != dense and sunk == runs:
            return
        value = transpose.input
        if inner != dense:
            units = [i for i, extent in enumerate(source) if extent == 1]
            shuffle = TransposeOp(value, [*units, *inner])
            shuffle.location = transpose.location
            value = rewriter.insert(shuffle).result
        # The batch of one stays in front.
        moved = [*range(leading_ones(target)), *(i for _, _, after in sunk for i in after)]
        reshape = ReshapeOp(value, [target[i] for i in moved])
        below = TransposeOp(reshape.result, [moved.index(i) for i in range(len(target))])
        reshape.location = below.location = op.location
        rewriter.replace(op, (reshape, below))


class FoldTransposeIntoMatmul(RewritePattern):
    """
    Rows that are flattened after a transpose meet weights permuted the same way: the products
    are the same, added in another order (float32 rounds differently in the last place).
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
        # Only whole rows: the dimensions that make a row are permuted among themselves.
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


STRUCTURE_PATTERNS: tuple[RewritePattern, ...] = (
    SinkTransposeThroughReshape(),
    FoldTransposeIntoMatmul(),
)
