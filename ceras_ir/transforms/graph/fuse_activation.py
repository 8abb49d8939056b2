"""Make an elementwise function the last step of the operation that feeds it."""

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ceras_ir.dialects import graph
from ceras_ir.network.ranges import copy_statistics, interval
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.pattern_pass import PatternPass


class FuseActivation(RewritePattern):
    """
    `f(conv2d(x))` becomes `conv2d(x) {activation = f}`; so for `matmul` and `binary`.

    Exact, because the epilogue applies the same function to the same number. The fused
    operation keeps its own place, location and name. A function that does more than clip stays
    apart from a value whose range is known, as `calibrate` leaves it.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.UnaryOp, rewriter: PatternRewriter, /):
        producer = op.input.owner
        if not isinstance(producer, graph.LinearOperation | graph.BinaryOp):
            return
        if op.channel_exponents is not None:
            return
        # A table is the epilogue of integers, also where it makes floats of them.
        if producer.is_quantized:
            return
        # There is one epilogue only, and another reader needs the value before the function.
        if producer.activation is not None or not producer.result.has_one_use():
            return
        # What calibration saw there is what a lookup table is indexed by.
        if interval(producer.result) is not None and op.function.clip_range is None:
            return
        producer.activation = op.function
        producer.location = fused_location(producer, op)
        copy_statistics(op, producer)
        rewriter.notify_op_modified(producer)
        rewriter.replace(op, [], [producer.result])


class FuseActivationPass(PatternPass):
    """Fuse `graph.unary` into the convolution, matrix product or binary operation before it."""

    name = "fuse-activation"
    pattern = FuseActivation()
    repeats = False
