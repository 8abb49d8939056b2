"""Let a convolution make the zeros around its input itself."""

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.attributes import integers
from ceras_ir.transforms.pattern_pass import PatternPass


class FusePad(RewritePattern):
    """
    `conv2d(pad(x))` becomes `conv2d(x)` with more padding, where `pad` puts zeros, or zero
    points, around height and width; a transpose may stand between.

    Exact, because padding of a convolution contributes nothing, as those elements do.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.Conv2dOp, rewriter: PatternRewriter, /):
        pad, transpose = op.input.owner, None
        # At the border of a network the model's own layout is padded before it is transposed.
        if isinstance(pad, graph.TransposeOp):
            pad, transpose = pad.input.owner, pad
        if not isinstance(pad, graph.PadOp) or pad.function is not graph.Pad.CONSTANT:
            return
        element = graph.quantized_element(pad.input)
        zero = 0 if element is None else element.zero_point
        order = range(4) if transpose is None else transpose.permutation.get_values()
        low, high = ([sizes.get_values()[i] for i in order] for sizes in (pad.low, pad.high))
        elsewhere = (low[0], low[3], high[0], high[3], *pad.interior.get_values())
        if pad.stored_value != zero or any(elsewhere):
            return
        old = op.padding.get_values()
        more = (low[1], low[2], high[1], high[2])
        op.properties["padding"] = integers([a + b for a, b in zip(old, more, strict=True)])
        source = pad.input
        if transpose is not None:
            above = graph.TransposeOp(source, order)
            above.location = transpose.location
            rewriter.insert(above)
            source = above.result
        op.operands[0] = source
        rewriter.notify_op_modified(op)
        for unused in (transpose, pad):
            if unused is not None and unused.results[0].first_use is None:
                rewriter.erase(unused)


class FusePadPass(PatternPass):
    """Fuse `graph.pad` with zeros into the convolutions that read it."""

    name = "fuse-pad"
    pattern = FusePad()
