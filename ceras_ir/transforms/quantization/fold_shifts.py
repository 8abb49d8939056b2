"""Convert a network with Q/DQ to integers for targets that only shift, if this is exact."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ceras_ir.dialects import graph
from ceras_ir.network.function import main_function
from ceras_ir.transforms.quantization.analysis.qdq import needs_multiplier
from ceras_ir.transforms.quantization.fold_qdq import FoldQdqPass
from ceras_ir.transforms.quantization.fold_thresholds import ThresholdRule, is_sum
from ceras_ir.transforms.quantization_options import ResidualSpreadOptions


@dataclass(frozen=True)
class FoldShiftsPass(ResidualSpreadOptions, ModulePass):
    """
    Convert a network with Q/DQ to integers, with all scales of the model, if shifts and thresholds
    are sufficient. Otherwise leave it unchanged, and `snap-scales` replaces its scales by powers of
    two.

    Shifts are sufficient if all scales of a requantization are powers of two. Layers before
    thresholds may have any scales.

    Exact as `fold-qdq`, which converts the network.

    Before:

        %w = graph.constant dense<1> : tensor<1x2xi2> : tensor<1x2x!quant.uniform<i2:f32, 1.0>>
        %r = graph.dequantize %x : (tensor<1x2x!quant.uniform<i8:f32, 0.3>>) -> tensor<1x2xf32>
        %v = graph.dequantize %w : (tensor<1x2x!quant.uniform<i2:f32, 1.0>>) -> tensor<1x2xf32>
        %y = graph.matmul %r, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>

    After:

        %w = graph.constant dense<1> : tensor<1x2xi2> : tensor<1x2x!quant.uniform<i2:f32, 1.0>>
        %s = graph.matmul %x, %w {requant = #graph.requant<shift = 0, rounding = half_up,
            low = -2147483648, high = 2147483647>} : (tensor<1x2x!quant.uniform<i8:f32, 0.3>>,
            tensor<1x2x!quant.uniform<i2:f32, 1.0>>) -> tensor<1x1x!quant.uniform<i32:f32, 0.3>>
        %y = graph.dequantize %s : (tensor<1x1x!quant.uniform<i32:f32, 0.3>>) -> tensor<1x1xf32>
    """

    name = "fold-shifts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        folding = FoldQdqPass(self.residual_spread, thresholds=True)
        trial = op.clone()
        for rule in folding.table():
            if isinstance(rule, ThresholdRule):
                rule.replace(main_function(trial))
            else:
                rule.apply(ctx, trial)
        if _only_shifts(trial):
            folding.apply(ctx, op)


def _only_shifts(module: ModuleOp) -> bool:
    """
    Return whether no requantization multiplies, and no quantization depends on floats that are
    dequantized.
    """
    real: set[Operation] = set()
    for op in main_function(module).body.block.ops:
        owners = {value.owner for value in op.operands}
        if isinstance(op, graph.DequantizeOp) or (
            not real.isdisjoint(owners) and not isinstance(op, graph.QuantizeOp)
        ):
            real.add(op)
        elif not real.isdisjoint(owners) or (needs_multiplier(op) and not is_sum(op)):
            return False
    return True
