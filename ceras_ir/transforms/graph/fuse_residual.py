"""Add a residual inside the epilogue of the convolution that it is added to."""

from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ceras_ir.dialects import graph
from ceras_ir.network.ranges import copy_statistics
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.pattern_pass import PatternPass
from ceras_ir.transforms.rebuilding import rebuild_linear


class FuseResidual(RewritePattern):
    """
    `conv2d(x) + y` becomes `conv2d(x) residual y`; so for `matmul`.

    Exact, because the epilogue adds the residual to the same float32 number and addition
    commutes. The fused operation stands where the addition stood: there both its operands
    and the residual are defined, and the addition was the only reader.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.BinaryOp, rewriter: PatternRewriter, /):
        if op.function is not graph.Binary.ADD or op.is_quantized:
            return
        linear = _later(_fusible(op, op.lhs), _fusible(op, op.rhs))
        if linear is None:
            return
        residual = op.rhs if op.lhs is linear.result else op.lhs
        fused = rebuild_linear(linear, {"activation": op.activation}, residual=residual)
        copy_statistics(op, fused)
        fused.location = fused_location(linear, op)
        rewriter.replace(op, fused)
        rewriter.erase(linear)


def _fusible(op: graph.BinaryOp, value: SSAValue) -> graph.LinearOperation | None:
    """What makes the operand `value` of the addition `op`, if it can add the other operand."""
    linear = value.owner
    if not isinstance(linear, graph.LinearOperation):
        return None
    # A quantized layer adds integers, also where its table makes floats.
    if linear.is_quantized:
        return None
    # The epilogue adds before it applies a function, once, and for this reader alone.
    if linear.activation is not None or linear.residual is not None:
        return None
    if not linear.result.has_one_use():
        return None
    other = op.rhs if value is op.lhs else op.lhs
    # A constant is a bias, or data that no convolution made: it stays an addition.
    if graph.shape_of(other) != graph.shape_of(value) or isinstance(other.owner, graph.ConstantOp):
        return None
    return linear


def _later(
    a: graph.LinearOperation | None, b: graph.LinearOperation | None
) -> graph.LinearOperation | None:
    """Of two operations the one that runs last, so that the other's result need not wait."""
    if a is None or b is None:
        return a or b
    return b if a.is_before_in_block(b) else a


class FuseResidualPass(PatternPass):
    """
    Fuse an addition of two tensors of one shape into the convolution or matrix product that makes
    one of them. That layer must have neither residual nor activation yet. If both addends are made
    by such a layer, the later one takes the addition.
    """

    name = "fuse-residual"
    pattern = FuseResidual()
    repeats = False
