"""What to try for a layer that loses much, from what was measured of it."""

from collections.abc import Collection, Iterable
from math import inf, isfinite, isnan

from ceras_ir.transforms.quantization.analysis.layer_noise import LayerNoise

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
