"""Give the states of an LSTM and its last cell state a scale each."""

from dataclasses import dataclass

from xdsl.dialects.func import FuncOp

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Cell
from ceras_ir.network.precision import keep_in_float
from ceras_ir.transforms.float_network_pass import FloatNetworkPass

REASON = "parts the states of a recurrent layer, which is float, from its cell state"


@dataclass(frozen=True)
class SeparateCellStatePass(FloatNetworkPass):
    """
    Give the states of an LSTM and its last cell state a scale each. Both are in one result, of
    which slices take them; these get `graph.precision = "f32"`, and so what they take has a range
    of its own. States lie within 1, cell states grow with the steps: in one scale they would leave
    states few steps.

    Runs before `observe-ranges`. Changes no value.
    """

    name = "separate-cell-state"

    def change(self, main: FuncOp) -> None:
        for layer in main.body.block.ops:
            if isinstance(layer, graph.RecurrenceOp) and layer.type_of_cell is Cell.LSTM:
                for use in layer.result.uses:
                    if isinstance(use.operation, graph.SliceOp):
                        keep_in_float(use.operation, REASON)
