"""The pipeline `quantize`: from a float network to integers."""

from dataclasses import dataclass

from xdsl.passes import ModulePass

from ceras_ir.diagnostics import UsageError
from ceras_ir.transforms.align_scales import AlignScalesPass
from ceras_ir.transforms.calibrate import CalibratePass
from ceras_ir.transforms.check_scales import CheckScalesPass
from ceras_ir.transforms.choose_recipe import ChooseRecipePass
from ceras_ir.transforms.choose_weight_exponents import ChooseWeightExponentsPass
from ceras_ir.transforms.correct_bias import CorrectBiasPass
from ceras_ir.transforms.fold_dequantized_constants import FoldDequantizedConstantsPass
from ceras_ir.transforms.fold_qdq import FoldQdqPass
from ceras_ir.transforms.fuse_pad import FusePadPass
from ceras_ir.transforms.hoist_quantize import HoistQuantizePass
from ceras_ir.transforms.make_signed import MakeSignedPass
from ceras_ir.transforms.pipeline import PipelinePass
from ceras_ir.transforms.prove_accumulators import ProveAccumulatorsPass
from ceras_ir.transforms.quantize_graph import QuantizeGraphPass
from ceras_ir.transforms.recipes import AUTO, RECIPES
from ceras_ir.transforms.round_weights import RoundWeightsPass
from ceras_ir.transforms.set_recipe import SetRecipePass
from ceras_ir.transforms.sink_dequantize import SinkDequantizePass
from ceras_ir.transforms.unfuse_residual import UnfuseResidualPass

DEFAULT_RECIPE = "plain"


@dataclass(frozen=True)
class QuantizePass(PipelinePass):
    """
    Quantize a network. One that comes with Q/DQ keeps its scales and zero points: they are
    folded into integer operations with multipliers and shifts. A float one becomes symmetric
    int8 with power-of-two scales and 32-bit biases.

    Then ranges come from the first `samples` samples of `calibration=FILE.npz`, else from the IR,
    else from synthetic samples drawn with `seed`; see `observe-ranges`. A network that is
    quantized already stays as it is.

    `recipe` says which of the passes run that make better numbers at no cost at run time, all
    of which need `calibration`: plain (none), bias, channels, channels-bias, rounding, or
    channels-rounding; auto tries some of them on the data and keeps the best.
    """

    name = "quantize"

    calibration: str | None = None
    samples: int = 64
    seed: int = 0
    recipe: str = DEFAULT_RECIPE

    def __post_init__(self) -> None:
        if self.recipe not in (AUTO, *RECIPES):
            raise UsageError(
                f"option 'recipe' of pass '{self.name}' must be one of "
                f"{', '.join((AUTO, *RECIPES))}, got {self.recipe}"
            )
        self.passes()  # Refuses options out of range before anything runs.

    def passes(self) -> tuple[ModulePass, ...]:
        data = (self.calibration, self.samples, True)
        return (
            MakeSignedPass(),
            SinkDequantizePass(),
            HoistQuantizePass(),
            FoldQdqPass(),
            FusePadPass(),
            FoldDequantizedConstantsPass(),
            self._recipe(),
            CalibratePass(self.calibration, self.samples, self.seed),
            ChooseWeightExponentsPass(),
            AlignScalesPass(),
            UnfuseResidualPass(),
            RoundWeightsPass(*data),
            CorrectBiasPass(*data),
            QuantizeGraphPass(),
            CheckScalesPass(),
            ProveAccumulatorsPass(),
        )

    def _recipe(self) -> ModulePass:
        if self.recipe == AUTO:
            return ChooseRecipePass(self.calibration, self.samples)
        return SetRecipePass(self.recipe)
