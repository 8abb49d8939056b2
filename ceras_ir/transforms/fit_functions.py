"""Store the arguments of functions as finely as the function's form reads them."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.analysis.network import main_function
from ceras_ir.analysis.precision import WIDE, set_width
from ceras_ir.analysis.quantizable import is_quantized
from ceras_ir.analysis.ranges import interval, set_exponent
from ceras_ir.dialects import graph


@dataclass(frozen=True)
class FitFunctionsPass(ModulePass):
    """
    Give the argument of every function that has a `graph.form` 16 bits, and an exponent that
    makes the most of them: "table16" has 1024 entries, "shifts" uses one bit less than there is.
    Needs `graph.range`; changes no value.
    """

    name = "fit-functions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if is_quantized(main):
            return
        from ceras_ir.analysis.exponents import fitting_exponent
        from ceras_ir.analysis.function_forms import finer_argument

        for unary in main.body.block.ops:
            if not isinstance(unary, graph.UnaryOp) or not (finer := finer_argument(unary)):
                continue
            seen = interval(unary.input)
            if seen is not None:
                set_width(unary.input, WIDE)
                set_exponent(unary.input, fitting_exponent(max(-seen[0], seen[1])) - finer)
