"""Try recipes of quantization on the calibration data and keep the best."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from ceras_ir.network.function import main_function
from ceras_ir.network.quantizable import is_quantized
from ceras_ir.transforms.quantization.rewrites.recipes import (
    ASYMMETRIC,
    BIAS,
    LARGE,
    MIXED,
    RECIPE,
    RECIPES,
    TRIED,
    TRIED_ROWS,
    UNTRIED,
    set_recipe,
)
from ceras_ir.transforms.quantization.set_silu import LAYERS, SILU, Silu

if TYPE_CHECKING:
    from ceras_ir.transforms.quantization.analysis.output_noise import Array, Outputs

CALIBRATE, LEAST = 42, 4
"""On how many samples a trial is calibrated, at most and at least; half as many others judge."""

TRIAL = 4_000_000_000
"""About how many multiplications a trial's calibration may take in one pass over its samples."""

WORTHWHILE = 1.0
"""Decibels that are no chance."""

MEANS = 2.0
"""Decibels that correcting biases may cost: means move all samples alike, and their classes."""

GOOD, EXCELLENT = 20.0, 30.0
"""Decibels from which nothing is tried that costs time; no zero points either."""


class Candidate(NamedTuple):
    """What one trial quantizes with: a recipe and a form of functions."""

    recipe: str
    silu: Silu


@dataclass(frozen=True)
class ChooseRecipePass(ModulePass):
    """
    Quantize copies of a float network by each recipe that is worth trying, compare their
    outputs, before a softmax at the end, with the float network's on samples of
    `calibration=FILE.npz`, and write the one with the most signal to noise down as
    `graph.recipe`, which the optional passes of `quantize` obey. What was tried, and what it
    gave, is said on stderr.

    Where `silu` is auto and the network has functions that need tables, recipes are tried with
    tables on 16 bits; `graph.silu = "layers"` has `choose-forms` find those that need them.
    Recipes that correct biases are not tried on such networks: means are those of the many
    positions where nothing is; detectors lose what is at the few others, which no decibels show.
    On others they are preferred to the same without, unless they lose two decibels.
    Where all that gives less than 20 decibels, recipes are tried whose channels have shifts of
    their own, but with `one-shift`, for accelerators that would leave such layers to the CPU. Where
    there are less than 30, the best is tried with zero points. Both are finer in every layer, so
    that they are taken unless they lose a decibel: few samples know no better. Where all is less
    than 20, and `mixed` is not forbidden, `graph.mixed` has `choose-precision` find ten values for
    16 bits; accelerators leave their layers to the CPU.

    Trials calibrate on the first 42 samples, less of networks with more than 250 million
    multiplications or where there are fewer, and are judged on half as many that follow. From
    10^9 multiplications on nothing is tried: it is channels-rounding, and stderr says so. Without
    data nothing is done. Changes no value.
    """

    name = "choose-recipe"

    calibration: str | None = None
    samples: int = 64
    silu: Silu = "auto"
    one_shift: bool = False
    mixed: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if is_quantized(main) or self.calibration is None or RECIPE in main.attributes:
            return
        from ceras_ir.transforms.quantization.analysis.function_forms import has_sums
        from ceras_ir.transforms.quantization.analysis.sensitivity import multiplications

        curved = has_sums(main)
        free = self.silu == "auto" and has_sums(main, undecided=True)
        if multiplications(main) > LARGE:
            untried = Candidate(UNTRIED, "table16" if free else self.silu)
            _choose(main, untried, free=free)
            print(
                f"{self.name}: note: recipe {_name(untried, free)}, untried because of the "
                "network's size",
                file=sys.stderr,
            )
            return
        trials = self._trials(ctx, op)
        plain = Candidate(TRIED[0], "table" if free else self.silu)
        ratios: dict[Candidate, float] = {plain: trials.ratio(plain)}
        best = self._best(trials, ratios, "table16" if free else self.silu, curved)
        _choose(main, best, free=free)
        if self.mixed and ratios[best] < GOOD:
            main.attributes[MIXED] = UnitAttr()
        text = ", ".join(f"{_name(key, free)} {ratio:.1f} dB" for key, ratio in ratios.items())
        print(
            f"{self.name}: note: recipe {_name(best, free)}, {ratios[best] - ratios[plain]:.1f} dB "
            f"above {TRIED[0]} ({text} on {len(trials.judged)} samples)",
            file=sys.stderr,
        )

    def _best(
        self, trials: "_Trials", ratios: dict[Candidate, float], silu: Silu, curved: bool
    ) -> Candidate:
        """The best of all recipes, tried into `ratios`."""
        tried, tried_rows = (
            [recipe for recipe in recipes if not curved or BIAS not in RECIPES[recipe]]
            for recipes in (TRIED, TRIED_ROWS)
        )

        def best(recipes: Sequence[str]) -> Candidate:
            more = [Candidate(recipe, silu) for recipe in recipes]
            ratios.update((key, trials.ratio(key)) for key in more)
            return max(more, key=lambda key: ratios[key] + MEANS * (BIAS in RECIPES[key.recipe]))

        def finer(candidate: Candidate, than: Candidate) -> Candidate:
            return candidate if ratios[candidate] + WORTHWHILE > ratios[than] else than

        plain = next(iter(ratios))
        found = max(plain, best(tried[1:]), key=lambda key: ratios[key])
        if not self.one_shift and ratios[found] < GOOD:
            found = finer(best(tried_rows), found)
        if ratios[found] < EXCELLENT:
            found = finer(best([ASYMMETRIC + found.recipe]), found)
        return found

    def _trials(self, ctx: Context, op: ModuleOp) -> "_Trials":
        from ceras_ir.transforms.quantization.analysis.calibration import calibration_samples
        from ceras_ir.transforms.quantization.analysis.output_noise import (
            outputs_of,
            returning_scores,
        )
        from ceras_ir.transforms.quantization.analysis.sensitivity import multiplications

        assert self.calibration is not None
        count = TRIAL // max(multiplications(main_function(op)), 1)
        count = min(max(count, LEAST), CALIBRATE)
        limit = min(self.samples, count + count // 2)
        samples = list(calibration_samples(op, self.calibration, limit, "reading"))
        if len(samples) < LEAST + LEAST // 2:
            # Judging on what was calibrated on flatters; where there is little data it must do.
            calibrated, judged = len(samples), samples
        else:
            calibrated = min(count, len(samples) * 2 // 3)
            judged = samples[calibrated:]
        network = returning_scores(op)
        expected = outputs_of(network, judged)
        data, one_shift = (self.calibration, calibrated), self.one_shift
        return _Trials(ctx, network, *data, one_shift, judged, expected)


@dataclass(frozen=True)
class _Trials:
    """Quantizes copies of a network and judges them."""

    ctx: Context
    module: ModuleOp
    calibration: str
    samples: int
    one_shift: bool
    judged: "list[Mapping[str, Array]]"
    expected: "list[Outputs]"

    def ratio(self, candidate: Candidate) -> float:
        """Signal to noise of all outputs, each with the same weight, after one recipe."""
        from ceras_ir.transforms.quantization.analysis.output_noise import outputs_of, ratio_of
        from ceras_ir.transforms.quantization.calibrate import CalibratePass
        from ceras_ir.transforms.quantization.set_precision import SetPrecisionPass
        from ceras_ir.transforms.quantization.set_recipe import SetRecipePass
        from ceras_ir.transforms.quantization.trials.steps import finish, measure, prepare

        module, (recipe, silu) = self.module.clone(), candidate
        calibrate = CalibratePass(self.calibration, self.samples, silu=silu)
        measuring = measure(calibrate, SetPrecisionPass(), one_shift=self.one_shift)
        finishing = finish(self.calibration, self.samples)
        for step in (*prepare(), SetRecipePass(recipe), *measuring, *finishing):
            step.apply(self.ctx, module)
        return ratio_of(self.expected, outputs_of(module, self.judged))


def _choose(main: FuncOp, candidate: Candidate, *, free: bool) -> None:
    recipe, silu = candidate
    set_recipe(main, recipe)
    main.attributes.pop(SILU, None)
    if silu == "table16":
        main.attributes[SILU] = StringAttr(LAYERS if free else silu)


def _name(candidate: Candidate, free: bool) -> str:
    recipe, silu = candidate
    return f"{recipe} with {silu}" if free and recipe != TRIED[0] else recipe
