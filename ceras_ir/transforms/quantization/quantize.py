"""The pipeline `quantize`: from a float network to integers."""

from dataclasses import dataclass

from xdsl.passes import ModulePass

from ceras_ir.support.diagnostics import UsageError
from ceras_ir.transforms.pipeline import PipelinePass
from ceras_ir.transforms.quantization.analysis.observer_names import ObserverName
from ceras_ir.transforms.quantization.calibrate import CalibratePass
from ceras_ir.transforms.quantization.choose_precision import FEW, ChoosePrecisionPass, Mixed
from ceras_ir.transforms.quantization.choose_recipe import ChooseRecipePass
from ceras_ir.transforms.quantization.rewrites.recipes import AUTO, RECIPES
from ceras_ir.transforms.quantization.set_precision import SetPrecisionPass
from ceras_ir.transforms.quantization.set_recipe import SetRecipePass
from ceras_ir.transforms.quantization.set_silu import Silu
from ceras_ir.transforms.quantization.trials.steps import finish, measure, prepare

DEFAULT_RECIPE = AUTO


@dataclass(frozen=True)
class QuantizePass(PipelinePass):
    """
    Quantize a network. One that comes with Q/DQ keeps its scales and zero points: they are
    folded into integer operations with multipliers and shifts. A float one becomes symmetric
    int8 with power-of-two scales and 32-bit biases.

    Then ranges come from the first `samples` samples of `calibration=FILE.npz`, else from the IR,
    else from synthetic samples drawn with `seed`; see `observe-ranges`. A network that is
    quantized already stays as it is.

    `recipe` says which of the passes run that make better numbers at no cost at run time, all of
    which need `calibration`: plain (none), bias, channels, channels-bias, rounding,
    channels-rounding, or channels-rounding-bias; auto tries some of them on the data and keeps the
    best. Those with rows- give every channel's weights a scale of its own, which costs CPUs a
    multiplication for each result, and accelerators with a shift for each channel nothing. With
    asymmetric- before its name a recipe has zero points besides. For accelerators that shift all
    channels alike and round half up, `one-shift` has auto leave out rows-, and keeps zero points
    where no layer is lost by them, see `choose-zero-points`. `silu` says how SiLU is computed, see
    `set-silu`; `observer` how scales are found, see `observe-ranges`.

    `int16` and `float` name layers that keep more precision, see `set-precision`; with `mixed` some
    more are found by measuring, see `choose-precision`, which has `budget` and `target-sqnr`.
    """

    name = "quantize"

    calibration: str | None = None
    samples: int = 64
    seed: int = 0
    recipe: str = DEFAULT_RECIPE
    silu: Silu = "auto"
    one_shift: bool = False
    observer: ObserverName = "mse"
    mixed: Mixed | None = None
    budget: float | None = None
    target_sqnr: float | None = None
    int16: tuple[str, ...] = ()
    float: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.recipe not in (AUTO, *RECIPES):
            raise UsageError(
                f"option 'recipe' of pass '{self.name}' must be one of "
                f"{', '.join((AUTO, *RECIPES))}, got {self.recipe}"
            )
        self.passes()  # Refuses options out of range before anything runs.

    def passes(self) -> tuple[ModulePass, ...]:
        data = (self.calibration, self.samples)
        calibrate = CalibratePass(*data, self.seed, self.silu, self.observer)
        precision = SetPrecisionPass(self.int16, self.float)
        return (
            *prepare(),
            self._recipe(),
            *measure(calibrate, precision, one_shift=self.one_shift),
            *self._mixed(),
            *finish(*data),
        )

    def _mixed(self) -> tuple[ModulePass, ...]:
        if self.mixed is None:
            if self.budget is not None or self.target_sqnr is not None:
                raise UsageError("budget and target-sqnr bound mixed=auto, int16 or float: add it")
            if self.recipe != AUTO:
                return ()
            return (ChoosePrecisionPass("int16", self.calibration, FEW, when_chosen=True),)
        options = (self.calibration, self.budget, self.target_sqnr)
        return (ChoosePrecisionPass(self.mixed, *options),)

    def _recipe(self) -> ModulePass:
        if self.recipe == AUTO:
            mixed = self.mixed is None
            data, one_shift = (self.calibration, self.samples), self.one_shift
            return ChooseRecipePass(*data, self.silu, one_shift, mixed)
        return SetRecipePass(self.recipe)
