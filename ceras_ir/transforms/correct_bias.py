"""Take the mean error of rounded weights out of biases."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.analysis.network import main_function
from ceras_ir.transforms.recipes import runs


@dataclass(frozen=True)
class CorrectBiasPass(ModulePass):
    """
    Rounding weights to `graph.weight_exponent` moves the mean of every output channel by the
    rounding error times the mean input. Subtract that from the bias, made where there is none.

    Means are taken over the first `samples` samples of `calibration=FILE.npz`; without it nothing
    is done. With `when-chosen` it runs only if the network's `graph.recipe` has it. Not
    exact: it changes the float network so that the quantized one is right on average. A bias
    that 32 bits could not hold stays.
    """

    name = "correct-bias"

    calibration: str | None = None
    samples: int = 64
    when_chosen: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if self.calibration is None or not runs(main, self.name, when_chosen=self.when_chosen):
            return
        from ceras_ir.analysis.calibration import calibration_samples
        from ceras_ir.analysis.input_moments import input_moments
        from ceras_ir.analysis.rounded_weights import roundable_layers
        from ceras_ir.transforms.rounded_layers import correct_bias

        samples = calibration_samples(op, self.calibration, self.samples, "correcting biases")
        for moments in input_moments(op, samples, roundable_layers(main), products=False):
            correct_bias(moments)
