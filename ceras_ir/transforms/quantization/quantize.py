"""
The pipelines `calibrate`, everything that `quantize` needs to know of the data, and `quantize`,
from a float network to integers.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from xdsl.passes import ModulePass

from ceras_ir.support.options import with_options_of
from ceras_ir.targets.protocol import Arithmetic
from ceras_ir.targets.registry import configured, find_target
from ceras_ir.transforms.pass_kinds import PipelinePass
from ceras_ir.transforms.quantization.accumulators import ProveAccumulatorsPass
from ceras_ir.transforms.quantization.channel_scales import EqualizeChannelsPass, LevelRowsPass
from ceras_ir.transforms.quantization.checks import CheckOutputsPass, CheckScalesPass
from ceras_ir.transforms.quantization.choose_precision import ChoosePrecisionPass
from ceras_ir.transforms.quantization.fit_inputs import FitInputsPass
from ceras_ir.transforms.quantization.fold_qdq import FoldQdqPass
from ceras_ir.transforms.quantization.keep_in_float import INSIDE, KeepInFloatPass
from ceras_ir.transforms.quantization.observe_ranges import ObserveRangesPass
from ceras_ir.transforms.quantization.quantize_graph import QuantizeGraphPass
from ceras_ir.transforms.quantization.residuals import SplitResidualPass, UnfuseResidualPass
from ceras_ir.transforms.quantization.round_weights import RoundWeightsPass
from ceras_ir.transforms.quantization.scales import (
    AlignScalesPass,
    ChooseRowExponentsPass,
    ChooseWeightExponentsPass,
    ChooseZeroPointsPass,
)
from ceras_ir.transforms.quantization.set_functions import FitFunctionsPass, SetFunctionsPass
from ceras_ir.transforms.quantization.set_precision import SetPrecisionPass
from ceras_ir.transforms.quantization.split_wide import SplitWidePass
from ceras_ir.transforms.quantization.tabulate_pixels import TabulatePixelsPass
from ceras_ir.transforms.quantization_options import (
    OPTIONAL,
    PRECISION,
    REMOVED_OPTIONS,
    ROWS,
    ArithmeticOptions,
    ObserverOptions,
    QuantizationOptions,
    SampleOptions,
    SiluOptions,
    check_recipe,
    default_recipe,
)

# The pipeline `calibrate`: everything that `quantize` needs to know of the data.

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


# The pipeline `quantize`: from a float network to integers.

Tail: TypeAlias = Literal["float", "int8"]
"""What follows the last sum of products is computed in."""


@dataclass(frozen=True)
class QuantizePass(ArithmeticOptions, QuantizationOptions, PipelinePass):
    """
    Quantize a network.

    1. A network that comes with Q/DQ keeps its scales and zero points. They are folded into integer
       operations with multipliers and shifts.
    2. A float network becomes int8 with power-of-two scales and 32-bit biases. Operations behind
       its last sum of products stay float unless `tail` is int8.
    3. A quantized network stays as it is.

    No recipe is tried on the data.
    """

    name = "quantize"
    removed_options: ClassVar = REMOVED_OPTIONS

    tail: Tail = "float"
    """How operations behind the last sum of products are computed, see `keep-in-float`."""

    def __post_init__(self) -> None:
        check_recipe(self.recipe, f"option 'recipe' of pass '{self.name}'")
        self.passes()  # Refuses options out of range before anything runs.

    @property
    def optional(self) -> tuple[str, ...]:
        """The optional passes that run."""
        return self.recipe or default_recipe(channel_shifts=self._arithmetic.channel_shifts)

    @property
    def _arithmetic(self) -> Arithmetic:
        return Arithmetic() if self.target is None else find_target(self.target).arithmetic

    @property
    def _rows(self) -> Literal["integer", "float"]:
        if self.rows != "auto":
            return self.rows
        return "integer" if self._arithmetic.rows else "float"

    def passes(self) -> tuple[ModulePass, ...]:
        optional = self.optional
        rows, narrow = ROWS in optional, self._arithmetic.narrow
        spread = self._arithmetic.residual_spread
        splits = narrow and PRECISION in optional and self.budget != 0
        kept = () if self.tail == "float" else INSIDE
        everything = (
            # A network with Q/DQ; a float network is unchanged.
            FoldQdqPass(spread),
            # The operations that are computed in integers, and their forms.
            with_options_of(SetFunctionsPass, self, rows=self._rows, **self._offering()),
            KeepInFloatPass(self.int16, rules=kept),
            # Scales of activations.
            with_options_of(FitInputsPass, self),
            with_options_of(EqualizeChannelsPass, self, rows=rows, inputs=self.tail == "float"),
            *([SplitResidualPass(spread)] if rows else []),
            *([LevelRowsPass(spread)] if rows and splits and self.tail == "float" else []),
            with_options_of(ObserveRangesPass, self),
            FitFunctionsPass(),
            with_options_of(SetPrecisionPass, self),
            ChooseZeroPointsPass(
                not self._arithmetic.half_even, not self._arithmetic.factor_points
            ),
            with_options_of(
                ChoosePrecisionPass,
                self,
                narrow=narrow,
                residual_spread=spread,
                narrow_border=self.tail == "int8",
            ),
            # Scales of weights, and scales that must agree.
            ChooseRowExponentsPass(spread),
            ChooseWeightExponentsPass(),
            AlignScalesPass(),
            with_options_of(CheckOutputsPass, self),
            UnfuseResidualPass(),
            with_options_of(RoundWeightsPass, self),
            QuantizeGraphPass(),
            *([SplitWidePass(spread)] if narrow else []),
            TabulatePixelsPass(),
            CheckScalesPass(),
            ProveAccumulatorsPass(),
        )
        return tuple(p for p in everything if p.name not in OPTIONAL or p.name in optional)

    def _offering(self) -> dict[str, str | None]:
        """The target, with its board, unless it does not decide how functions are computed."""
        if self.target is None or configured(self.target, self.board).form_offer() is None:
            return {"target": None, "board": None}
        return {}
