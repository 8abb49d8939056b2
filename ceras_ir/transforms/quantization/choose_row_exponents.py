"""Choose a scale for the weights of every output channel."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass

from ceras_ir.dialects import graph
from ceras_ir.network.function import main_function
from ceras_ir.network.quantizable import is_quantized, quantized_operations
from ceras_ir.network.ranges import ROW_EXPONENTS, WEIGHT_EXPONENT

SPREAD = 10
"""Octaves that channels of one layer may be apart: shifts and accumulators must have room."""


@dataclass(frozen=True)
class ChooseRowExponentsPass(ModulePass):
    """
    Give the weights of every output channel a power of two of their own, with the least squared
    error. `graph.weight_exponent` is the greatest, `graph.row_exponents` the differences.

    The requantization then has one shift per channel. Accelerators with one shift per layer leave
    such layers to the CPU. Layers that add a residual keep one scale, because accumulators of
    different scales cannot add it. Where per-channel scales are worth a separate addition,
    `split-residual` has made it. Changes no value.
    """

    name = "choose-row-exponents"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if is_quantized(main):
            return
        from ceras_ir.network.exponents import WEIGHT_LOW, least_squares_exponent

        for linear in quantized_operations(main):
            if not isinstance(linear, graph.LinearOperation) or linear.residual is not None:
                continue
            weights = graph.constant_array(linear.weights)
            if weights is None:
                continue
            rows = weights.astype("float32", copy=False)
            found = [least_squares_exponent(row, WEIGHT_LOW) if row.any() else None for row in rows]
            used = [e for e in found if e is not None]
            if not used:
                continue
            greatest = max(used)
            apart = [max(0 if e is None else e - greatest, -SPREAD) for e in found]
            linear.attributes[WEIGHT_EXPONENT] = IntegerAttr(greatest, i64)
            if any(apart):
                linear.attributes[ROW_EXPONENTS] = graph.integers(apart)
