"""The pipeline `calibrate`: everything that `quantize` needs to know of the data."""

from dataclasses import dataclass

from xdsl.passes import ModulePass

from ceras_ir.transforms.pipeline import PipelinePass
from ceras_ir.transforms.quantization.analysis.observer_names import DEFAULT_OBSERVER, ObserverName
from ceras_ir.transforms.quantization.observe_ranges import ObserveRangesPass
from ceras_ir.transforms.quantization.set_functions import SetFunctionsPass, Silu

FORMS = ("split-activations", "silu")
"""Rules that make the values before lookup tables visible."""


@dataclass(frozen=True)
class CalibratePass(PipelinePass):
    """
    Record the range and exponent of every value of a float network, so that `quantize` can run
    again and again without data. Values before a lookup table are included.
    """

    name = "calibrate"

    calibration: str | None = None
    """`FILE.npz` with samples, see `observe-ranges`."""
    samples: int = 64
    """How many of them are used."""
    draw: int | None = None
    """Seed that chooses them; without it they lie at even distances in the data."""
    seed: int = 0
    """Seed of synthetic samples."""
    silu: Silu = "auto"
    """How SiLU is computed, see `set-functions`."""
    observer: ObserverName = DEFAULT_OBSERVER
    """How exponents are chosen, see `observe-ranges`."""

    def __post_init__(self) -> None:
        self.passes()  # Refuses options out of range before anything runs.

    def passes(self) -> tuple[ModulePass, ...]:
        return (
            SetFunctionsPass("integer", self.silu, self.calibration, rules=FORMS),
            ObserveRangesPass(self.calibration, self.samples, self.draw, self.seed, self.observer),
        )
