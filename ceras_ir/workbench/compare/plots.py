"""The pictures of the page of `ceras-compare`, drawn as SVG."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import isfinite, isnan

from ceras_ir.transforms.quantization.analysis.layer_noise import LayerNoise

WIDTH, HEIGHT, LEFT, BELOW, ABOVE = 1100, 300, 44, 34, 10
LEAST_TOP = 60.0
"""Decibels that the plot reaches at least."""
LABELS = 12
"""About how many layers have their number below the plot."""


@dataclass(frozen=True)
class Ratio:
    """Decibels of one layer on two curves: infinite where it is exact, None for no point."""

    name: str
    operator: str
    first: float | None
    second: float | None
    share: float | None = None
    """Of the noise at the outputs."""


def ratios(layers: Sequence[LayerNoise], second: Sequence[LayerNoise] | None) -> str:
    """Decibels of every layer: accumulated, and alone or those of a second variant."""
    others = {(v.name, v.operator): v.accumulated_ratio for v in second or ()}
    return ratio_plot(
        [
            Ratio(
                v.name,
                v.operator,
                v.accumulated_ratio,
                others.get((v.name, v.operator)) if others else v.isolated_ratio,
                v.share,
            )
            for v in layers
        ],
        ("accumulated", "second variant" if others else "alone"),
    )


def ratio_plot(layers: Sequence[Ratio], words: tuple[str, str]) -> str:
    """Two curves over the layers, and columns of what each adds to the noise at the outputs."""
    pairs = [(_available(layer.first), _available(layer.second)) for layer in layers]
    finite = [r for pair in pairs for r in pair if r is not None and isfinite(r)]
    top = max(LEAST_TOP, 10.0 * (int(max(finite, default=0.0)) // 10 + 1))
    bottom = min(0.0, 10.0 * (int(min(finite, default=0.0)) // 10))
    slot = (WIDTH - LEFT) / max(len(layers), 1)

    def x(index: int) -> float:
        return LEFT + (index + 0.5) * slot

    def y(ratio: float) -> float:
        inside = (min(max(ratio, bottom), top) - bottom) / (top - bottom)
        return HEIGHT - BELOW - inside * (HEIGHT - BELOW - ABOVE)

    lines = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">']
    for level in range(int(bottom), int(top) + 1, 20 if top - bottom > 80 else 10):
        at = y(level)
        lines.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH}" y1="{at:.1f}" y2="{at:.1f}"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{level} dB</text>')
    every = max(1, round(len(layers) / LABELS))
    for i in range(0, len(layers), every):
        lines.append(f'<text x="{x(i):.1f}" y="{HEIGHT - 14}" text-anchor="middle">{i + 1}</text>')
    lines += _columns(layers, x, slot)
    for side, style in ((1, "b"), (0, "a")):
        points = [(i, r) for i, pair in enumerate(pairs) if (r := pair[side]) is not None]
        path = " ".join(f"{x(i):.1f},{y(r):.1f}" for i, r in points)
        lines.append(f'<polyline class="line {style}" points="{path}"/>')
    for i, (layer, pair) in enumerate(zip(layers, pairs, strict=True)):
        said = ", ".join(
            f"{word} {'exact' if not isfinite(r) else f'{r:.1f} dB'}"
            for word, r in zip(words, pair, strict=True)
            if r is not None
        )
        said += "" if layer.share is None else f", {layer.share:.1%} of the noise at the outputs"
        lines.append(
            f"<g><title>{i + 1}. {escape(layer.name)} ({escape(layer.operator)}): {said}</title>"
            f'<rect class="column" x="{x(i) - slot / 2:.1f}" y="{ABOVE}" width="{slot:.1f}" '
            f'height="{HEIGHT - BELOW - ABOVE}"/>'
        )
        for r, style in zip(pair, ("fa", "fb"), strict=True):
            if r is not None:
                lines.append(f'<circle class="dot {style}" cx="{x(i):.1f}" cy="{y(r):.1f}" r="4"/>')
        lines.append("</g>")
    return "\n".join([*lines, "</svg>"])


def _available(ratio: float | None) -> float | None:
    return None if ratio is None or isnan(ratio) else ratio


def _columns(layers: Sequence[Ratio], x: Callable[[int], float], slot: float) -> Iterator[str]:
    """What each layer adds to the noise at the outputs, the most as high as half of the plot."""
    largest = max((layer.share or 0.0 for layer in layers), default=0.0)
    for i, layer in enumerate(layers):
        if layer.share:
            tall = (HEIGHT - BELOW - ABOVE) / 2 * layer.share / largest
            yield (
                f'<rect class="share" x="{x(i) - slot * 0.4:.1f}" '
                f'y="{HEIGHT - BELOW - tall:.1f}" width="{slot * 0.8:.1f}" height="{tall:.1f}"/>'
            )


def histogram(layer: LayerNoise) -> str:
    """The distribution of a layer's values, and how far its stored integers reach."""
    width, height = 420, 90
    low, high = float(layer.edges[0]), float(layer.edges[-1])
    tallest = float(layer.histogram.max(initial=1)) or 1.0
    bar = width / len(layer.histogram)
    lines = [f'<svg viewBox="0 0 {width} {height + 18}" role="img">']
    for i, count in enumerate(layer.histogram.tolist()):
        if not count:
            continue
        tall = max(height * (count / tallest) ** 0.5, 1.0)
        lines.append(
            f'<rect class="count" x="{i * bar:.1f}" y="{height - tall:.1f}" '
            f'width="{bar:.1f}" height="{tall:.1f}"/>'
        )
    for edge in layer.held or ():
        if low < edge < high:
            x = (edge - low) / (high - low) * width
            lines.append(f'<line class="edge" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}"/>')
    lines.append(f'<line class="grid" x1="0" x2="{width}" y1="{height}" y2="{height}"/>')
    lines.append(f'<text x="0" y="{height + 14}">{low:.4g}</text>')
    lines.append(f'<text x="{width}" y="{height + 14}" text-anchor="end">{high:.4g}</text>')
    return "\n".join([*lines, "</svg>"])
