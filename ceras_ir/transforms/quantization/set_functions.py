"""
Choose how functions are computed in a network that will be quantized.

The pass `fit-functions` stores the arguments of functions as finely as the function's form reads
them.
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

# Store the arguments of functions as finely as the function's form reads them.


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


@dataclass(frozen=True)
class RowRule(RowsOptions, FloatNetworkPass):
    """
    Choose whether softmax and normalizations of a network that will be quantized are computed in
    integers or in float between them. Those that stay float get `graph.precision = "f32"`.

    In integers they read and make int8 or int16: `graph.integer_softmax` by a table of
    exponentials, `graph.integer_normalize` by a root. Changes no value.
    """

    name = "rows"

    def change(self, main: FuncOp) -> None:
        if self.rows != "float":
            return
        for inner in main.body.block.ops:
            if isinstance(inner, graph.SoftmaxOp | graph.NormalizeOp):
                keep_in_float(inner, "functions of rows are computed in float")


Offer = Callable[[graph.UnaryOp, graph.LinearOperation], str]

MEASURED = 8
"""Samples on which HardSwish is compared with SiLU, at most."""


@dataclass(frozen=True)
class SiluRule(ArithmeticOptions, CalibrationOptions, SiluOptions, FloatNetworkPass):
    """
    Choose how SiLU (`swish`) is computed in a network that will be quantized. The choice stands as
    `graph.form` or `graph.precision` on functions. A function that has a `graph.form` keeps it.
    Runs after
    `split-activations`.

    `hardswish` is another function. Without retraining a network may lose its accuracy, so stderr
    says its cost on some samples of `calibration`.
    """

    name = "silu"

    def change(self, main: FuncOp) -> None:
        if self.silu == "hardswish":
            _harden(module_of(main), self.calibration)
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
        # There is no sum to keep in 16 bits; int8 it is, or float.
        if silu == "float" and is_swish:
            keep_in_float(op, "the option silu asks for float")
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


def _harden(module: ModuleOp, calibration: str | None) -> None:
    """Replace SiLU by HardSwish, and say what it costs."""
    before = module.clone() if calibration is not None else None
    replaced = replace_swish(module)
    if not replaced:
        return
    cost = "give calibration=FILE.npz to see by how much"
    if before is not None and calibration is not None:
        from ceras_ir.transforms.quantization.analysis.calibration import calibration_samples
        from ceras_ir.transforms.quantization.analysis.output_noise import output_ratio

        samples = list(calibration_samples(module, calibration, MEASURED, "measuring HardSwish"))
        ratio = output_ratio(before, module, samples)
        cost = f"in float, before any rounding, the outputs keep {ratio:.1f} dB of signal to noise"
    remark(
        f"set-functions: WARNING: {replaced} SiLU became HardSwish, another function: a network "
        f"that was not trained for it may lose its accuracy; {cost}. Without retraining take "
        "silu=table, table16 or piecewise"
    )


@dataclass(frozen=True)
class SetFunctionsPass(ArithmeticOptions, CalibrationOptions, SiluOptions, RowsOptions, RulePass):
    """
    Choose how the functions of a network are computed after quantization: normalizations, softmax,
    activations that are more than a clip, and SiLU.
    """

    name = "set-functions"

    def table(self) -> tuple[ModulePass, ...]:
        return (
            NormalizationRule(),
            with_options_of(RowRule, self),
            SplitActivationRule(),
            with_options_of(SiluRule, self),
        )
