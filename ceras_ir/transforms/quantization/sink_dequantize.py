"""Move `graph.dequantize` below what only moves elements, so that integers are moved."""

from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.network.precision import stays_float
from ceras_ir.transforms.pattern_pass import PatternPass
from ceras_ir.transforms.quantization.analysis.qdq import only_moves
from ceras_ir.transforms.quantization.rewrites.repadding import repadded
from ceras_ir.transforms.rebuilding import with_data


class SinkDequantize(RewritePattern):
    """`move(dequantize(x))` becomes `dequantize(move(x))`, where all operands have one type."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.GraphOperation, rewriter: PatternRewriter, /):
        owners = [value.owner for value in op.data_operands]
        stored = [owner.input for owner in owners if isinstance(owner, graph.DequantizeOp)]
        if not stored or len(stored) != len(owners) or stays_float(op):
            return
        element = graph.stored_element(stored[0])
        if element.is_per_axis or any(graph.quantized_element(v) != element for v in stored):
            return
        match op:
            case graph.PadOp():
                # Exact where an integer stands for the number that is put around; for zero always.
                moved = repadded(op, stored[0])
            case graph.UnaryOp(channel_exponents=None) if op.function.kind is graph.Function.RELU:
                # The zero point stands for zero, and numbers above it for greater ones.
                point = element.zero_point
                requant = RequantAttr(0, zero_point=point, low=point, high=element.high)
                moved = graph.RequantizeOp(stored[0], element, requant)
            case _ if only_moves(op):
                # Elements are the same function of the integer wherever they lie, and that function
                # grows, so it commutes with a maximum.
                moved = with_data(op, stored, element)
            case _:
                return
        if moved is None:
            return
        below = graph.DequantizeOp(moved.output)
        moved.location = below.location = op.location
        rewriter.replace(op, (moved, below))


class SinkDequantizePass(PatternPass):
    """
    Move `graph.dequantize` below reshapes, transposes, maxima, concatenations and rectifiers, but
    not where `graph.precision` keeps these in float. Changes no value.
    """

    name = "sink-dequantize"
    pattern = GreedyRewritePatternApplier([SinkDequantize()])
