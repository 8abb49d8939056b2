"""Compute a network that has Q/DQ in integers."""

from dataclasses import dataclass

from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr, Rounding
from ceras_ir.network import integer
from ceras_ir.network.storage import stays_float
from ceras_ir.transforms.graph.fuse_windows import PadRule
from ceras_ir.transforms.pattern_pass import PatternPass
from ceras_ir.transforms.quantization.analysis.qdq import (
    HALF_EVEN,
    is_quantized_alike,
    stored_types,
)
from ceras_ir.transforms.quantization.analysis.rescaling import only_shifts
from ceras_ir.transforms.quantization.options import ResidualSpreadOptions
from ceras_ir.transforms.quantization.qdq_rules import HoistRule, SignRule, SinkRule, TieRule
from ceras_ir.transforms.quantization.rewrites.fitting_sums import fitted
from ceras_ir.transforms.quantization.rewrites.qdq_forms import qdq_form
from ceras_ir.transforms.quantization.rewrites.residual_spread_pass import ResidualSpreadPass
from ceras_ir.transforms.rebuilding import erase_dead
from ceras_ir.transforms.rule_pass import RulePass


class FoldDequantize(RewritePattern):
    """`dequantize(constant)` becomes a float constant."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.DequantizeOp, rewriter: PatternRewriter, /):
        constant, element = op.input.owner, graph.quantized_element(op.input)
        if isinstance(constant, graph.ConstantOp) and element is not None:
            real = integer.dequantize(constant.array(), element)
            rewriter.replace(op, graph.ConstantOp.from_array(real, location=op.location))


class FoldQuantize(RewritePattern):
    """`quantize(constant)` becomes a constant of integers."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.QuantizeOp, rewriter: PatternRewriter, /):
        constant, element = op.input.owner, graph.quantized_element(op.result)
        if isinstance(constant, graph.ConstantOp) and element is not None:
            stored = integer.quantize(constant.array().astype("float32", copy=False), element)
            new = graph.ConstantOp.from_array(stored, element, location=op.location)
            rewriter.replace(op, new)


class QdqConstantRule(PatternPass):
    """
    Dequantize and quantize constants at compile time, and drop those that nobody reads.

    Exact: the interpreter itself computes them.
    """

    name = "constants"
    pattern = GreedyRewritePatternApplier([FoldDequantize(), FoldQuantize()])


@dataclass(frozen=True)
class QdqOperationRule(ResidualSpreadPass):
    """
    Replace `quantize(op(dequantize(x), ...))` by `op` on integers. The result has a requantization
    of multiplier, shift and zero point. An activation that clips becomes its clamp range; other
    functions become tables. `quantize(dequantize(x))` becomes `x`, or `graph.requantize`.

    A float result stays float if its `graph.precision` says so, if anything else reads it, if it
    is quantized in two ways, if the integer operation cannot round as its `graph.half_even` asks,
    or if it would have to shift residuals further apart than `residual_spread`. If the network
    already has integer operations, `quantize(dequantize(x))` of two types also remains: a shift can
    round ties to the other side, and a quantized network has to compute the same again.

    Only neighbours count, as `signs`, `sink` and `hoist` leave them. Off by at most one unit of the
    result against the float operations (see `integer_forms`); exact for the identity.
    """

    name = "operations"

    def change(self, main: FuncOp) -> None:
        block = main.body.block
        has_integers = any(
            "requant" in op.properties and not isinstance(op, graph.RequantizeOp)
            for op in block.ops
        )
        for quantize in list(block.ops):
            if not isinstance(quantize, graph.QuantizeOp):
                continue
            source, target = quantize.input.owner, graph.quantized_element(quantize.result)
            assert target is not None
            if not isinstance(source, graph.GraphOperation) or stays_float(source):
                continue
            # The order of sums is chosen for what was left in floats.
            if isinstance(source, graph.LinearOperation) and source.ordered is not None:
                continue
            if isinstance(source, graph.DequantizeOp):
                if source.input.type == quantize.result.type:
                    quantize.result.replace_all_uses_with(source.input)
                    continue
                if has_integers:
                    continue
            elif not is_quantized_alike(quantize):
                continue
            new = qdq_form(source, target)
            if new is None or (new := fitted(new)) is None or self._is_apart(new[-1]):
                continue
            if HALF_EVEN in quantize.attributes and _takes_ties_up(new[-1]):
                continue
            Rewriter.insert_op(new, InsertPoint.before(quantize))
            new[-1].output.name_hint = quantize.result.name_hint
            for use in list(quantize.input.uses):
                reader = use.operation
                if isinstance(reader, graph.QuantizeOp) and reader.result.type == (
                    quantize.result.type
                ):
                    reader.result.replace_all_uses_with(new[-1].output)
        for left in block.ops:
            left.attributes.pop(HALF_EVEN, None)
        erase_dead(block)

    def _is_apart(self, op: graph.GraphOperation) -> bool:
        """Whether the residual's shifts of a sum are too far apart."""
        shifts = op.residual_shifts if isinstance(op, graph.LinearOperation) else (0,)
        return max(shifts) - min(shifts) > self.residual_spread


def _takes_ties_up(op: graph.GraphOperation) -> bool:
    """Whether ties of a rescaling by shifts go up, other than in a product, which always does."""
    requant = op.properties.get("requant")
    if isinstance(op, graph.LinearOperation) or not isinstance(requant, RequantAttr):
        return False
    shifts = only_shifts(stored_types(op))
    return shifts and requant.mode is Rounding.HALF_UP and requant.shift.data > 0


@dataclass(frozen=True)
class FoldQdqPass(ResidualSpreadOptions, RulePass):
    """
    Compute a network with QuantizeLinear and DequantizeLinear in integers.

    The first rules bring both next to the operations between them, so that `operations` only has
    to look at neighbours. A network without Q/DQ is unchanged, except that constants that are
    dequantized or quantized are computed.
    """

    name = "fold-qdq"

    def table(self) -> tuple[ModulePass, ...]:
        return (
            SignRule(),
            SinkRule(),
            HoistRule(),
            TieRule(),
            QdqOperationRule(self.residual_spread),
            # `sink` can move zeros to a layer that `operations` then leaves in float.
            PadRule(),
            QdqConstantRule(),
        )
