"""The pipeline `calibrate`: everything that `quantize` needs to know of the data."""

from dataclasses import dataclass

from xdsl.passes import ModulePass

from ceras_ir.transforms.graph.split_activation import SplitActivationPass
from ceras_ir.transforms.pipeline import PipelinePass
from ceras_ir.transforms.quantization.analysis.observer_names import ObserverName
from ceras_ir.transforms.quantization.choose_forms import ChooseFormsPass
from ceras_ir.transforms.quantization.equalize_channels import EqualizeChannelsPass
from ceras_ir.transforms.quantization.fit_functions import FitFunctionsPass
from ceras_ir.transforms.quantization.keep_heads_apart import KeepHeadsApartPass
from ceras_ir.transforms.quantization.observe_ranges import ObserveRangesPass
from ceras_ir.transforms.quantization.set_silu import SetSiluPass, Silu
from ceras_ir.transforms.quantization.unfuse_residual import UnfuseResidualPass


@dataclass(frozen=True)
class CalibratePass(PipelinePass):
    """
    Record the range and exponent of every value of a float network, values before a lookup
    table included, so that `quantize` can run again and again without data.

    Channels are equalized in between where the network's `graph.recipe` says so. The options are
    those of `observe-ranges`.
    """

    name = "calibrate"

    calibration: str | None = None
    samples: int = 64
    seed: int = 0
    silu: Silu = "auto"
    observer: ObserverName = "mse"

    def __post_init__(self) -> None:
        self.passes()  # Refuses options out of range before anything runs.

    def passes(self) -> tuple[ModulePass, ...]:
        return (
            UnfuseResidualPass(for_rows=True),
            SplitActivationPass(),
            SetSiluPass(self.silu, self.calibration),
            EqualizeChannelsPass(self.calibration, self.samples, when_chosen=True),
            ObserveRangesPass(self.calibration, self.samples, self.seed, self.observer),
            ChooseFormsPass(self.calibration, when_chosen=True),
            FitFunctionsPass(),
            KeepHeadsApartPass(),
        )
