"""Move `graph.quantize` above what only moves elements, to the operation that computes them."""

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ceras_ir.dialects import graph
from ceras_ir.network.precision import stays_float
from ceras_ir.transforms.pattern_pass import PatternPass
from ceras_ir.transforms.quantization.analysis.qdq import is_quantized_alike, only_moves
from ceras_ir.transforms.quantization.rewrites.repadding import repadded
from ceras_ir.transforms.rebuilding import with_data


class HoistQuantize(RewritePattern):
    """
    `quantize(move(x, y))` becomes `move(quantize(x), quantize(y))`, where nobody else reads
    the moved floats.

    Exact: elements are quantized alike wherever they lie, by a function that does not fall, so
    it commutes with a maximum too.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.QuantizeOp, rewriter: PatternRewriter, /):
        move = op.input.owner
        if not isinstance(move, graph.GraphOperation) or stays_float(move):
            return
        if not only_moves(move) and not isinstance(move, graph.PadOp):
            return
        element = graph.stored_element(op.result)
        if element.is_per_axis or not is_quantized_alike(op):
            return
        above = [graph.QuantizeOp(value, element) for value in move.data_operands]
        for quantize in above:
            quantize.location = op.location
            quantize.attributes |= op.attributes
        stored = [quantize.result for quantize in above]
        if isinstance(move, graph.PadOp):
            # The number around is quantized as it would be in place.
            moved = repadded(move, stored[0], exactly=False)
            assert moved is not None
        else:
            moved = with_data(move, stored, element)
        rewriter.replace(op, (*above, moved))
        if move.output.first_use is None:
            rewriter.erase(move)


class HoistQuantizePass(PatternPass):
    """
    Move `graph.quantize` above reshapes, transposes, maxima and concatenations, but not where
    `graph.precision` keeps these in float. Changes no value.
    """

    name = "hoist-quantize"
    pattern = HoistQuantize()
