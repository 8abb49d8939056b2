"""Let a convolution make the zeros around its input itself."""

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.attributes import integers
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.graph.zero_padding import ZeroPadding
from ceras_ir.transforms.pattern_pass import PatternPass


class FusePad(RewritePattern):
    """
    `conv2d(pad(x))` becomes `conv2d(x)` with more padding, where `pad` puts zeros, or zero
    points, around height and width. Between them a transpose may stand, or the reshape that it is
    where there is one channel.

    Exact, because padding of a convolution contributes nothing, as those elements do.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.Conv2dOp, rewriter: PatternRewriter, /):
        zeros = ZeroPadding.of(op)
        if zeros is None or any(zeros.between):
            return
        old, more = op.padding.get_values(), (*zeros.low, *zeros.high)
        op.properties["padding"] = integers([a + b for a, b in zip(old, more, strict=True)])
        op.operands[0] = zeros.insert_source(rewriter)
        op.location = fused_location(op, zeros.pad)
        rewriter.notify_op_modified(op)
        zeros.erase_unused(rewriter)


class FusePadPass(PatternPass):
    """Fuse `graph.pad` with zeros into the convolutions that read it."""

    name = "fuse-pad"
    pattern = FusePad()
