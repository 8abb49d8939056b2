"""Fold multiplications by a constant into the quantization of their results."""

import numpy as np
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from ceras_ir.dialects import graph
from ceras_ir.transforms.pattern_pass import PatternPass


class FoldFactor(RewritePattern):
    """`quantize(x * c)` becomes `scaled_quantize(x) {factor = c}`, c one float32 number."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.QuantizeOp, rewriter: PatternRewriter, /):
        product = op.input.owner
        element = graph.stored_element(op.result)
        if element.is_per_axis or not isinstance(product, graph.BinaryOp):
            return
        if product.function is not graph.Binary.MUL or product.activation is not None:
            return
        # Where others read the product too, it is computed anyway.
        if not op.input.has_one_use():
            return
        for x, other in ((product.lhs, product.rhs), (product.rhs, product.lhs)):
            factor = graph.constant_array(other)
            if factor is None or factor.size != 1 or not np.isfinite(factor).all():
                continue
            # A constant of more dimensions than the other operand may add some.
            if x.type == op.input.type:
                folded = graph.ScaledQuantizeOp(x, factor.item(), element)
                folded.attributes.update(op.attributes)
                folded.location = op.location
                rewriter.replace(op, folded)
                rewriter.erase(product)
                return


class FoldFactorPass(PatternPass):
    """
    Make `graph.scaled_quantize` of `graph.quantize` and a multiplication by one number before it,
    such as those of `fit-inputs`. No product in float is stored: an image is read once, and has no
    copy in float.

    A product that something else reads stays, and so does one with an activation or whose constant
    has several numbers. Exact: the product is rounded to float32 as before.
    """

    name = "fold-factor"
    pattern = GreedyRewritePatternApplier([FoldFactor()])
