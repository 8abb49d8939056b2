"""Recognize Swish, which exporters spell as Sigmoid and Mul."""

from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ceras_ir.dialects import graph
from ceras_ir.network.ranges import copy_statistics
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.pattern_pass import PatternPass


class FuseSwish(RewritePattern):
    """
    `x * sigmoid(x)`, in either order, becomes `swish(x)`.

    Exact, because `swish` is defined as that product and float multiplication commutes.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.BinaryOp, rewriter: PatternRewriter, /):
        if op.function is not graph.Binary.MUL or op.is_quantized:
            return
        sigmoid = _sigmoid_of(op.rhs, op.lhs) or _sigmoid_of(op.lhs, op.rhs)
        if sigmoid is None:
            return
        # With another reader the sigmoid stays, and would be computed twice.
        if not sigmoid.result.has_one_use():
            return
        swish = graph.UnaryOp(sigmoid.input, graph.FunctionAttr(graph.Function.SWISH))
        swish.location = fused_location(op, sigmoid)
        results = [swish.result]
        new_ops = [swish]
        if op.activation is not None:
            # What was fused into the product follows it.
            after = graph.UnaryOp(swish.result, op.activation)
            after.location = op.location
            new_ops.append(after)
            results = [after.result]
        copy_statistics(op, new_ops[-1])
        rewriter.replace(op, new_ops, results)
        rewriter.erase(sigmoid)


def _sigmoid_of(value: SSAValue, argument: SSAValue) -> graph.UnaryOp | None:
    """The operation that makes `value` as the sigmoid of `argument`."""
    owner = value.owner
    if (
        isinstance(owner, graph.UnaryOp)
        and owner.function == graph.FunctionAttr(graph.Function.SIGMOID)
        and owner.input is argument
    ):
        return owner
    return None


class FuseSwishPass(PatternPass):
    """Replace `x * sigmoid(x)` by the one function swish, where nothing else reads the sigmoid."""

    name = "fuse-swish"
    pattern = FuseSwish()
    repeats = False
