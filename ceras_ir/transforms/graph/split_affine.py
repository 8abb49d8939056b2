"""Take scales and offsets of functions out of them."""

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
from xdsl.rewriter import InsertPoint

from ceras_ir.dialects import graph
from ceras_ir.network.precision import FLOAT_REASON, PRECISION
from ceras_ir.network.ranges import copy_statistics, drop_statistics
from ceras_ir.transforms.pattern_pass import PatternPass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class SplitFromUnary(RewritePattern):
    """`f(x)` with a scale and an offset becomes `f(x) * scale + offset`."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.UnaryOp, rewriter: PatternRewriter, /):
        import numpy as np

        if (affine := op.function.affine) is None:
            return
        down = np.ones(1, np.float32) if (f := op.channel_factors) is None else f[1]
        op.function = graph.FunctionAttr(op.function.kind, op.function.values)
        _append(op, op.result, affine, down, rewriter)


class SplitFromEpilogue(RewritePattern):
    """The same of the activation of a float convolution, product or binary operation."""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: graph.Conv2dOp | graph.MatmulOp | graph.BinaryOp, rewriter: PatternRewriter, /
    ):
        import numpy as np

        function = op.activation
        if function is None or (affine := function.affine) is None:
            return
        op.activation = graph.FunctionAttr(function.kind, function.values)
        _append(op, op.result, affine, np.ones(1, np.float32), rewriter)


def _append(
    op: graph.GraphOperation,
    value: SSAValue,
    affine: tuple[float, float],
    down: NDArray[np.float32],
    rewriter: PatternRewriter,
) -> None:
    """The product and the sum behind `value`, whose channels are multiplied by powers of two."""
    import numpy as np

    scale, offset = (np.float32(v) for v in affine)
    constants = [
        graph.ConstantOp.from_array(array, location=op.location)
        for array in (np.array([scale]), (offset * down).astype(np.float32))
    ]
    scaled = graph.BinaryOp(graph.Binary.MUL, value, constants[0].result, result_element=f32)
    moved = graph.BinaryOp(graph.Binary.ADD, scaled.result, constants[1].result, result_element=f32)
    for new in (scaled, moved):
        new.location = op.location
        for name in (PRECISION, FLOAT_REASON):
            if (known := op.attributes.get(name)) is not None:
                new.attributes[name] = known
    copy_statistics(op, moved)
    drop_statistics(op)
    rewriter.notify_op_modified(op)
    rewriter.insert((*constants, scaled, moved), InsertPoint.after(op))
    value.replace_uses_with_if(moved.result, lambda use: use.operation is not scaled)


class SplitAffinePass(PatternPass):
    """
    Compute the scale and the offset that a float function has by a product and a sum, for targets
    whose functions have none. Undoes `fuse-affine`. Exact: they are rounded in the same order.
    """

    name = "split-affine"
    pattern = GreedyRewritePatternApplier([SplitFromUnary(), SplitFromEpilogue()])
    repeats = False
