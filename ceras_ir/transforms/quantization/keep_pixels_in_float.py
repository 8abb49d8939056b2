"""Keep in float what is computed of single pixels, which becomes a table."""

from dataclasses import dataclass

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ceras_ir.dialects import graph
from ceras_ir.network.precision import keep_in_float
from ceras_ir.network.quantizable import uses_behind_moves
from ceras_ir.transforms.float_network_pass import FloatNetworkPass
from ceras_ir.transforms.quantization.analysis.byte_functions import byte_values

REASON = "computes one pixel of a uint8 image: a table takes its place"


@dataclass(frozen=True)
class KeepPixelsInFloatPass(FloatNetworkPass):
    """
    Keep in float the operations between a uint8 input and the first layer: casts, scalings,
    subtractions of means. They get `graph.precision = "f32"`, so that only their last value is
    quantized, in steps that fit it. `tabulate-pixels` then puts one table in the place of all.

    Operations that a network has no layer behind stay as they are. Changes no value.
    """

    name = "keep-pixels-in-float"

    def change(self, main: FuncOp) -> None:
        values = byte_values(list(main.body.block.ops))
        kept: set[Operation] = set()
        for value, function in reversed(values.items()):
            readers = [use.operation for use in uses_behind_moves(value, joined=False)]
            if any(isinstance(r, graph.LinearOperation | graph.Pool2dOp) for r in readers):
                kept.update(function.steps)
        for step in kept:
            if not isinstance(step, graph.TransposeOp):
                keep_in_float(step, REASON)
