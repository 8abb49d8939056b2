"""Give the states of an LSTM and its last cell state a scale each."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Cell
from ceras_ir.network.function import main_function
from ceras_ir.network.precision import keep_in_float
from ceras_ir.network.quantizable import is_quantized

REASON = "parts the states of a recurrent layer, which is float, from its cell state"


@dataclass(frozen=True)
class SeparateCellStatePass(ModulePass):
    """
    Give the states of an LSTM and its last cell state a scale each. Both are in one result, of
    which slices take them; these get `graph.precision = "f32"`, and so what they take has a range
    of its own. States lie within 1, cell states grow with the steps: in one scale they would leave
    states few steps.

    Runs before `observe-ranges`. Changes no value.
    """

    name = "separate-cell-state"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if is_quantized(main):
            return
        for layer in main.body.block.ops:
            if isinstance(layer, graph.RecurrenceOp) and layer.type_of_cell is Cell.LSTM:
                for use in layer.result.uses:
                    if isinstance(use.operation, graph.SliceOp):
                        keep_in_float(use.operation, REASON)
