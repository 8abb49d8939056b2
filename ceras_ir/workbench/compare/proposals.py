"""
Propose options for layers with much noise, and measure proposals for `ceras-compare --propose` on
samples that were not used for calibration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, isnan

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.data.samples import Array, as_samples
from ceras_ir.dialects.graph import LinearOperation
from ceras_ir.dialects.quant import BYTE_BITS
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.report import weight_bytes
from ceras_ir.pipeline.stages import BuildOptions, quantize_pass
from ceras_ir.support.diagnostics import progress
from ceras_ir.transforms.quantization.analysis.layer_noise import LayerNoise
from ceras_ir.transforms.quantization.analysis.output_noise import outputs_of, quantities_of_outputs
from ceras_ir.transforms.quantization.analysis.time_model import time_of
from ceras_ir.transforms.quantization_options import CHOOSE_PRECISION
from ceras_ir.workbench.metrics.choose import Judge, Judgement
from ceras_ir.workbench.metrics.figures import Figure, gain

MIN_IMBALANCE_OCTAVES = 3.0
"""The octaves between the largest and the median channel from which scales per channel help."""
MIN_CLIPPED_SHARE = 1e-3
"""The share of clipped elements that is reported."""
MIN_GOOD_DB = 30.0
"""The ratio of an isolated layer, in decibels, above which it is not the cause of noise."""
MIN_CAUSE_NOISE_SHARE = 0.05
"""The share of the noise from which a layer is a cause, independent of the ratio."""


def worst_layers(layers: Iterable[LayerNoise], count: int = 3) -> list[LayerNoise]:
    """
    Return the `count` layers that add most noise, the worst first. The order is that of their
    shares of the noise at the outputs; layers without a known share are ordered by their own
    signal-to-noise ratio.
    """
    lossy = [layer for layer in layers if layer.isolated > 0]

    def rank(layer: LayerNoise) -> tuple[float, float, str]:
        ratio = layer.isolated_ratio
        return -(layer.share or 0.0), inf if isnan(ratio) else ratio, layer.name

    return sorted(lossy, key=rank)[:count]


def pattern_of(name: str) -> str:
    """
    Return a pattern that selects the layer `name` in options of the command line: `*;LAST`, if the
    name joins the names of several nodes by `;`.
    """
    # Converters join the names of fused nodes; the last is sufficient.
    *before, last = name.split(";")
    return f"*;{last}" if before else last


def remedies(
    layer: LayerNoise, recipe: Collection[str] = (), *, adjustable: bool = True
) -> list[str]:
    """
    Return sentences that propose a remedy for the noise of `layer`, the most promising first.
    Passes in `recipe` already run and are not proposed. Options are proposed only if `adjustable`,
    not for a model that was quantized elsewhere.
    """
    found: list[str] = []
    used = layer.magnitudes[layer.magnitudes > 0]
    dead = layer.magnitudes.size - used.size
    always_zero = f"{dead} of {layer.magnitudes.size} channels are always zero"
    if layer.scale is None:
        return ["it is computed in float: the error originates from the operands"]
    if layer.isolated_ratio >= MIN_GOOD_DB and (layer.share or 0.0) < MIN_CAUSE_NOISE_SHARE:
        return ["the rounding of this layer is small: inspect the layers before it"]
    if not adjustable:
        if layer.clipped_share > MIN_CLIPPED_SHARE:
            found.append(f"{layer.clipped_share:.1%} of the elements are clipped")
        return [
            *found,
            *([always_zero] if dead else []),
            "the model specifies the precision: calibrate the float model to choose another",
        ]
    if layer.imbalance > MIN_IMBALANCE_OCTAVES and "equalize-channels" not in recipe:
        found.append(
            f"the largest channel is {2**layer.imbalance:.0f} times the median channel: "
            "equalize-channels in the --recipe scales channels by powers of two"
        )
    if layer.clipped_share > MIN_CLIPPED_SHARE:
        found.append(
            f"{layer.clipped_share:.1%} of the elements are clipped: use more samples, "
            "or --observer minmax"
        )
    if layer.bits <= BYTE_BITS and layer.low >= 0 and "choose-zero-points" not in recipe:
        found.append("it is never negative: choose-zero-points in the --recipe halves the scale")
    if dead:
        found.append(always_zero)
    name = pattern_of(layer.name)
    if layer.weight_bits < BYTE_BITS:
        found.append(f"'8:{name}', a further entry of --weight-bits, keeps 8 bits of its weights")
    if layer.bits < BYTE_BITS:
        found.append(
            f"'8:{name}', a further entry of --activation-bits, keeps 8 bits of its result"
        )
    if layer.bits <= BYTE_BITS:
        found.append(f"--int16 '{name}' stores the result in 16 bits")
    found.append(f"--float '{name}' computes it in float")
    return found


def remedies_of_all(layers: Iterable[LayerNoise], ratio: float) -> list[str]:
    """
    Return advice for a network with a low signal-to-noise ratio (`ratio`, in dB): the number of
    layers that cause half of the noise. The result is empty if the ratio is good.
    """
    quantized = [layer for layer in layers if layer.scale is not None]
    shares = sorted((layer.share or 0.0 for layer in quantized), reverse=True)
    if len(shares) < 2 or shares[0] == 0 or ratio >= MIN_GOOD_DB or not isfinite(ratio):
        return []
    half = next(i for i in range(len(shares)) if sum(shares[: i + 1]) >= sum(shares) / 2) + 1
    return [
        f"{half} of {len(shares)} layers cause half of the noise at the outputs, "
        f"the worst {shares[0]:.0%}"
    ]


LARGER_BUDGET = 0.5
"""The share of the modelled time in the proposal of a larger budget."""


@dataclass(frozen=True)
class Proposal:
    """
    Options that were tried, with the gain in `metric` (positive is better), the standard error, and
    the additional costs.
    """

    options: str
    metric: str
    gain: float
    error: float
    time: float
    """The additional time, as a share of the modelled time."""
    weights: int
    """The additional bytes of constants."""

    @property
    def helps(self) -> bool:
        """Whether the gain is more than twice the standard error."""
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
    Quantize copies of `module`, a fused float network, with other options, and measure the gain of
    each over `options` on `samples`, which must not be used for calibration. `layers` has the noise
    of each layer, by which the options are chosen. The best gain is first.
    """
    expected, narrow = outputs_of(module, samples), options.target.arithmetic.narrow
    quantities = quantities_of_outputs(main_function(module))

    def evaluated(options: BuildOptions) -> tuple[int, Figure, float]:
        """
        Quantize a copy with `options`. Return the bytes of weights, the metric, and the modelled
        time.
        """
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

    base, before, work = evaluated(options)
    found: list[Proposal] = []
    tried = list(_variants(options, layers))
    for text, variant in progress(tried, "trying options", len(tried)):
        weights, after, time = evaluated(variant)
        more, error = gain(before.quantized, after.quantized, len(samples))
        found.append(Proposal(text, after.name, more, error, time / work - 1, weights - base))
    return sorted(found, key=lambda proposal: -proposal.gain)


def _variants(
    options: BuildOptions, layers: Sequence[LayerNoise]
) -> Iterator[tuple[str, BuildOptions]]:
    other = "mse" if options.observer == "minmax" else "minmax"
    yield f"--observer {other}", replace(options, observer=other)
    recipe = quantize_pass(options).optional
    if CHOOSE_PRECISION in recipe:
        yield f"--budget {LARGER_BUDGET:g}", replace(options, budget=LARGER_BUDGET)
    # A layer and the function of the layer can have the same name.
    names = dict.fromkeys(pattern_of(layer.name) for layer in worst_layers(layers))
    if worst := [name for name in names if "'" not in name and "," not in name]:
        kept = (*options.float, *worst)
        yield f"--float '{','.join(worst)}'", replace(options, float=kept)


def _quantized(module: ModuleOp, options: BuildOptions) -> ModuleOp:
    copy = module.clone()
    quantize_pass(options).apply(load_context(), copy)
    # Results need not match a target, and unordered sums take a tenth of the time.
    for op in copy.walk():
        if isinstance(op, LinearOperation):
            op.ordered = None
    return copy
