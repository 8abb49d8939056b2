"""Move `graph.dequantize` below what only moves elements, so that integers are moved."""

from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.transforms.pattern_pass import PatternPass
from ceras_ir.transforms.quantization.analysis.qdq import only_moves
from ceras_ir.transforms.quantization.rewrites.repadding import repadded
from ceras_ir.transforms.rebuilding import with_operands


class SinkDequantizeBelowMove(RewritePattern):
    """
    `move(dequantize(x))` becomes `dequantize(move(x))`, where all operands have one type.

    Exact: elements are the same function of the integer wherever they lie, and that function
    grows, so it commutes with a maximum.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: GraphOperation, rewriter: PatternRewriter, /):
        if not only_moves(op) or op.is_quantized:
            return
        owners = [value.owner for value in op.operands]
        stored = [owner.input for owner in owners if isinstance(owner, graph.DequantizeOp)]
        if not stored or len(stored) != len(owners):
            return
        element = graph.stored_element(stored[0])
        if element.is_per_axis or any(graph.quantized_element(v) != element for v in stored):
            return
        moved = with_operands(op, stored, element)
        below = graph.DequantizeOp(moved.output)
        below.location = op.location
        rewriter.replace(op, (moved, below))


class SinkDequantizeBelowPad(RewritePattern):
    """
    `pad(dequantize(x))` becomes `dequantize(pad(x))`, where an integer stands for the number
    that is put around: exact, for zero always.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.PadOp, rewriter: PatternRewriter, /):
        source = op.input.owner
        if not isinstance(source, graph.DequantizeOp):
            return
        element = graph.stored_element(source.input)
        if element.is_per_axis:
            return
        padded = repadded(op, source.input)
        if padded is None:
            return
        below = graph.DequantizeOp(padded.result)
        below.location = op.location
        rewriter.replace(op, (padded, below))


class SinkDequantizeBelowRelu(RewritePattern):
    """
    `relu(dequantize(x))` becomes `dequantize(max(x, zero_point))`.

    Exact: the zero point stands for zero, and numbers above it for greater ones.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.UnaryOp, rewriter: PatternRewriter, /):
        source = op.input.owner
        if not isinstance(source, graph.DequantizeOp) or op.function.kind != graph.Function.RELU:
            return
        if op.channel_exponents is not None:
            return
        element = graph.stored_element(source.input)
        if element.is_per_axis:
            return
        point = element.zero_point
        requant = RequantAttr(0, zero_point=point, low=point, high=element.high)
        clamped = graph.RequantizeOp(source.input, element, requant)
        clamped.location = op.location
        below = graph.DequantizeOp(clamped.result)
        below.location = op.location
        rewriter.replace(op, (clamped, below))


class SinkDequantizePass(PatternPass):
    """
    Move `graph.dequantize` below reshapes, transposes, maxima, concatenations and rectifiers.
    Changes no value.
    """

    name = "sink-dequantize"
    pattern = GreedyRewritePatternApplier(
        [SinkDequantizeBelowMove(), SinkDequantizeBelowPad(), SinkDequantizeBelowRelu()]
    )
