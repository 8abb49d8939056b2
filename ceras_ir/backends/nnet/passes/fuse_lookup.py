"""Fuse tables into the convolutions and matrix products before them, whose circuits have them."""

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ceras_ir.backends.nnet.rules import MAX_TABLES, is_int8, why_not
from ceras_ir.dialects import graph
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.pattern_pass import PatternPass
from ceras_ir.transforms.quantization.rewrites.tables import FUNCTION
from ceras_ir.transforms.rebuilding import rebuild_linear


class FuseLookup(RewritePattern):
    """`lookup(conv2d(x, w), t)` becomes `conv2d(x, w) {table = t}`; so for `matmul`."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.LookupOp, rewriter: PatternRewriter, /):
        linear = op.input.owner
        # Another reader wants the numbers in front of the table.
        if not isinstance(linear, graph.LinearOperation) or not op.input.has_one_use():
            return
        # The CPU looks up whole layers faster than it does pixels.
        if linear.table is not None or not is_int8(op.input) or why_not(linear) is not None:
            return
        target = graph.quantized_element(op.result)
        if target is not None and not is_int8(op.result):
            return
        if len(op.tables) > MAX_TABLES:
            return
        epilogue = {"table": op.table, "rows": op.rows}
        new = rebuild_linear(linear, epilogue, element=graph.element_of(op.result))
        if FUNCTION in op.attributes:
            new.attributes[FUNCTION] = op.attributes[FUNCTION]
        new.location = fused_location(linear, op)
        rewriter.replace(op, new)
        rewriter.erase(linear)


class FuseLookupPass(PatternPass):
    """
    Fuse a lookup into the convolution or matrix product before it, where the FPGA runs that.

    Exact: the table is read at the number that the requantization has made.
    """

    name = "fuse-lookup"
    pattern = FuseLookup()
    repeats = False
