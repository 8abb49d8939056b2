"""Make an average of a sum that is divided."""

from math import prod

from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from ceras_ir.dialects import graph
from ceras_ir.transforms.pattern_pass import PatternPass


class FuseMean(RewritePattern):
    """
    `reduce sum (x) / n` becomes `pool2d average`, where x is a feature map, summed along height
    or width or both, and n the number of elements added.

    Exact: both add in row-major order, then divide.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.BinaryOp, rewriter: PatternRewriter, /):
        reduce = op.lhs.owner
        if op.function is not graph.Binary.DIV or op.activation is not None:
            return
        if not isinstance(reduce, graph.ReduceOp) or reduce.function is not graph.Reduce.SUM:
            return
        shape, axes = graph.shape_of(reduce.input), reduce.axes.get_values()
        # Another reader needs the sum, and integers divide in another way.
        if len(shape) != 4 or not set(axes) <= {1, 2} or not op.lhs.has_one_use():
            return
        divisor = graph.constant_array(op.rhs)
        if divisor is None or divisor.dtype != "float32" or divisor.size != 1:
            return
        kernel = [shape[i] if i in axes else 1 for i in (1, 2)]
        if float(divisor.reshape(-1)[0]) != prod(kernel):
            return
        if graph.shape_of(op.result) != graph.shape_of(reduce.result):
            return
        element = graph.element_of(op.result)
        new = graph.Pool2dOp(graph.Pool.AVERAGE, reduce.input, kernel, result_element=element)
        new.location = op.location
        new.attributes.update(op.attributes)
        rewriter.replace(op, new)
        rewriter.erase(reduce)


class FuseMeanPass(PatternPass):
    """Fuse `graph.reduce sum` and the division by its count into `graph.pool2d average`."""

    name = "fuse-mean"
    pattern = GreedyRewritePatternApplier([FuseMean()])
