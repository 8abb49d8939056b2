"""
Choose the forms of functions in a network that will be quantized.

The pass `fit-functions` stores the operand of each function at the resolution of its form.
"""

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from ceras_ir.dialects import graph
from ceras_ir.network.function import module_of
from ceras_ir.network.storage import keep_in_float
from ceras_ir.support.diagnostics import remark
from ceras_ir.support.options import with_options_of
from ceras_ir.targets.registry import configured
from ceras_ir.transforms.graph.fuse_epilogues import SplitActivationRule
from ceras_ir.transforms.graph.fuse_functions import replace_swish
from ceras_ir.transforms.graph.row_functions import NormalizationRule
from ceras_ir.transforms.pass_kinds import FloatNetworkPass, RulePass
from ceras_ir.transforms.quantization.analysis.function_forms import (
    Form,
    fit_argument,
    form_of,
    is_table,
    reads_sum,
    set_form,
)
from ceras_ir.transforms.quantization_options import (
    ArithmeticOptions,
    CalibrationOptions,
    RowsOptions,
    SiluOptions,
)


@dataclass(frozen=True)
class FitFunctionsPass(FloatNetworkPass):
    """
    Store the operand of a function in 16 bits if `graph.form` uses more than int8. The exponent is
    the finest that the form can use: "table16" has 1024 entries, "shifts" uses 15 of 16 bits.

    Needs `graph.range`. Changes no value.
    """

    name = "fit-functions"

    def change(self, main: FuncOp) -> None:
        for unary in main.body.block.ops:
            if isinstance(unary, graph.UnaryOp):
                fit_argument(unary)


@dataclass(frozen=True)
class RowRule(RowsOptions, FloatNetworkPass):
    """
    Choose whether softmax and normalizations of a network that will be quantized are computed in
    integers or in float. Float operations get `graph.precision = "f32"`.

    The integer forms have operands and results in int8 or int16: `graph.integer_softmax` with a
    table of exponentials, `graph.integer_normalize` with a root. Changes no value.
    """

    name = "rows"

    def change(self, main: FuncOp) -> None:
        if self.rows != "float":
            return
        for inner in main.body.block.ops:
            if isinstance(inner, graph.SoftmaxOp | graph.NormalizeOp):
                keep_in_float(inner, "the option rows requires float")


Offer = Callable[[graph.UnaryOp, graph.LinearOperation], str]

MAX_MEASURED_SAMPLES = 8
"""The maximum number of samples on which HardSwish is compared with SiLU."""


@dataclass(frozen=True)
class SiluRule(ArithmeticOptions, CalibrationOptions, SiluOptions, FloatNetworkPass):
    """
    Choose the form of SiLU (`swish`) in a network that will be quantized, as `graph.form` or
    `graph.precision`. An existing `graph.form` is kept. Runs after `split-activations`.

    `hardswish` is another function. A network may lose accuracy without retraining, so stderr
    prints the noise on some samples of `calibration`.
    """

    name = "silu"

    def change(self, main: FuncOp) -> None:
        if self.silu == "hardswish":
            _replace_by_hard_swish(module_of(main), self.calibration)
            return
        offer = None
        if self.silu == "auto" and self.target is not None:
            offer = configured(self.target, self.board).form_offer()
        for unary in main.body.block.ops:
            if isinstance(unary, graph.UnaryOp):
                _set(unary, self.silu, offer)


def _set(op: graph.UnaryOp, silu: str, offer: Offer | None) -> None:
    is_swish = op.function.kind is graph.Function.SWISH
    if not is_table(op) or form_of(op) is not None:
        return
    if not reads_sum(op):
        # There is no sum to store in 16 bits, so the operand is int8 or float.
        if silu == "float" and is_swish:
            keep_in_float(op, "the option silu requires float")
        return
    linear = op.input.owner
    if offer is not None and isinstance(linear, graph.LinearOperation):
        set_form(op, Form(offer(op, linear)))
    elif silu == "table16":
        set_form(op, Form.TABLE16)
    elif silu == "piecewise" and is_swish and op.function.affine is None:
        set_form(op, Form.SHIFTS)
    elif silu == "float" and is_swish:
        set_form(op, Form.FLOAT)


def _replace_by_hard_swish(module: ModuleOp, calibration: str | None) -> None:
    before = module.clone() if calibration is not None else None
    replaced = replace_swish(module)
    if not replaced:
        return
    cost = "give calibration=FILE.npz to measure the noise"
    if before is not None and calibration is not None:
        from ceras_ir.transforms.quantization.analysis.calibration import calibration_samples
        from ceras_ir.transforms.quantization.analysis.output_noise import output_ratio

        samples = list(
            calibration_samples(module, calibration, MAX_MEASURED_SAMPLES, "measuring HardSwish")
        )
        ratio = output_ratio(before, module, samples)
        cost = (
            f"in float, before rounding, the outputs have a signal-to-noise ratio of {ratio:.1f} dB"
        )
    remark(
        f"set-functions: WARNING: {replaced} SiLU became HardSwish, another function: a network "
        f"that was not trained for it may lose accuracy; {cost}. Without retraining use "
        "silu=table, table16 or piecewise"
    )


@dataclass(frozen=True)
class SetFunctionsPass(ArithmeticOptions, CalibrationOptions, SiluOptions, RowsOptions, RulePass):
    """Choose the forms of normalizations, softmax, SiLU and other non-clipping activations."""

    name = "set-functions"

    def table(self) -> tuple[ModulePass, ...]:
        return (
            NormalizationRule(),
            with_options_of(RowRule, self),
            SplitActivationRule(),
            with_options_of(SiluRule, self),
        )
