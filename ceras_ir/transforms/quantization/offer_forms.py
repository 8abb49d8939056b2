"""Say which forms functions may have on an accelerator that stores 8 bits."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.dialects import graph
from ceras_ir.network.function import main_function
from ceras_ir.network.quantizable import is_quantized
from ceras_ir.transforms.graph.split_activation import SplitActivationPass
from ceras_ir.transforms.quantization.analysis.function_forms import (
    Form,
    form_of,
    is_table,
    reads_sum,
    set_form,
)

Offer: TypeAlias = Callable[[graph.UnaryOp, graph.LinearOperation], Form]
"""The form that a function of a sum may have."""


@dataclass(frozen=True)
class OfferFormsPass(ModulePass):
    """
    Say of every function of a sum of products, as `graph.form`, how `target` could compute it
    without taking the sum from the accelerator, which stores 8 bits; `set-silu` leaves those
    alone, and `choose-forms` takes tables on int8 instead where that is as good.

    nnet: "table16" where the sum is the CPU's in any case, because no circuit takes such a layer,
    as those with groups. vta: "shifts" for SiLU where the model of `board` says that the ALU
    takes no longer than a table on the host with both transfers. "table" everywhere else.
    Functions are split off first, as `split-activation` does. Changes no value.
    """

    name = "offer-forms"

    target: Literal["nnet", "vta"]
    board: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if is_quantized(main):
            return
        SplitActivationPass().apply(ctx, op)
        offer = (_by_vta if self.target == "vta" else _beside_fpga)(self.board)
        for function in main.body.block.ops:
            if not isinstance(function, graph.UnaryOp) or not is_table(function):
                continue
            linear = function.input.owner
            if not isinstance(linear, graph.LinearOperation) or not reads_sum(function):
                continue
            if form_of(function) is None:
                set_form(function, offer(function, linear))


def _by_vta(name: str | None) -> Offer:
    """Shifts where they take no longer on VTA's ALU."""
    from ceras_ir.backends.vta.board import load_board
    from ceras_ir.backends.vta.emit import DEFAULT_BOARD_NAME
    from ceras_ir.backends.vta.placement import swish_pays

    board = load_board(name or DEFAULT_BOARD_NAME)

    def offer(op: graph.UnaryOp, linear: graph.LinearOperation) -> Form:
        is_swish = op.function.kind is graph.Function.SWISH
        constant = isinstance(linear.weights.owner, graph.ConstantOp)
        pays = is_swish and constant and swish_pays(graph.shape_of(op.result), board)
        return Form.SHIFTS if pays else Form.TABLE

    return offer


def _beside_fpga(name: str | None) -> Offer:
    """Tables on 16 bits behind what the circuits cannot compute in any number format."""
    from ceras_ir.backends.nnet.board import load_board
    from ceras_ir.backends.nnet.rules import (
        extents_fit,
        is_not_grouped,
        lines_fit,
        patch_fits,
        weights_are_constant,
    )
    from ceras_ir.transforms.placement.analysis.placement import circuit_limit

    rules = [extents_fit, is_not_grouped, lines_fit, patch_fits, weights_are_constant]
    if name is not None:
        board = load_board(name)
        rules.append(lambda op: circuit_limit(op, board))

    def offer(op: graph.UnaryOp, linear: graph.LinearOperation) -> Form:
        # A residual may become an addition, whose sum the FPGA would take.
        alone = linear.residual is None and any(rule(linear) for rule in rules)
        return Form.TABLE16 if alone else Form.TABLE

    return offer
