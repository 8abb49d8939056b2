"""What `ceras-compare --propose` tries, and what of it helps on samples that chose nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.data.samples import join
from ceras_ir.dialects.graph import LinearOperation
from ceras_ir.driver.compare.end_metrics import Array, Hook, Metric, end_metrics
from ceras_ir.driver.compare.remedies import pattern_of, worst_layers
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.options import BuildOptions
from ceras_ir.pipeline.report import weight_bytes
from ceras_ir.pipeline.stages import quantize_pass
from ceras_ir.support.progress import progress
from ceras_ir.transforms.quantization.analysis.layer_noise import LayerNoise
from ceras_ir.transforms.quantization.analysis.output_noise import outputs_of
from ceras_ir.transforms.quantization.analysis.time_model import time_of
from ceras_ir.transforms.quantization.recipe import BIAS, OPTIONAL, PRECISION

RESAMPLED = 50
"""How often samples are drawn again for the standard error of a difference."""

SPENT = 0.5
"""Of the modelled time, what the proposal of a larger budget spends."""

MOST = 300.0
"""Decibels of a network that is exact."""

Outputs = Mapping[str, Array]


@dataclass(frozen=True)
class Judge:
    """Measures outputs by the first metric that compares with labels, else by signal to noise."""

    expected: Outputs
    labels: NDArray[np.integer] | None
    hook: Hook | None

    def metric(self, actual: Outputs, chosen: NDArray[np.integer]) -> Metric:
        """Of chosen samples, some of them several times."""
        labels = None if self.labels is None else self.labels[chosen]
        real, quantized = ({k: v[chosen] for k, v in o.items()} for o in (self.expected, actual))
        found = end_metrics(real, quantized, labels, self.hook)
        return next((metric for metric in found if metric.real is not None), found[0])

    def gain(self, before: Outputs, after: Outputs) -> tuple[str, float, float]:
        """The metric, what it gains from one to the other, and the standard error of that."""
        count = len(next(iter(before.values())))
        drawn = np.random.default_rng(0).integers(0, count, (RESAMPLED, count))
        name, gains = "", list[float]()
        for chosen in (np.arange(count), *drawn):
            pair = [self.metric(outputs, chosen) for outputs in (before, after)]
            name = pair[0].name
            values = [min(metric.quantized, MOST) for metric in pair]
            gains.append(values[1] - values[0])
        return name, gains[0], float(np.std(gains[1:]))


@dataclass(frozen=True)
class Proposal:
    """Other options, and what they were worth."""

    options: str
    metric: str
    gain: float
    error: float
    time: float
    """What they take more, as a share of the modelled time."""
    weights: int
    """Bytes of constants that they take more."""

    @property
    def helps(self) -> bool:
        """Whether the gain is no chance."""
        return self.gain > 2 * self.error

    def __str__(self) -> str:
        return (
            f"{self.options}: {self.metric} {self.gain:+.3g} ± {self.error:.2g}, "
            f"modelled time {self.time:+.0%}, weights {self.weights:+,} bytes"
        )


def proposals(
    module: ModuleOp,
    options: BuildOptions,
    layers: Sequence[LayerNoise],
    samples: Sequence[Mapping[str, Array]],
    labels: NDArray[np.integer] | None,
    hook: Hook | None,
) -> list[Proposal]:
    """
    Quantize copies of a fused float network with other options than `options`, and judge each on
    `samples`, which must have calibrated nothing; the best gains first.
    """
    judge = Judge(join(outputs_of(module, samples), batched=True), labels, hook)
    base, outputs, work = _made(module, options, samples)
    found: list[Proposal] = []
    tried = list(_variants(options, layers))
    for text, variant in progress(tried, "trying options", len(tried)):
        weights, actual, time = _made(module, variant, samples)
        name, gain, error = judge.gain(outputs, actual)
        found.append(Proposal(text, name, gain, error, time / work - 1, weights - base))
    return sorted(found, key=lambda proposal: -proposal.gain)


def _variants(
    options: BuildOptions, layers: Sequence[LayerNoise]
) -> Iterator[tuple[str, BuildOptions]]:
    other = "mse" if options.observer == "minmax" else "minmax"
    yield f"--observer {other}", replace(options, observer=other)
    recipe = quantize_pass(options).optional
    if PRECISION in recipe:
        budget = replace(options.precision, budget=SPENT)
        yield f"--budget {SPENT:g}", replace(options, precision=budget)
    changed = {p for p in recipe if p != BIAS} if BIAS in recipe else {*recipe, BIAS}
    passes = tuple(name for name in OPTIONAL if name in changed)
    yield f"--recipe {','.join(passes)}", replace(options, recipe=passes)
    names = (pattern_of(layer.name) for layer in worst_layers(layers))
    if worst := [name for name in names if "'" not in name and "," not in name]:
        kept = replace(options.precision, in_float=(*options.precision.in_float, *worst))
        yield f"--float '{','.join(worst)}'", replace(options, precision=kept)


def _made(
    module: ModuleOp, options: BuildOptions, samples: Sequence[Mapping[str, Array]]
) -> tuple[int, Outputs, float]:
    """A quantized copy: its weights in bytes, its outputs and its modelled time."""
    copy = module.clone()
    quantize_pass(options).apply(load_context(), copy)
    # No target is held to these sums, and in any order they take a tenth of the time.
    for op in copy.walk():
        if isinstance(op, LinearOperation):
            op.ordered = None
    return (
        weight_bytes(copy),
        join(outputs_of(copy, samples), batched=True),
        time_of(main_function(copy)),
    )
