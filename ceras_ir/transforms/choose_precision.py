"""Find the few layers that need more than int8, by measuring what int8 costs each."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ceras_ir.analysis.network import main_function
from ceras_ir.analysis.precision import keep_in_float, widen
from ceras_ir.analysis.quantizable import is_quantized
from ceras_ir.diagnostics import UsageError
from ceras_ir.transforms.set_precision import spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ceras_ir.analysis.sensitivity import Sample, Sensitivity

MEASURE, JUDGE = 8, 8
"""On how many samples layers are measured, and on how many choices are judged, at most."""

WORK = 20_000_000_000
"""Multiplications that measuring may take; large networks are measured on fewer samples."""

NEGLIGIBLE = 0.01
"""Share of the noise that is left below which a layer is not worth another precision."""

NAMED, LONGEST = 8, 40
"""How many layers the note names, and with how many letters."""


NONE_HELPS = {
    "int16": "none helps; noise comes from weights: try another recipe, or mixed=float",
    "float": "none helps; noise comes from activations: try mixed=int16",
}

Mixed: TypeAlias = Literal["int16", "float"]


@dataclass(frozen=True)
class ChoosePrecisionPass(ModulePass):
    """
    Measure, layer by layer, the noise that int8 alone puts on the outputs of a calibrated float
    network, on the first 8 samples of `calibration=FILE.npz` (fewer for large networks), and
    write `graph.precision` on those with most: `mixed=int16` stores their results in 16 bits,
    `mixed=float` computes them in float on the CPU.

    `budget` bounds them: below 1 the share of the network's multiplications that may change,
    from 1 on the number of layers. With `target-sqnr` there are no more than it takes to reach
    that many decibels, measured on the quantized network; without either, budget=0.1. Layers
    that add less than a hundredth of what noise is left are not taken. Which were, and what
    the signal to noise was before and is now, is said on stderr. Changes no value.
    """

    name = "choose-precision"

    mixed: Mixed
    calibration: str | None = None
    budget: float | None = None
    target_sqnr: float | None = None

    def __post_init__(self) -> None:
        if self.budget is not None and not self.budget > 0:
            raise UsageError(f"option 'budget' of pass '{self.name}' must be above 0")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if is_quantized(main):
            raise UsageError("mixed chooses layers of a float network; this one comes quantized")
        if self.calibration is None:
            raise UsageError("mixed needs data to measure on: add calibration=FILE.npz")
        from ceras_ir.analysis.calibration import calibration_samples
        from ceras_ir.analysis.sensitivity import SensitivityMeter, candidates, multiplications

        total = multiplications(main)
        layers = candidates(main, in_float=self.mixed == "float")
        count = max(1, min(MEASURE, WORK // max(total * len(layers) // 2, 1)))
        samples = list(calibration_samples(op, self.calibration, MEASURE + JUDGE, "reading"))
        SensitivityMeter(op, in_float=self.mixed == "float").measure(layers, samples[:count])
        judged = (samples[MEASURE:] or samples)[: max(count, 2)]
        trials = _Trials(ctx, op, self.mixed, self.calibration, judged)
        ranked = self._affordable(sorted(layers, key=lambda s: -s.noise), total)
        chosen, before, after = self._chosen(ranked, trials)
        for layer in chosen:
            _keep(layer.value, self.mixed)
        spread(main)
        self._say(chosen, layers, (before, after), len(trials.samples))

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
        self, ranked: list[Sensitivity], trials: _Trials
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
        # Noise falls with every layer but for chance, so that the first prefix is found by halves.
        low, high, after = 0, len(ranked), trials.noise(ranked)
        if before <= wanted:
            return [], before, before
        while high - low > 1 and after <= wanted:
            middle = (low + high) // 2
            noise = trials.noise(ranked[:middle])
            low, high, after = (low, middle, noise) if noise <= wanted else (middle, high, after)
        return ranked[:high], before, after

    def _say(
        self,
        chosen: Sequence[Sensitivity],
        layers: Sequence[Sensitivity],
        noise: tuple[float, float],
        samples: int,
    ) -> None:
        from ceras_ir.analysis.layer_noise import decibels

        before, after = (decibels(1.0, n) for n in noise)
        total = sum(layer.noise for layer in layers) or 1.0
        names = [f"{_short(s.name)} ({s.noise / total:.0%} of the noise)" for s in chosen[:NAMED]]
        if len(chosen) > NAMED:
            names.append(f"{len(chosen) - NAMED} more")
        missed = self.target_sqnr is None or after < self.target_sqnr
        text = f"{self.mixed} for {len(chosen)} of {len(layers)} layers"
        print(
            f"{self.name}: note: {text}, {before:.1f} dB -> {after:.1f} dB on {samples} samples: "
            + (", ".join(names) or (NONE_HELPS[self.mixed] if missed else "none is needed")),
            file=sys.stderr,
        )
        if self.target_sqnr is not None and missed:
            print(
                f"{self.name}: note: {self.target_sqnr:g} dB are not reached; mixed=float and "
                "another recipe are what is left to try",
                file=sys.stderr,
            )


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - 3] + "..."


def _keep(value: SSAValue, mixed: str) -> None:
    if mixed == "int16":
        widen(value)
    else:
        assert isinstance(value.owner, Operation)
        keep_in_float(value.owner)


class _Trials:
    """Quantizes copies of a network and compares them with it."""

    def __init__(
        self,
        ctx: Context,
        module: ModuleOp,
        mixed: str,
        calibration: str,
        samples: Sequence[Sample],
    ):
        from ceras_ir.interpreters.network import run

        self.ctx, self.module, self.mixed, self.samples = ctx, module, mixed, samples
        self.calibration = calibration
        self.expected = [run(module, sample) for sample in samples]

    def noise(self, layers: Sequence[Sensitivity]) -> float:
        """Noise over signal of all outputs with these layers kept."""
        from ceras_ir.analysis.output_noise import ratio_of
        from ceras_ir.interpreters.network import run
        from ceras_ir.transforms.quantize import finish

        copy = self.module.clone()
        for layer in layers:
            _keep(_counterpart(layer.value, self.module, copy), self.mixed)
        spread(main_function(copy))
        for step in finish(self.calibration, MEASURE):
            step.apply(self.ctx, copy)
        ratio = ratio_of(self.expected, [run(copy, sample) for sample in self.samples])
        return 10 ** (-ratio / 10)


def _counterpart(value: SSAValue, module: ModuleOp, copy: ModuleOp) -> SSAValue:
    """The value of a copied network that was this one."""
    old, new = (main_function(m).body.block for m in (module, copy))
    if value in old.args:
        return new.args[old.args.index(value)]
    index = next(i for i, op in enumerate(old.ops) if value in op.results)
    return next(op for i, op in enumerate(new.ops) if i == index).results[0]
