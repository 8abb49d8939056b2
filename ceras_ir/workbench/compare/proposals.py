"""
What `ceras-compare --propose` tries, and what of it helps on samples that chose nothing.

What to try for a layer that loses much, from what was measured of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, isnan

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.data.samples import Array, as_samples
from ceras_ir.dialects.graph import LinearOperation
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.options import BuildOptions
from ceras_ir.pipeline.report import weight_bytes
from ceras_ir.pipeline.stages import quantize_pass
from ceras_ir.support.terminal import progress
from ceras_ir.transforms.quantization.analysis.layer_noise import LayerNoise
from ceras_ir.transforms.quantization.analysis.output_noise import outputs_of, quantities_of_outputs
from ceras_ir.transforms.quantization.analysis.time_model import time_of
from ceras_ir.transforms.quantization_options import PRECISION
from ceras_ir.workbench.metrics.choose import Judge, Judgement
from ceras_ir.workbench.metrics.figures import Figure, gain

IMBALANCED = 3.0
"""Octaves between the largest and the median channel from which channels need own scales."""
CLIPPED = 1e-3
"""Share of clipped elements that is worth a word."""
GOOD = 30.0
"""Decibels in isolation above which a layer is not the cause."""
NOTABLE = 0.05
"""Share of the noise from which it is, in spite of that."""


def worst_layers(layers: Iterable[LayerNoise], count: int = 3) -> list[LayerNoise]:
    """
    The layers that add most noise of their own, the worst first: to the outputs, or, where that
    was not measured, to what they make.
    """
    lossy = [layer for layer in layers if layer.isolated > 0]

    def rank(layer: LayerNoise) -> tuple[float, float, str]:
        ratio = layer.isolated_ratio
        return -(layer.share or 0.0), inf if isnan(ratio) else ratio, layer.name

    return sorted(lossy, key=rank)[:count]


def pattern_of(name: str) -> str:
    """What names a layer on the command line."""
    # Converters join the names of all that they have fused; the last is enough.
    *before, last = name.split(";")
    return f"*;{last}" if before else last


def remedies(
    layer: LayerNoise, recipe: Collection[str] = (), *, adjustable: bool = True
) -> list[str]:
    """
    Sentences, the most promising first, but what the passes of `recipe` did already; without
    options where none is `adjustable`.
    """
    found: list[str] = []
    used = layer.magnitudes[layer.magnitudes > 0]
    dead = layer.magnitudes.size - used.size
    always_zero = f"{dead} of its {layer.magnitudes.size} channels are always zero"
    if layer.scale is None:
        return ["it is computed in float: its error comes from its operands"]
    if layer.isolated_ratio >= GOOD and (layer.share or 0.0) < NOTABLE:
        return ["its own rounding is small: look at the layers before it"]
    if not adjustable:
        if layer.clipped_share > CLIPPED:
            found.append(f"{layer.clipped_share:.1%} of its elements are clipped")
        return [
            *found,
            *([always_zero] if dead else []),
            "its precision came with the model: calibrate the float model to choose another",
        ]
    if layer.imbalance > IMBALANCED and "equalize-channels" not in recipe:
        found.append(
            f"its largest channel is {2**layer.imbalance:.0f} times the median one: "
            "equalize-channels in the --recipe gives channels their own powers of two"
        )
    if layer.clipped_share > CLIPPED:
        found.append(
            f"{layer.clipped_share:.1%} of its elements are clipped: more samples, "
            "or --observer minmax"
        )
    if layer.bits == 8 and layer.low >= 0 and "choose-zero-points" not in recipe:
        found.append("it is never negative: choose-zero-points in the --recipe halves its steps")
    if dead:
        found.append(always_zero)
    name = pattern_of(layer.name)
    if layer.bits == 8:
        found.append(f"--int16 '{name}' stores its result in 16 bits")
    found.append(f"--float '{name}' computes it in float")
    return found


def remedies_of_all(layers: Iterable[LayerNoise], ratio: float) -> list[str]:
    """Where the noise comes from, if a network with so many decibels at its outputs has any."""
    quantized = [layer for layer in layers if layer.scale is not None]
    shares = sorted((layer.share or 0.0 for layer in quantized), reverse=True)
    if len(shares) < 2 or shares[0] == 0 or ratio >= GOOD or not isfinite(ratio):
        return []
    half = next(i for i in range(len(shares)) if sum(shares[: i + 1]) >= sum(shares) / 2) + 1
    return [
        f"{half} of {len(shares)} layers make half of the noise at the outputs, "
        f"the worst {shares[0]:.0%}"
    ]


SPENT = 0.5
"""Of the modelled time, what the proposal of a larger budget spends."""


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
    judgement: Judgement,
) -> list[Proposal]:
    """
    Quantize copies of a fused float network with other options than `options`, and judge each on
    `samples`, which must have calibrated nothing; the best gains first.
    """
    expected, narrow = outputs_of(module, samples), options.target.arithmetic.narrow
    quantities = quantities_of_outputs(main_function(module))

    def made(options: BuildOptions) -> tuple[int, Figure, float]:
        """A quantized copy: its weights in bytes, how good it is, and its modelled time."""
        copy = _quantized(module, options)
        judge = Judge(judgement, quantities)
        for real, stored in zip(expected, outputs_of(copy, samples), strict=True):
            judge.add(as_samples(real, batched=True), as_samples(stored, batched=True))
        figures = judge.figures()
        figure = next((figure for figure in figures if figure.real is not None), figures[0])
        return (
            weight_bytes(copy),
            figure,
            time_of(main_function(copy), narrow=narrow),
        )

    base, before, work = made(options)
    found: list[Proposal] = []
    tried = list(_variants(options, layers))
    for text, variant in progress(tried, "trying options", len(tried)):
        weights, after, time = made(variant)
        more, error = gain(before.quantized, after.quantized, len(samples))
        found.append(Proposal(text, after.name, more, error, time / work - 1, weights - base))
    return sorted(found, key=lambda proposal: -proposal.gain)


def _variants(
    options: BuildOptions, layers: Sequence[LayerNoise]
) -> Iterator[tuple[str, BuildOptions]]:
    other = "mse" if options.observer == "minmax" else "minmax"
    yield f"--observer {other}", replace(options, observer=other)
    recipe = quantize_pass(options).optional
    if PRECISION in recipe:
        yield f"--budget {SPENT:g}", replace(options, budget=SPENT)
    # A layer and its function may have one name.
    names = dict.fromkeys(pattern_of(layer.name) for layer in worst_layers(layers))
    if worst := [name for name in names if "'" not in name and "," not in name]:
        kept = (*options.float, *worst)
        yield f"--float '{','.join(worst)}'", replace(options, float=kept)


def _quantized(module: ModuleOp, options: BuildOptions) -> ModuleOp:
    copy = module.clone()
    quantize_pass(options).apply(load_context(), copy)
    # No target is held to these sums, and in any order they take a tenth of the time.
    for op in copy.walk():
        if isinstance(op, LinearOperation):
            op.ordered = None
    return copy
