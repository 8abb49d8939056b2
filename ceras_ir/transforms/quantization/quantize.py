"""The pipeline `quantize`: from a float network to integers."""

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from xdsl.passes import ModulePass

from ceras_ir.targets.protocol import Arithmetic
from ceras_ir.targets.registry import configured, find_target
from ceras_ir.transforms.pipeline import PipelinePass
from ceras_ir.transforms.quantization.align_scales import AlignScalesPass
from ceras_ir.transforms.quantization.analysis.observer_names import DEFAULT_OBSERVER, ObserverName
from ceras_ir.transforms.quantization.check_outputs import CheckOutputsPass
from ceras_ir.transforms.quantization.check_scales import CheckScalesPass
from ceras_ir.transforms.quantization.choose_precision import ChoosePrecisionPass
from ceras_ir.transforms.quantization.choose_row_exponents import ChooseRowExponentsPass
from ceras_ir.transforms.quantization.choose_weight_exponents import ChooseWeightExponentsPass
from ceras_ir.transforms.quantization.choose_zero_points import ChooseZeroPointsPass
from ceras_ir.transforms.quantization.equalize_channels import EqualizeChannelsPass
from ceras_ir.transforms.quantization.fit_functions import FitFunctionsPass
from ceras_ir.transforms.quantization.fit_inputs import FitInputsPass
from ceras_ir.transforms.quantization.fold_qdq import FoldQdqPass
from ceras_ir.transforms.quantization.keep_in_float import INSIDE, KeepInFloatPass
from ceras_ir.transforms.quantization.level_rows import LevelRowsPass
from ceras_ir.transforms.quantization.observe_ranges import ObserveRangesPass
from ceras_ir.transforms.quantization.prove_accumulators import ProveAccumulatorsPass
from ceras_ir.transforms.quantization.quantize_graph import QuantizeGraphPass
from ceras_ir.transforms.quantization.recipe import (
    OPTIONAL,
    PRECISION,
    REMOVED_OPTIONS,
    ROWS,
    check_recipe,
    default_recipe,
)
from ceras_ir.transforms.quantization.round_weights import RoundWeightsPass
from ceras_ir.transforms.quantization.set_functions import Rows, SetFunctionsPass, Silu
from ceras_ir.transforms.quantization.set_precision import SetPrecisionPass
from ceras_ir.transforms.quantization.split_residual import SplitResidualPass
from ceras_ir.transforms.quantization.split_wide import SplitWidePass
from ceras_ir.transforms.quantization.tabulate_pixels import TabulatePixelsPass
from ceras_ir.transforms.quantization.unfuse_residual import UnfuseResidualPass

Tail: TypeAlias = Literal["float", "int8"]
"""What follows the last sum of products is computed in."""


@dataclass(frozen=True)
class QuantizePass(PipelinePass):
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

    calibration: str | None = None
    """
    `FILE.npz` with samples; without it ranges come from the IR, else from synthetic samples; see
    `observe-ranges`.
    """
    samples: int = 64
    """How many of them are used."""
    draw: int | None = None
    """Seed that chooses them; without it they lie at even distances in the data."""
    seed: int = 0
    """Seed of synthetic samples."""
    target: str | None = None
    """The target whose arithmetic decides the optional passes and the forms of functions."""
    board: str | None = None
    """Its board."""
    recipe: tuple[str, ...] = ()
    """
    The optional passes that run, of fit-inputs, equalize-channels, choose-zero-points,
    choose-precision, choose-row-exponents and round-weights, or none; without it all, but
    choose-row-exponents only if `target` shifts each channel by itself.
    """
    silu: Silu = "auto"
    """How SiLU is computed, see `set-functions`."""
    rows: Rows = "auto"
    """How softmax and normalization are computed, see `set-functions`."""
    observer: ObserverName = DEFAULT_OBSERVER
    """How exponents are chosen, see `observe-ranges`."""
    budget: float | None = None
    """The time that 16 bits may take, see `choose-precision`."""
    int16: tuple[str, ...] = ()
    """Layers stored in 16 bits, see `set-precision`."""
    float: tuple[str, ...] = ()
    """Layers computed in float, see `set-precision`."""
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
        data, optional = (self.calibration, self.samples, self.draw), self.optional
        rows, narrow = ROWS in optional, self._arithmetic.narrow
        spread = self._arithmetic.residual_spread
        splits = narrow and PRECISION in optional and self.budget != 0
        kept = () if self.tail == "float" else INSIDE
        everything = (
            # A network with Q/DQ; a float network is unchanged.
            FoldQdqPass(spread),
            # The operations that are computed in integers, and their forms.
            SetFunctionsPass(self._rows, self.silu, self.calibration, *self._offering()),
            KeepInFloatPass(self.int16, rules=kept),
            # Scales of activations.
            FitInputsPass(*data),
            EqualizeChannelsPass(*data, rows=rows, inputs=self.tail == "float"),
            *([SplitResidualPass(spread)] if rows else []),
            *([LevelRowsPass(spread)] if rows and splits and self.tail == "float" else []),
            ObserveRangesPass(*data, self.seed, self.observer),
            FitFunctionsPass(),
            SetPrecisionPass(self.int16, self.float),
            ChooseZeroPointsPass(
                not self._arithmetic.half_even, not self._arithmetic.factor_points
            ),
            ChoosePrecisionPass(
                *data,
                self.budget,
                narrow=narrow,
                residual_spread=spread,
                narrow_border=self.tail == "int8",
            ),
            # Scales of weights, and scales that must agree.
            ChooseRowExponentsPass(spread),
            ChooseWeightExponentsPass(),
            AlignScalesPass(),
            CheckOutputsPass(*data),
            UnfuseResidualPass(),
            RoundWeightsPass(*data),
            QuantizeGraphPass(),
            *([SplitWidePass(spread)] if narrow else []),
            TabulatePixelsPass(),
            CheckScalesPass(),
            ProveAccumulatorsPass(),
        )
        return tuple(p for p in everything if p.name not in OPTIONAL or p.name in optional)

    def _offering(self) -> tuple[str | None, str | None]:
        """The target, and its board, if it has a say in how functions are computed."""
        if self.target is None or configured(self.target, self.board).form_offer() is None:
            return None, None
        return self.target, self.board
