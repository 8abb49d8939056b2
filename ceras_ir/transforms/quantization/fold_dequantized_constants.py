"""Compute `graph.dequantize` and `graph.quantize` of constants."""

from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from ceras_ir.dialects import graph
from ceras_ir.network import integer
from ceras_ir.transforms.pattern_pass import PatternPass


class FoldDequantize(RewritePattern):
    """`dequantize(constant)` becomes a float constant."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.DequantizeOp, rewriter: PatternRewriter, /):
        constant, element = op.input.owner, graph.quantized_element(op.input)
        if isinstance(constant, graph.ConstantOp) and element is not None:
            real = integer.dequantize(constant.array(), element)
            rewriter.replace(op, graph.ConstantOp.from_array(real, location=op.location))


class FoldQuantize(RewritePattern):
    """`quantize(constant)` becomes a constant of integers."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.QuantizeOp, rewriter: PatternRewriter, /):
        constant, element = op.input.owner, graph.quantized_element(op.result)
        if isinstance(constant, graph.ConstantOp) and element is not None:
            stored = integer.quantize(constant.array().astype("float32", copy=False), element)
            new = graph.ConstantOp.from_array(stored, element, location=op.location)
            rewriter.replace(op, new)


class FoldDequantizedConstantsPass(PatternPass):
    """
    Dequantize and quantize constants at compile time, and drop those that nobody reads.

    Exact: the interpreter itself computes them.
    """

    name = "fold-dequantized-constants"
    pattern = GreedyRewritePatternApplier([FoldDequantize(), FoldQuantize()])
