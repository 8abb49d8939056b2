"""Try recipes of quantization on the calibration data and keep the best."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from ceras_ir.analysis.network import main_function
from ceras_ir.analysis.quantizable import is_quantized
from ceras_ir.dialects import graph
from ceras_ir.transforms.recipes import RECIPE, TRIED, TRIED_LARGE, TRIED_ROWS, set_recipe
from ceras_ir.transforms.set_silu import SILU, Silu

if TYPE_CHECKING:
    from ceras_ir.analysis.output_noise import Array, Outputs

CALIBRATE, JUDGE = 16, 8
"""On how many samples a trial is calibrated, and on how many others it is judged, at most."""

LARGE, CALIBRATE_LARGE, JUDGE_LARGE = 1_000_000_000, 4, 2
"""From how many multiplications per inference there are fewer, and how many."""

LARGEST = 20_000_000_000
"""Multiplications per inference from which trials would take minutes all the same."""

WORTHWHILE = 1.0
"""Decibels from which tables on 16 bits are worth their memory."""

GOOD = 20.0
"""Decibels from which multipliers for channels are not tried: accelerators cannot take them."""

Candidate: TypeAlias = tuple[str, Silu]


@dataclass(frozen=True)
class ChooseRecipePass(ModulePass):
    """
    Quantize copies of a float network by each recipe that is worth trying, compare their
    outputs, before a softmax at the end, with the float network's on samples of
    `calibration=FILE.npz`, and write the one with the most signal to noise down as
    `graph.recipe`, which the optional passes of `quantize` obey. What was tried, and what it
    gave, is said on stderr.

    Where `silu` is auto and the network has functions that need tables, recipes are tried with
    tables on 16 bits; `graph.silu = "table16"` is written where that gains a decibel over int8.
    Where all that gives less than 20 decibels, recipes are tried whose channels have multipliers,
    and taken where they gain a decibel; not with `one-shift`, for targets that would leave
    such layers to the CPU.

    Trials calibrate on the first 16 samples and are judged on the 8 that follow, less where
    there are fewer. From 10^9 multiplications on it is 4 and 2 samples, and the recipes are
    those that need one pass over the data; from 2 x 10^10 on the last of these is taken untried,
    which stderr says. Without data nothing is done. Changes no value.
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

        free = self.silu == "auto" and has_sums(main)
        if _multiplications(main) > LARGEST:
            _choose(main, (TRIED_LARGE[-1], "table16" if free else self.silu))
            print(
                f"{self.name}: note: no recipes are tried on a network of this size; recipe "
                f"{TRIED_LARGE[-1]} is taken untried; {TRIED[-1]} takes minutes and may be better",
                file=sys.stderr,
            )
            return
        trials = self._trials(ctx, op)
        plain: Candidate = (TRIED[0], "table" if free else self.silu)
        ratios = {plain: trials.ratio(plain)}
        best = self._best(trials, ratios, "table16" if free else self.silu)
        if free and best != plain:
            narrow: Candidate = (best[0], "table")
            ratios[narrow] = trials.ratio(narrow)
            best = narrow if ratios[narrow] + WORTHWHILE > ratios[best] else best
        _choose(main, best)
        text = ", ".join(f"{_name(key, free)} {ratio:.1f} dB" for key, ratio in ratios.items())
        print(
            f"{self.name}: note: recipe {_name(best, free)}, {ratios[best] - ratios[plain]:.1f} dB "
            f"above {TRIED[0]} ({text} on {len(trials.judged)} samples)",
            file=sys.stderr,
        )

    def _best(self, trials: "_Trials", ratios: dict[Candidate, float], silu: Silu) -> Candidate:
        """The best of all recipes, tried into `ratios`."""
        tried = TRIED_LARGE if trials.large else TRIED
        ratios |= {(recipe, silu): trials.ratio((recipe, silu)) for recipe in tried[1:]}
        best = max(ratios, key=lambda key: ratios[key])
        if trials.large or self.one_shift or ratios[best] > GOOD:
            return best
        rows: list[Candidate] = [(recipe, silu) for recipe in TRIED_ROWS]
        ratios |= {key: trials.ratio(key) for key in rows}
        other = max(rows, key=lambda key: ratios[key])
        return other if ratios[other] > ratios[best] + WORTHWHILE else best

    def _trials(self, ctx: Context, op: ModuleOp) -> "_Trials":
        from ceras_ir.analysis.calibration import calibration_samples
        from ceras_ir.analysis.output_noise import outputs_of

        assert self.calibration is not None
        large = _multiplications(main_function(op)) > LARGE
        count, judge = (CALIBRATE_LARGE, JUDGE_LARGE) if large else (CALIBRATE, JUDGE)
        limit = min(self.samples, count + judge)
        samples = list(calibration_samples(op, self.calibration, limit, "reading"))
        # Judging on what was calibrated on flatters; where there is little data it must do.
        judged = samples[count:] or samples[-judge:]
        calibrated = min(count, self.samples)
        network = _without_last_softmax(op)
        expected = outputs_of(network, judged)
        return _Trials(ctx, network, self.calibration, calibrated, large, judged, expected)


@dataclass(frozen=True)
class _Trials:
    """Quantizes copies of a network and judges them."""

    ctx: Context
    module: ModuleOp
    calibration: str
    samples: int
    large: bool
    judged: "list[Mapping[str, Array]]"
    expected: "list[Outputs]"

    def ratio(self, candidate: Candidate) -> float:
        """Signal to noise of all outputs, each with the same weight, after one recipe."""
        from ceras_ir.analysis.output_noise import outputs_of, ratio_of
        from ceras_ir.transforms.quantize import QuantizePass

        module, (recipe, silu) = self.module.clone(), candidate
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


def _choose(main: FuncOp, candidate: Candidate) -> None:
    recipe, silu = candidate
    set_recipe(main, recipe)
    main.attributes.pop(SILU, None)
    if silu == "table16":
        main.attributes[SILU] = StringAttr(silu)


def _name(candidate: Candidate, free: bool) -> str:
    recipe, silu = candidate
    return f"{recipe} with {silu}" if free and recipe != TRIED[0] else recipe


def _multiplications(main: FuncOp) -> int:
    return sum(op.macs for op in main.body.block.ops if isinstance(op, graph.LinearOperation))
