"""Say which forms functions may have on an accelerator that stores 8 bits."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.dialects import graph
from ceras_ir.network.function import main_function
from ceras_ir.network.quantizable import is_quantized
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.targets.registry import configured
from ceras_ir.transforms.graph.split_activation import SplitActivationPass
from ceras_ir.transforms.quantization.analysis.function_forms import (
    Form,
    form_of,
    is_table,
    reads_sum,
    set_form,
)


@dataclass(frozen=True)
class OfferFormsPass(ModulePass):
    """
    Say of every function of a sum of products, as `graph.form`, how `target` could compute it
    without taking the sum from the accelerator, which stores 8 bits; `set-silu` leaves those
    alone, and `choose-forms` takes tables on int8 instead where that is as good.

    The target says which (`Target.form_offer`), by its rules and the model of `board`: "table16"
    where the sum is the host's in any case, "shifts" for SiLU where the device takes no longer
    for them than the host for a table, with both transfers; "table" everywhere else. Functions are
    split off first, as `split-activation` does. Changes no value.
    """

    name = "offer-forms"

    target: str
    board: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if is_quantized(main):
            return
        SplitActivationPass().apply(ctx, op)
        offer = configured(self.target, self.board).form_offer()
        if offer is None:
            raise UsageError(f"offer-forms: target {self.target} leaves no form open")
        for function in main.body.block.ops:
            if not isinstance(function, graph.UnaryOp) or not is_table(function):
                continue
            linear = function.input.owner
            if not isinstance(linear, graph.LinearOperation) or not reads_sum(function):
                continue
            if form_of(function) is None:
                set_form(function, Form(offer(function, linear)))
