"""State the order of the sums of float layers."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.passes import ModulePass

from ceras_ir.dialects.graph import LinearOperation
from ceras_ir.network.function import main_function


@dataclass(frozen=True)
class OrderFloatSumsPass(ModulePass):
    """
    Make float convolutions and products `ordered` in a network that is partly quantized. A float
    network that nobody quantizes keeps the freedom to sum in the fastest order.

    The result of a float layer may be quantized again, where the last bit of a sum decides between
    two integers. With one order every target gets the same integers. Exact: before, any order was
    allowed.
    """

    name = "order-float-sums"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for layer in main_function(op).body.block.ops:
            if isinstance(layer, LinearOperation) and not layer.is_quantized:
                layer.ordered = UnitAttr()
