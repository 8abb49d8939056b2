"""Choose the scales of constant weights."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass

from ceras_ir.dialects import graph
from ceras_ir.network.function import main_function
from ceras_ir.network.quantizable import is_quantized, quantized_operations
from ceras_ir.network.ranges import WEIGHT_EXPONENT


@dataclass(frozen=True)
class ChooseWeightExponentsPass(ModulePass):
    """
    Choose the power of two at which constant weights, as integers in [-127, 127], have the least
    squared error. It is stored as `graph.weight_exponent` on every convolution and matrix product
    that will be quantized. An exponent that is there is kept. Changes no value.
    """

    name = "choose-weight-exponents"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if is_quantized(main):
            return
        from ceras_ir.network.exponents import WEIGHT_LOW, least_squares_exponent

        for linear in quantized_operations(main):
            if not isinstance(linear, graph.LinearOperation):
                continue
            weights = graph.constant_array(linear.weights)
            if weights is None or WEIGHT_EXPONENT in linear.attributes:
                continue
            chosen = least_squares_exponent(weights.astype("float32", copy=False), WEIGHT_LOW)
            linear.attributes[WEIGHT_EXPONENT] = IntegerAttr(chosen, i64)
