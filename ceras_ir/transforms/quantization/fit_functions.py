"""Store the arguments of functions as finely as the function's form reads them."""

from dataclasses import dataclass

from xdsl.dialects.func import FuncOp

from ceras_ir.dialects import graph
from ceras_ir.transforms.float_network_pass import FloatNetworkPass
from ceras_ir.transforms.quantization.analysis.function_forms import fit_argument


@dataclass(frozen=True)
class FitFunctionsPass(FloatNetworkPass):
    """
    Give 16 bits to the argument of every function whose `graph.form` reads more than int8. The
    exponent makes the most of them: "table16" has 1024 entries, "shifts" uses one bit less than
    there is.

    Needs `graph.range`. Changes no value.
    """

    name = "fit-functions"

    def change(self, main: FuncOp) -> None:
        for unary in main.body.block.ops:
            if isinstance(unary, graph.UnaryOp):
                fit_argument(unary)
