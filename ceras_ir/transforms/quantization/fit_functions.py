"""Store the arguments of functions as finely as the function's form reads them."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.dialects import graph
from ceras_ir.network.function import main_function
from ceras_ir.network.quantizable import is_quantized


@dataclass(frozen=True)
class FitFunctionsPass(ModulePass):
    """
    Give 16 bits to the argument of every function whose `graph.form` reads more than int8. The
    exponent makes the most of them: "table16" has 1024 entries, "shifts" uses one bit less than
    there is.

    Needs `graph.range`. Changes no value.
    """

    name = "fit-functions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if is_quantized(main):
            return
        from ceras_ir.transforms.quantization.analysis.function_forms import fit_argument

        for unary in main.body.block.ops:
            if isinstance(unary, graph.UnaryOp):
                fit_argument(unary)
