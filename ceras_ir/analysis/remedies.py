"""What to try for a layer that loses much, from what was measured of it."""

from collections.abc import Iterable

from ceras_ir.analysis.layer_noise import LayerNoise

IMBALANCED = 3.0
"""Octaves between the largest and the median channel from which channels need own scales."""
CLIPPED = 1e-3
"""Share of clipped elements that is worth a word."""
GOOD = 30.0
"""Decibels in isolation above which a layer is not the cause."""


def worst_layers(layers: Iterable[LayerNoise], count: int = 3) -> list[LayerNoise]:
    """The layers that add most noise of their own, the worst first."""
    lossy = [layer for layer in layers if layer.isolated > 0]
    return sorted(lossy, key=lambda layer: (layer.isolated_ratio, layer.name))[:count]


def remedies(layer: LayerNoise) -> list[str]:
    """Sentences, the most promising first."""
    found: list[str] = []
    used = layer.magnitudes[layer.magnitudes > 0]
    if layer.scale is None:
        return ["it is computed in float: its error comes from its operands"]
    if layer.isolated_ratio >= GOOD:
        return ["its own rounding is small: look at the layers before it"]
    if layer.imbalance > IMBALANCED:
        found.append(
            f"its largest channel is {2**layer.imbalance:.0f} times the median one: "
            "--recipe channels-rounding gives channels their own powers of two"
        )
    if layer.clipped_share > CLIPPED:
        found.append(
            f"{layer.clipped_share:.1%} of its elements are clipped: more samples, "
            "--observer minmax, or --recipe channels-rounding"
        )
    if "conv2d" in layer.operator or layer.operator == "matmul":
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


def remedies_of_all(layers: Iterable[LayerNoise]) -> list[str]:
    """Sentences for the network: what gains ten decibels at its last layer, if it needs them."""
    quantized = [layer for layer in layers if layer.scale is not None]
    if not quantized or (ratio := quantized[-1].accumulated_ratio) >= GOOD:
        return []
    return [
        f"for 10 dB more at the outputs: --recipe auto, and if that is not enough --mixed float "
        f"--target-sqnr {ratio + 10:.0f}, which keeps as few layers in float as reach it; "
        "--mixed int16 where activations are what is lost"
    ]
