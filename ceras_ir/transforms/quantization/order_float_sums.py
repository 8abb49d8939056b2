"""State the order of the sums of float layers."""

from dataclasses import dataclass

from xdsl.dialects.builtin import UnitAttr
from xdsl.dialects.func import FuncOp

from ceras_ir.dialects.graph import LinearOperation
from ceras_ir.transforms.network_pass import NetworkPass


@dataclass(frozen=True)
class OrderFloatSumsPass(NetworkPass):
    """
    Make float convolutions and products `ordered` in a network that is partly quantized. A float
    network that nobody quantizes keeps the freedom to sum in the fastest order.

    The result of a float layer may be quantized again, where the last bit of a sum decides between
    two integers. With one order every target gets the same integers. Exact: before, any order was
    allowed.
    """

    name = "order-float-sums"

    def change(self, main: FuncOp) -> None:
        for layer in main.body.block.ops:
            if isinstance(layer, LinearOperation) and not layer.is_quantized:
                layer.ordered = UnitAttr()
