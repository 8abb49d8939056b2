"""State the order of the sums of float layers in a quantized network."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.passes import ModulePass

from ceras_ir.dialects.graph import LinearOperation
from ceras_ir.network.function import main_function
from ceras_ir.network.quantizable import is_quantized


@dataclass(frozen=True)
class OrderFloatSumsPass(ModulePass):
    """
    Make float convolutions and products of a quantized network `ordered`; a float network keeps
    the freedom to sum as is fastest.

    What a float layer computes is quantized again further on, where the last bit of a sum may
    decide between two integers. With one order every target gets the same integers. Exact: a sum
    in any order is what the operation was before.
    """

    name = "order-float-sums"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if not is_quantized(main):
            return
        for layer in main.body.block.ops:
            if isinstance(layer, LinearOperation) and not layer.is_quantized:
                layer.ordered = UnitAttr()
