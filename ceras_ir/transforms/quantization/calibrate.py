"""The pipeline `calibrate`: everything that `quantize` needs to know of the data."""

from dataclasses import dataclass

from xdsl.passes import ModulePass

from ceras_ir.support.options import with_options_of
from ceras_ir.transforms.pipeline import PipelinePass
from ceras_ir.transforms.quantization.observe_ranges import ObserveRangesPass
from ceras_ir.transforms.quantization.options import (
    ObserverOptions,
    SampleOptions,
    SiluOptions,
)
from ceras_ir.transforms.quantization.set_functions import SetFunctionsPass

FORMS = ("split-activations", "silu")
"""Rules that make the values before lookup tables visible."""


@dataclass(frozen=True)
class CalibratePass(ObserverOptions, SiluOptions, SampleOptions, PipelinePass):
    """
    Record the range and exponent of every value of a float network, so that `quantize` can run
    again and again without data. Values before a lookup table are included.
    """

    name = "calibrate"

    def __post_init__(self) -> None:
        self.passes()  # Refuses options out of range before anything runs.

    def passes(self) -> tuple[ModulePass, ...]:
        return (
            with_options_of(SetFunctionsPass, self, rules=FORMS),
            with_options_of(ObserveRangesPass, self),
        )
