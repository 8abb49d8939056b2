"""What `ceras-compare --propose` tries, and what of it helps on samples that chose nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

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
from ceras_ir.transforms.quantization.analysis.output_noise import outputs_of
from ceras_ir.transforms.quantization.analysis.quantities import quantities_of_outputs
from ceras_ir.transforms.quantization.analysis.time_model import time_of
from ceras_ir.transforms.quantization.recipe import PRECISION
from ceras_ir.workbench.compare.remedies import pattern_of, worst_layers
from ceras_ir.workbench.metrics.choose import Judge, Judgement
from ceras_ir.workbench.metrics.figures import Figure, gain

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
