"""Keep in float what is computed of single pixels, which becomes a table."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ceras_ir.dialects import graph
from ceras_ir.network.function import main_function
from ceras_ir.network.precision import keep_in_float
from ceras_ir.network.quantizable import is_quantized, uses_behind_moves

REASON = "computes one pixel of a uint8 image: a table takes its place"


@dataclass(frozen=True)
class KeepPixelsInFloatPass(ModulePass):
    """
    Keep in float the operations between a uint8 input and the first layer: casts, scalings,
    subtractions of means. They get `graph.precision = "f32"`, so that only their last value is
    quantized, in steps that fit it. `tabulate-pixels` then puts one table in the place of all.

    Operations that a network has no layer behind stay as they are. Changes no value.
    """

    name = "keep-pixels-in-float"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if is_quantized(main):
            return
        from ceras_ir.transforms.quantization.analysis.byte_functions import byte_values

        values = byte_values(list(main.body.block.ops))
        kept: set[Operation] = set()
        for value, function in reversed(values.items()):
            readers = [use.operation for use in uses_behind_moves(value, joined=False)]
            if any(isinstance(r, graph.LinearOperation | graph.Pool2dOp) for r in readers):
                kept.update(function.steps)
        for step in kept:
            if not isinstance(step, graph.TransposeOp):
                keep_in_float(step, REASON)
