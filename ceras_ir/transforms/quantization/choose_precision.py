"""Find the few layers that need more than int8, by measuring what int8 costs each."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.network.function import main_function
from ceras_ir.network.quantizable import is_quantized
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.transforms.quantization.rewrites.recipes import MIXED
from ceras_ir.transforms.quantization.set_precision import spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ceras_ir.transforms.quantization.analysis.sensitivity import Sensitivity
    from ceras_ir.transforms.quantization.trials.precision_trials import PrecisionTrials

JUDGE = 8
"""On how many samples choices are judged at most."""

MOST = 300
"""Decibels of a network that is exact."""

FEW = 10
"""How many values get 16 bits where nobody gave a budget but `choose-recipe` asked for it."""

NEGLIGIBLE = 0.01
"""Share of the noise that is left below which a layer is not worth another precision."""

LEFT = 0.05
"""Share of the noise that a target allows which may be left to layers not worth a look."""

NAMED, LONGEST = 8, 40
"""How many layers the note names, and with how many letters."""


NONE_HELPS = {
    "int16": "none helps; noise comes from weights: try another recipe, or mixed=float",
    "float": "none helps; noise comes from activations: try mixed=int16",
    "auto": "none helps",
}

Mixed: TypeAlias = Literal["int16", "float", "auto"]


@dataclass(frozen=True)
class ChoosePrecisionPass(ModulePass):
    """
    Measure, layer by layer, the noise that int8 alone puts on the outputs of a calibrated float
    network, on up to 8 samples of `calibration=FILE.npz` (fewer for large networks), and
    write `graph.precision` on those with most: `mixed=int16` stores their results in 16 bits,
    `mixed=float` computes them in float on the CPU. `mixed=auto` takes 16 bits first and
    then, where that is not enough, float. Weights are measured as the recipe rounds them.

    `budget` bounds them: below 1 the share of the network's multiplications that may change,
    from 1 on the number of layers. With `target-sqnr` there are no more than it takes to reach
    that many decibels, measured on the quantized network: those that save most noise for the
    multiplications that they change come first, and what turns out to be too much is given back.
    Without either, budget=0.1. Without a target, what a softmax at the end reads is measured
    instead of its result. Layers that add less than a hundredth of what noise is left are not
    taken. Which were, and what the signal to noise was before and is now, is said on stderr. With
    `when-chosen` it runs only if the function has `graph.mixed`, which it takes away. Changes no
    value.
    """

    name = "choose-precision"

    mixed: Mixed
    calibration: str | None = None
    budget: float | None = None
    target_sqnr: float | None = None
    when_chosen: bool = False

    def __post_init__(self) -> None:
        if self.budget is not None and not self.budget > 0:
            raise UsageError(f"option 'budget' of pass '{self.name}' must be above 0")
        if self.target_sqnr is not None and not 0 < self.target_sqnr <= MOST:
            raise UsageError(
                f"option 'target-sqnr' of pass '{self.name}' must be above 0 and at most {MOST} "
                f"decibels, got {self.target_sqnr:g}"
            )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if self.when_chosen and main.attributes.pop(MIXED, None) is None:
            return
        if is_quantized(main):
            raise UsageError("mixed chooses layers of a float network; this one comes quantized")
        if self.calibration is None:
            raise UsageError("mixed needs data to measure on: add calibration=FILE.npz")
        from ceras_ir.transforms.quantization.analysis.calibration import calibration_samples
        from ceras_ir.transforms.quantization.analysis.sensitivity import (
            MEASURE,
            SensitivityMeter,
            affordable_samples,
            candidates,
            multiplications,
        )
        from ceras_ir.transforms.quantization.trials.precision_trials import PrecisionTrials, keep

        total = multiplications(main)
        kinds = {"int16": (False,), "float": (True,), "auto": (False, True)}[self.mixed]
        layers = [s for kind in kinds for s in candidates(main, in_float=kind)]
        count = affordable_samples(main, len(layers))
        samples = list(calibration_samples(op, self.calibration, MEASURE + JUDGE, "reading"))
        judged = samples[MEASURE:] or samples
        # Where 16 bits come first, nearly all have them before a layer is taken into float.
        wide = [s.value for s in layers if not s.in_float and self.mixed == "auto"]
        # Probabilities of few samples say little; but a target is one of the outputs as they are.
        scores = self.target_sqnr is None
        trials = PrecisionTrials(ctx, op, self.calibration, MEASURE, judged, wide, scores=scores)
        # Weights are rounded on the first samples; what that costs, others know better.
        measured = samples if self.mixed == "int16" else judged
        meter = SensitivityMeter(op, trials.in_int8, scores=scores)
        meter.measure(layers, measured[:count])
        chosen, before, after = self._chosen(self._affordable(self._ranked(layers), total), trials)
        for layer in chosen:
            keep(layer.value, in_float=layer.in_float)
        spread(main)
        self._say(chosen, layers, (before, after), len(judged))

    def _ranked(self, layers: list[Sensitivity]) -> list[Sensitivity]:
        """The layers in the order in which they are taken: with a target, cheap ones first."""
        from ceras_ir.transforms.quantization.analysis.precision_search import costs

        left, wanted, gain = sum(s.noise for s in layers), None, {id(s): s.noise for s in layers}
        if self.target_sqnr is not None:
            wanted, cost = 10 ** (-self.target_sqnr / 10), costs(layers)
            gain = {key: noise / cost[key] for key, noise in gain.items()}
        if self.mixed != "auto":
            return sorted(layers, key=lambda s: -gain[id(s)])
        # Float is dearest, so that it comes last; after it only what makes no noise to speak of.
        ignored, last = LEFT * min(left if wanted is None else wanted, left), set[int]()
        for layer in sorted(layers, key=lambda s: s.noise):
            ignored -= layer.noise
            if ignored >= 0:
                last.add(id(layer))
        return sorted(layers, key=lambda s: (id(s) in last, s.in_float, -gain[id(s)]))

    def _affordable(self, ranked: list[Sensitivity], total: int) -> list[Sensitivity]:
        """The layers with most noise that the budget has room for."""
        budget = self.budget
        if budget is None:
            budget = 0.1 if self.target_sqnr is None else float("inf")
        if budget >= 1:
            return ranked[: int(min(budget, len(ranked)))]
        left, taken = budget * total, list["Sensitivity"]()
        for layer in ranked:
            if layer.macs <= left:
                left -= layer.macs
                taken.append(layer)
        return taken

    def _chosen(
        self, ranked: list[Sensitivity], trials: PrecisionTrials
    ) -> tuple[list[Sensitivity], float, float]:
        """The first layers of the list, and the noise without and with them."""
        before = trials.noise([])
        left, count = before, 0
        while count < len(ranked) and ranked[count].noise > NEGLIGIBLE * max(left, 0.0):
            left -= ranked[count].noise
            count += 1
        if self.target_sqnr is None:
            # What is measured decides: noises that should add may also cancel.
            while count:
                if (after := trials.noise(ranked[:count])) < before:
                    return ranked[:count], before, after
                count //= 2
            return [], before, before
        wanted = 10 ** (-self.target_sqnr / 10)
        if before <= wanted:
            return [], before, before
        from ceras_ir.transforms.quantization.analysis.precision_search import (
            enough_layers,
            give_back,
        )

        # 16 bits for all, where they come first: they are enough, or the search goes on from there.
        first = next((i for i, s in enumerate(ranked) if s.in_float), 0)
        chosen, after = enough_layers(ranked, first, before, wanted, trials.noise)
        if after <= wanted:
            chosen, after = give_back(chosen, ranked, after, wanted, trials.noise)
        return chosen, before, after

    def _say(
        self,
        chosen: Sequence[Sensitivity],
        layers: Sequence[Sensitivity],
        noise: tuple[float, float],
        samples: int,
    ) -> None:
        from ceras_ir.transforms.quantization.analysis.layer_noise import decibels

        before, after = (decibels(1.0, n) for n in noise)
        total = sum(layer.noise for layer in layers) or 1.0
        named = sorted(chosen, key=lambda s: -s.noise)[:NAMED]
        names = [
            f"{self._kind(layer)}{_short(layer.name)} ({layer.noise / total:.0%} of the noise)"
            for layer in named
        ]
        if len(chosen) > NAMED:
            names.append(f"{len(chosen) - NAMED} more")
        missed = self.target_sqnr is None or after < self.target_sqnr
        floats = sum(s.in_float for s in chosen)
        text = f"{self.mixed} for {len(chosen)} of {len(layers)} layers"
        if self.mixed == "auto":
            count = sum(s.in_float for s in layers)
            text = f"int16 for {len(chosen) - floats} of {len(layers) - count} values, "
            text += f"float for {floats} of {count} layers"
        if floats:
            real = [s for s in layers if s.in_float]
            share = sum(s.macs for s in chosen if s.in_float) / max(sum(s.macs for s in real), 1)
            text += f" ({share:.0%} of the multiplications)"
        print(
            f"{self.name}: note: {text}, {before:.1f} dB -> {after:.1f} dB on {samples} samples: "
            + (", ".join(names) or (self._none(layers) if missed else "none is needed")),
            file=sys.stderr,
        )
        if self.target_sqnr is not None and missed:
            print(
                f"{self.name}: note: {self.target_sqnr:g} dB are not reached; "
                f"{'' if self.mixed == 'auto' else 'mixed=auto and '}"
                "another recipe is what is left to try",
                file=sys.stderr,
            )

    def _none(self, layers: Sequence[Sensitivity]) -> str:
        return NONE_HELPS[self.mixed] if layers else "nothing is left that could have it"

    def _kind(self, layer: Sensitivity) -> str:
        return "" if self.mixed != "auto" else "float " if layer.in_float else "int16 "


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - 3] + "..."
