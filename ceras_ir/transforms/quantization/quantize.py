"""
Define the pipelines `calibrate` and `quantize`.

`calibrate` records all facts about the data that `quantize` needs. `quantize` converts a float
network to integers.
"""

from collections.abc import Iterator
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
from ceras_ir.transforms.quantization.keep_in_float import INTEGER_BORDER_RULES, KeepInFloatPass
from ceras_ir.transforms.quantization.observe_ranges import ObserveRangesPass
from ceras_ir.transforms.quantization.quantize_graph import QuantizeGraphPass
from ceras_ir.transforms.quantization.residuals import SplitResidualPass, UnfuseResidualPass
from ceras_ir.transforms.quantization.round_weights import RoundWeightsPass
from ceras_ir.transforms.quantization.scales import (
    OCTAVE_PARTS,
    AlignScalesPass,
    ChooseRowExponentsPass,
    ChooseWeightExponentsPass,
    ChooseZeroPointsPass,
)
from ceras_ir.transforms.quantization.set_activation_bits import SetActivationBitsPass
from ceras_ir.transforms.quantization.set_precision import (
    FitFunctionsPass,
    SetFunctionsPass,
    SetPrecisionPass,
)
from ceras_ir.transforms.quantization.set_weight_bits import SetWeightBitsPass
from ceras_ir.transforms.quantization.split_wide import SplitWidePass
from ceras_ir.transforms.quantization.tabulate_pixels import TabulatePixelsPass
from ceras_ir.transforms.quantization.widen_weights import KeepWeightsPass
from ceras_ir.transforms.quantization_options import (
    CHOOSE_PRECISION,
    CHOOSE_ROW_EXPONENTS,
    MIN_BITS,
    OPTIONAL_PASSES,
    REMOVED_OPTIONS,
    ROUND_WEIGHTS,
    ArithmeticOptions,
    ObserverOptions,
    QuantizationOptions,
    SampleOptions,
    SiluOptions,
    check_recipe,
    default_recipe,
)

CALIBRATION_FORMS = ("split-activations", "silu")
"""The rules that create the values before lookup tables."""


@dataclass(frozen=True)
class CalibratePass(ObserverOptions, SiluOptions, SampleOptions, PipelinePass):
    """
    Record the range and exponent of each value of a float network, including values before a lookup
    table. `quantize` can then run repeatedly without data.
    """

    name = "calibrate"

    def __post_init__(self) -> None:
        self.passes()  # Refuses options out of range before anything runs.

    def passes(self) -> tuple[ModulePass, ...]:
        return (
            with_options_of(SetFunctionsPass, self, rules=CALIBRATION_FORMS),
            with_options_of(ObserveRangesPass, self),
        )


Tail: TypeAlias = Literal["float", "int8"]
"""The arithmetic of operations after the last layer."""


@dataclass(frozen=True)
class QuantizePass(ArithmeticOptions, QuantizationOptions, PipelinePass):
    """
    Quantize a network.

    1. A network with Q/DQ keeps its scales and zero points. They are folded into integer operations
       with multipliers and shifts.
    2. A float network becomes int8 with power-of-two scales and 32-bit biases. Operations after the
       last layer remain float unless `tail` is int8.
    3. A quantized network is left unchanged.

    The pass does not compare recipes on data.

    Before:

        func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
          %w = graph.constant dense<[[0.5, 0.25]]> : tensor<1x2xf32> : tensor<1x2xf32>
          %y = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
          func.return %y : tensor<1x1xf32>
        }

    After:

        func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32>
            attributes {graph.requantizations = {before = 0 : i64, after = 0 : i64}} {
          %q = graph.quantize %x : (tensor<1x2xf32>)
              -> tensor<1x2x!quant.uniform<i8:f32, 0.00390625:-128>>
          %w = graph.constant dense<[[64, 32]]> : tensor<1x2xi8>
              : tensor<1x2x!quant.uniform<i8:f32, 0.0078125>>
          %a = graph.matmul %q, %w {requant = #graph.requant<shift = 7, rounding = half_up,
              zero_point = -128, low = -128, high = 127>}
              : (tensor<1x2x!quant.uniform<i8:f32, 0.00390625:-128>>,
                 tensor<1x2x!quant.uniform<i8:f32, 0.0078125>>)
              -> tensor<1x1x!quant.uniform<i8:f32, 0.00390625:-128>>
          %y = graph.dequantize %a : (tensor<1x1x!quant.uniform<i8:f32, 0.00390625:-128>>)
              -> tensor<1x1xf32>
          func.return %y : tensor<1x1xf32>
        }
    """

    name = "quantize"
    removed_options: ClassVar = REMOVED_OPTIONS

    tail: Tail = "float"
    """The arithmetic of operations after the last layer, see `keep-in-float`."""

    def __post_init__(self) -> None:
        check_recipe(self.recipe, f"option 'recipe' of pass '{self.name}'")
        self.passes()  # Refuses options out of range before anything runs.

    @property
    def optional(self) -> tuple[str, ...]:
        """
        The names of the optional passes that run: the recipe that the user gives, or the default
        for the target.
        """
        return self.recipe or default_recipe(channel_shifts=self._arithmetic.channel_shifts)

    @property
    def _arithmetic(self) -> Arithmetic:
        return Arithmetic() if self.target is None else find_target(self.target).arithmetic

    @property
    def _has_factors(self) -> bool:
        """Whether scales of narrow weights need not be powers of two."""
        return self._arithmetic.multipliers and not self._arithmetic.narrow

    @property
    def _rows(self) -> Literal["integer", "float"]:
        if self.rows != "auto":
            return self.rows
        return "integer" if self._arithmetic.rows else "float"

    def passes(self) -> tuple[ModulePass, ...]:
        optional = self.optional
        rows, narrow = CHOOSE_ROW_EXPONENTS in optional, self._arithmetic.narrow
        spread = self._arithmetic.residual_spread
        budget = self._arithmetic.wide_share if self.budget is None else self.budget
        splits = narrow and CHOOSE_PRECISION in optional and budget != 0
        kept = () if self.tail == "float" else INTEGER_BORDER_RULES
        everything = (
            # A network with Q/DQ; a float network is unchanged.
            FoldQdqPass(
                spread,
                thresholds=self._arithmetic.thresholds,
                even=self._arithmetic.even_shifts,
            ),
            # The operations that are computed in integers, and their forms.
            with_options_of(
                SetFunctionsPass, self, rows=self._rows, narrow=narrow, **self._offering()
            ),
            KeepInFloatPass(self.int16, rules=kept),
            *self._activation_bits(),
            *self._weight_bits(),
            KeepWeightsPass(self._arithmetic.channel_shifts, self._has_factors),
            # Scales of activations.
            with_options_of(FitInputsPass, self),
            with_options_of(EqualizeChannelsPass, self, rows=rows, inputs=self.tail == "float"),
            *([SplitResidualPass(spread)] if rows else []),
            *([LevelRowsPass(spread)] if rows and splits and self.tail == "float" else []),
            with_options_of(ObserveRangesPass, self, keeps=ROUND_WEIGHTS in optional),
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
                budget=budget,
            ),
            # Scales of weights, and scales that must be equal.
            ChooseRowExponentsPass(
                spread,
                costly=self._arithmetic.costly_channel_shifts,
                factors=self._has_factors,
            ),
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
        return tuple(p for p in everything if p.name not in OPTIONAL_PASSES or p.name in optional)

    def _activation_bits(self) -> Iterator[ModulePass]:
        """Yield the pass that sets the widths of activations, if it is requested."""
        if self.activation_bits:
            yield with_options_of(SetActivationBitsPass, self)

    def _weight_bits(self) -> Iterator[ModulePass]:
        """Yield the pass that chooses the widths of weights, if it is requested."""
        if self.weight_bits or self.weight_bytes is not None:
            stored = [w for w in self._arithmetic.weight_widths if w >= MIN_BITS]
            parts = OCTAVE_PARTS if self._has_factors else 1
            yield with_options_of(
                SetWeightBitsPass, self, widths=tuple(sorted(stored)), octave_parts=parts
            )

    def _offering(self) -> dict[str, str | None]:
        """
        Return values for the options `target` and `board` of the pass that chooses forms of
        functions: empty (the values of this pass apply), or `None` for both if the target has no
        preferred forms.
        """
        if self.target is None or configured(self.target, self.board).form_offer() is None:
            return {"target": None, "board": None}
        return {}
