"""Make an added vector the bias of the convolution or matrix product that it is added to."""

from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ceras_ir.dialects import graph
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.pattern_pass import PatternPass
from ceras_ir.transforms.rebuilding import rebuild_linear


class FuseBias(RewritePattern):
    """
    `matmul(x, w) + dequantize(c)` becomes `matmul(x, w) bias dequantize(c)`; so for `conv2d`.
    Float constants are the business of `fold-batch-norm`.

    Exact, because the epilogue adds the same number first.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.BinaryOp, rewriter: PatternRewriter, /):
        if op.function is not graph.Binary.ADD or op.is_quantized:
            return
        for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            linear = value.owner
            if not isinstance(linear, graph.LinearOperation) or not value.has_one_use():
                continue
            # A quantized layer adds integers, also where its table makes floats.
            if linear.is_quantized:
                continue
            # There is one bias only, and it comes first.
            if linear.bias is not None or linear.residual is not None or linear.activation:
                continue
            if not _is_stored_vector(other) or graph.shape_of(other) != (
                graph.shape_of(value)[-1],
            ):
                continue
            new = rebuild_linear(linear, {"activation": op.activation}, bias=other)
            new.location = fused_location(linear, op)
            rewriter.replace(op, new)
            rewriter.erase(linear)
            return


def _is_stored_vector(value: SSAValue) -> bool:
    owner = value.owner
    return isinstance(owner, graph.DequantizeOp) and isinstance(owner.input.owner, graph.ConstantOp)


class FuseBiasPass(PatternPass):
    """Fuse the addition of a dequantized constant per channel into what it is added to."""

    name = "fuse-bias"
    pattern = FuseBias()
    repeats = False
