"""Make one convolution of two that read one value and whose results are added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from ceras_ir.dialects import graph
from ceras_ir.dialects.sparse import MASK
from ceras_ir.network.storage import copy_statistics
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.graph.affine_backward import known_bias
from ceras_ir.transforms.pattern_pass import PatternPass
from ceras_ir.transforms.rebuilding import rebuild_linear

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class FuseBranches(RewritePattern):
    """
    `conv2d(x, w) + conv2d(x, v)` becomes `conv2d(x, w + v)`, where one window covers the other and
    its groups do too. Nothing else may read the two.

    Equal over the reals. In float32 every bias, and every weight that meets another, is rounded
    once more.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.BinaryOp, rewriter: PatternRewriter, /):
        one, other = _branch(op.lhs), _branch(op.rhs)
        if op.function is not graph.Binary.ADD or one is None or other is None:
            return
        if one.input is not other.input:
            return
        fused = _fused(one, other) or _fused(other, one)
        if fused is None:
            return
        whole, weights, bias = fused
        constants = [
            graph.ConstantOp.from_array(array, location=whole.location) for array in (weights, bias)
        ]
        rewriter.insert(constants)
        values = [constant.result for constant in constants]
        new = rebuild_linear(
            whole, {"activation": op.activation}, weights=values[0], bias=values[1]
        )
        copy_statistics(op, new)
        new.location = fused_location(whole, one, other, op)
        rewriter.replace(op, new)
        rewriter.erase(one)
        rewriter.erase(other)


def _branch(value: SSAValue) -> graph.Conv2dOp | None:
    """The convolution that makes a value for one reader, if it has no epilogue but its bias."""
    op = value.owner
    if not isinstance(op, graph.Conv2dOp) or not value.has_one_use() or op.is_quantized:
        return None
    if op.activation is not None or op.residual is not None or op.ordered is not None:
        return None
    return None if MASK in op.attributes or graph.element_of(op.weights) != f32 else op


def _fused(
    whole: graph.Conv2dOp, part: graph.Conv2dOp
) -> tuple[graph.Conv2dOp, NDArray[np.float32], NDArray[np.float32]] | None:
    """
    Weights and bias with which `whole` computes the sum of both; None where it would have to read
    more elements for it.
    """
    import numpy as np

    if whole.strides != part.strides or whole.group_count > part.group_count:
        return None
    if part.group_count % whole.group_count:
        return None
    weights, added = graph.constant_array(whole.weights), graph.constant_array(part.weights)
    outputs = graph.shape_of(whole.weights)[0]
    biases = known_bias(whole, outputs), known_bias(part, outputs)
    if weights is None or added is None or biases[0] is None or biases[1] is None:
        return None
    rows, columns = _taps(whole, part, 0), _taps(whole, part, 1)
    if rows is None or columns is None:
        return None
    total = weights.astype(np.float32)
    # Channels that an output of `part` reads, as those of its group in `whole`.
    channels, wide = added.shape[3], total.shape[3]
    group = np.arange(outputs) // (outputs // part.group_count)
    for o, first in enumerate(group * channels % wide):
        total[o, rows, columns, first : first + channels] += added[o]
    return whole, total, biases[0] + biases[1]


def _taps(whole: graph.Conv2dOp, part: graph.Conv2dOp, axis: int) -> slice | None:
    """Which taps of `whole` along rows or columns read what those of `part` read, in order."""
    size, inner = whole.window[axis], part.window[axis]
    step = whole.dilations.get_values()[axis]
    if inner > 1 and part.dilations.get_values()[axis] != step:
        return None
    before = whole.padding.get_values()[axis] - part.padding.get_values()[axis]
    first, left = divmod(before, step)
    return None if left or first < 0 or first + inner > size else slice(first, first + inner)


class FuseBranchesPass(PatternPass):
    """
    Fuse convolutions of one value whose results are added, as networks are trained with (RepVGG,
    MobileOne): 1x1 beside 3x3, batch normalizations beside both.

    One of the two must read all elements that the other reads, so that nothing is multiplied more
    often than before.
    """

    name = "fuse-branches"
    pattern = GreedyRewritePatternApplier([FuseBranches()])
