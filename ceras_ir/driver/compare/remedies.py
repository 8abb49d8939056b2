"""What to try for a layer that loses much, from what was measured of it."""

from collections.abc import Collection, Iterable
from math import ceil, isfinite

from ceras_ir.transforms.quantization.analysis.layer_noise import LayerNoise

IMBALANCED = 3.0
"""Octaves between the largest and the median channel from which channels need own scales."""
CLIPPED = 1e-3
"""Share of clipped elements that is worth a word."""
GOOD = 30.0
"""Decibels in isolation above which a layer is not the cause."""
NOTABLE = 0.05
"""Share of the noise from which it is, in spite of that."""
GAIN, SPARE = 10, 1
"""Decibels that a proposal is to gain, and by how much more it asks, for other samples' sake."""


def worst_layers(layers: Iterable[LayerNoise], count: int = 3) -> list[LayerNoise]:
    """
    The layers that add most noise of their own, the worst first: to the outputs, or, where that
    was not measured, to what they make.
    """
    lossy = [layer for layer in layers if layer.isolated > 0]
    return sorted(lossy, key=lambda v: (-(v.share or 0.0), v.isolated_ratio, v.name))[:count]


def remedies(layer: LayerNoise, recipe: Collection[str] = ()) -> list[str]:
    """Sentences, the most promising first, but what the passes of `recipe` did already."""
    found: list[str] = []
    used = layer.magnitudes[layer.magnitudes > 0]
    if layer.scale is None:
        return ["it is computed in float: its error comes from its operands"]
    if layer.isolated_ratio >= GOOD and (layer.share or 0.0) < NOTABLE:
        return ["its own rounding is small: look at the layers before it"]
    if layer.imbalance > IMBALANCED and "equalize-channels" not in recipe:
        found.append(
            f"its largest channel is {2**layer.imbalance:.0f} times the median one: "
            "--recipe channels-rounding gives channels their own powers of two"
        )
    if layer.clipped_share > CLIPPED:
        found.append(
            f"{layer.clipped_share:.1%} of its elements are clipped: more samples, "
            "or --observer minmax"
        )
    if layer.bits == 8 and layer.low >= 0 and "choose-zero-points" not in recipe:
        found.append(
            "it is never negative: a --recipe with asymmetric- before it halves its steps, for "
            "targets that take zero points"
        )
    linear = "conv2d" in layer.operator or layer.operator == "matmul"
    if linear and "correct-bias" not in recipe:
        found.append("--recipe bias takes the mean error of its weights out of its bias")
    if used.size < layer.magnitudes.size:
        dead = layer.magnitudes.size - used.size
        found.append(f"{dead} of its {layer.magnitudes.size} channels are always zero")
    # Converters join the names of all that they have fused; the last is enough.
    *before, last = layer.name.split(";")
    name = f"*;{last}" if before else last
    if layer.bits == 8:
        found.append(f"--int16 '{name}' stores its result in 16 bits")
    found.append(f"--float '{name}' computes it in float")
    return found


def remedies_of_all(
    layers: Iterable[LayerNoise], ratio: float, command: str | None, recipe: str | None = None
) -> list[str]:
    """
    Sentences for the network with so many decibels at its outputs: where the noise comes from, and
    what gains ten decibels, if it needs them. `command` is what measured it, without options that
    say how precise layers are; `recipe` is kept where it rounds weights already.
    """
    quantized = [layer for layer in layers if layer.scale is not None]
    if not quantized or ratio >= GOOD or not isfinite(ratio):
        return []
    found: list[str] = []
    shares = sorted((layer.share or 0.0 for layer in quantized), reverse=True)
    if shares[0] > 0 and len(shares) > 1:
        half = next(i for i in range(len(shares)) if sum(shares[: i + 1]) >= sum(shares) / 2) + 1
        found.append(
            f"{half} of {len(shares)} layers make half of the noise at the outputs, "
            f"the worst {shares[0]:.0%}"
        )
    if command is not None:
        chosen = recipe if recipe is not None and "rounding" in recipe else "rows-rounding"
        found.append(
            f"for {GAIN} dB more at the outputs:\n\n{command} --recipe {chosen} --mixed auto "
            f"--target-sqnr {ceil(ratio + GAIN + SPARE)}\n\nrounds weights so that errors cancel, "
            "measures what then needs 16 bits, or float, at least cost, and says what that is; "
            "--recipe auto alone costs less"
        )
    return found
