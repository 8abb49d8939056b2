"""Try recipes of quantization on the calibration data and keep the best."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import Float32Type, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from ceras_ir.analysis.network import main_function
from ceras_ir.analysis.precision import WIDE, set_width
from ceras_ir.analysis.quantizable import is_quantized
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import tensor_type
from ceras_ir.transforms.recipes import (
    BIAS,
    LARGE,
    RECIPE,
    RECIPES,
    TRIED,
    TRIED_ROWS,
    UNTRIED,
    set_recipe,
)
from ceras_ir.transforms.set_silu import SILU, Silu

if TYPE_CHECKING:
    from ceras_ir.analysis.output_noise import Array, Outputs

CALIBRATE, LEAST = 16, 4
"""On how many samples a trial is calibrated, at most and at least; half as many others judge."""

TRIAL = 4_000_000_000
"""About how many multiplications a trial's calibration may take in one pass over its samples."""

WORTHWHILE = 1.0
"""Decibels from which tables on 16 bits are worth their memory."""

GOOD = 20.0
"""Decibels from which multipliers for channels are not tried: accelerators cannot take them."""

START = 2
"""How many of the first layers are tried in 16 bits, with the inputs."""

Candidate: TypeAlias = tuple[str, Silu, bool]
"""Recipe, form of functions, and whether inputs and first layers have 16 bits."""


@dataclass(frozen=True)
class ChooseRecipePass(ModulePass):
    """
    Quantize copies of a float network by each recipe that is worth trying, compare their
    outputs, before a softmax at the end, with the float network's on samples of
    `calibration=FILE.npz`, and write the one with the most signal to noise down as
    `graph.recipe`, which the optional passes of `quantize` obey. What was tried, and what it
    gave, is said on stderr.

    Where `silu` is auto and the network has functions that need tables, recipes are tried with
    tables on 16 bits; `graph.silu = "table16"` is written where that gains a decibel over int8,
    or where there are less than 20.
    Recipes that correct biases are not tried on such networks: means are those of the many
    positions where nothing is; detectors lose what is at the few others, which no decibels show.
    Where all that gives less than 20 decibels, recipes are tried whose channels have multipliers,
    and taken where they gain anything; not with `one-shift`, for targets that would leave
    such layers to the CPU.

    On networks with such functions, inputs and the results of the first two layers are then
    tried in 16 bits, which gets `graph.precision` where it gains half a decibel.

    Trials calibrate on the first 16 samples, less of networks with more than 250 million
    multiplications or where there are fewer, and are judged on half as many that follow. From
    10^9 multiplications on nothing is tried: it is channels-rounding, with tables of int8, which
    take a fifth less of a host's time, and stderr says so. Without data nothing is done. Changes
    no value.
    """

    name = "choose-recipe"

    calibration: str | None = None
    samples: int = 64
    silu: Silu = "auto"
    one_shift: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if is_quantized(main) or self.calibration is None or RECIPE in main.attributes:
            return
        from ceras_ir.analysis.function_forms import has_sums
        from ceras_ir.analysis.sensitivity import multiplications

        curved = has_sums(main)
        free = self.silu == "auto" and curved
        if multiplications(main) > LARGE:
            untried: Candidate = (UNTRIED, "table" if free else self.silu, False)
            _choose(main, untried)
            print(
                f"{self.name}: note: recipe {_name(untried, free)}, untried because of the "
                "network's size",
                file=sys.stderr,
            )
            return
        trials = self._trials(ctx, op)
        plain: Candidate = (TRIED[0], "table" if free else self.silu, False)
        ratios: dict[Candidate, float] = {plain: trials.ratio(plain)}
        best = self._best(trials, ratios, "table16" if free else self.silu, curved)
        if free and best != plain and ratios[best] >= GOOD:
            narrow: Candidate = (best[0], "table", False)
            ratios[narrow] = trials.ratio(narrow)
            best = narrow if ratios[narrow] + WORTHWHILE > ratios[best] else best
        if curved and not self.one_shift and ratios[best] < GOOD:
            wide: Candidate = (best[0], best[1], True)
            ratios[wide] = trials.ratio(wide)
            best = wide if ratios[wide] > ratios[best] + WORTHWHILE / 2 else best
        _choose(main, best)
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
        first: list[Candidate] = [(recipe, silu, False) for recipe in tried[1:]]
        ratios |= {key: trials.ratio(key) for key in first}
        best = max(ratios, key=lambda key: ratios[key])
        if self.one_shift or ratios[best] > GOOD:
            return best
        rows: list[Candidate] = [(recipe, silu, False) for recipe in tried_rows]
        ratios |= {key: trials.ratio(key) for key in rows}
        other = max(rows, key=lambda key: ratios[key])
        return max(best, other, key=lambda key: ratios[key])

    def _trials(self, ctx: Context, op: ModuleOp) -> "_Trials":
        from ceras_ir.analysis.calibration import calibration_samples
        from ceras_ir.analysis.output_noise import outputs_of
        from ceras_ir.analysis.sensitivity import multiplications

        assert self.calibration is not None
        count = TRIAL // max(multiplications(main_function(op)), 1)
        count = min(max(count, LEAST), CALIBRATE)
        limit = min(self.samples, count + count // 2)
        samples = list(calibration_samples(op, self.calibration, limit, "reading"))
        # Judging on what was calibrated on flatters; where there is little data it must do.
        judged = samples[count:] or samples[-(count // 2) :]
        calibrated = min(count, self.samples)
        network = _without_last_softmax(op)
        expected = outputs_of(network, judged)
        return _Trials(ctx, network, self.calibration, calibrated, judged, expected)


@dataclass(frozen=True)
class _Trials:
    """Quantizes copies of a network and judges them."""

    ctx: Context
    module: ModuleOp
    calibration: str
    samples: int
    judged: "list[Mapping[str, Array]]"
    expected: "list[Outputs]"

    def ratio(self, candidate: Candidate) -> float:
        """Signal to noise of all outputs, each with the same weight, after one recipe."""
        from ceras_ir.analysis.output_noise import outputs_of, ratio_of
        from ceras_ir.transforms.quantize import QuantizePass

        module, (recipe, silu, wide) = self.module.clone(), candidate
        if wide:
            widen_start(main_function(module))
        quantize = QuantizePass(self.calibration, self.samples, recipe=recipe, silu=silu)
        quantize.apply(self.ctx, module)
        return ratio_of(self.expected, outputs_of(module, self.judged))


def _without_last_softmax(op: ModuleOp) -> ModuleOp:
    """A copy that returns scores instead: probabilities near 0 and 1 forgive any error."""
    network = op.clone()
    end = main_function(network).body.block.last_op
    assert end is not None
    for i, value in enumerate(end.operands):
        if isinstance(value.owner, graph.SoftmaxOp):
            end.operands[i] = value.owner.input
    return network


def widen_start(main: FuncOp) -> None:
    """Have inputs and the results of the first layers stored in 16 bits."""
    for value in main.body.block.args:
        if isinstance(tensor_type(value).element_type, Float32Type):
            set_width(value, WIDE)
    layers = [op for op in main.body.block.ops if isinstance(op, graph.LinearOperation)]
    for op in layers[:START]:
        set_width(op.result, WIDE)


def _choose(main: FuncOp, candidate: Candidate) -> None:
    recipe, silu, wide = candidate
    set_recipe(main, recipe)
    main.attributes.pop(SILU, None)
    if silu == "table16":
        main.attributes[SILU] = StringAttr(silu)
    if wide:
        widen_start(main)


def _name(candidate: Candidate, free: bool) -> str:
    recipe, silu, wide = candidate
    name = f"{recipe} with {silu}" if free and recipe != TRIED[0] else recipe
    return f"{name} and its start in 16 bits" if wide else name
