"""The page that `ceras-compare --html` writes: one file, no scripts, pictures drawn as SVG."""

from collections.abc import Sequence
from html import escape
from math import isfinite

from ceras_ir.analysis.layer_noise import LayerNoise
from ceras_ir.analysis.remedies import remedies, worst_layers
from ceras_ir.driver.end_metrics import Metric

STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 75em; color: #222 }
table { border-collapse: collapse } td, th { padding: .15em .7em; text-align: right }
th { border-bottom: 1px solid #888 } td:first-child, th:first-child { text-align: left }
tr:nth-child(even) { background: #f4f6f8 } svg { display: block; margin: 1em 0 }
.bar { fill: #4c78a8 } .own { fill: #f58518 } .edge { stroke: #d62728; stroke-dasharray: 3 2 }
.line { fill: none; stroke: #4c78a8; stroke-width: 1.5 } .second { stroke: #f58518 }
text { font: 11px system-ui, sans-serif; fill: #444 } .grid { stroke: #ddd }
"""
WIDTH, HEIGHT, MARGIN = 900, 240, 40
TALLEST = 80.0
"""Decibels at the top of the plot; exact layers are drawn there."""


def compare_page(
    title: str,
    metrics: Sequence[Metric],
    layers: Sequence[LayerNoise],
    other: tuple[str, Sequence[LayerNoise]] | None = None,
) -> str:
    """The whole page as text; `other` is a second variant of the same network."""
    second = None if other is None else other[1]
    worst = worst_layers(layers)
    parts = [
        "<!DOCTYPE html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        f"<style>{STYLE}</style></head><body>",
        f"<h1>{escape(title)}: float against int8</h1>",
        "<h2>Result</h2>",
        _table(("metric", "float", "quantized"), [_metric_row(m) for m in metrics]),
        "<h2>Signal to noise, layer by layer</h2>",
        "<p>Blue: accumulated, with all errors of the layers before. Orange: "
        + ("accumulated, of the second variant" if second else "each layer alone, on float inputs")
        + ".</p>",
        _ratios(layers, second),
        "<h2>The worst layers</h2>",
    ]
    for layer in worst:
        hints = "".join(f"<li>{escape(text)}</li>" for text in remedies(layer))
        parts.append(
            f"<h3>{escape(layer.name)} ({escape(layer.operator)}): "
            f"{decimal(layer.isolated_ratio)} dB alone</h3><ul>{hints}</ul>"
        )
    parts += ["<h2>All layers</h2>", _layer_table(layers)]
    parts += ["<h2>Histograms</h2><p>Dashed: what int8 holds. Counts are square roots.</p>"]
    parts += [f"<h4>{escape(layer.name)}</h4>{_histogram(layer)}" for layer in layers]
    return "\n".join([*parts, "</body></html>", ""])


def decimal(value: float) -> str:
    """One decimal, or a word."""
    return f"{value:.1f}" if isfinite(value) else "exact"


def _metric_row(metric: Metric) -> tuple[str, ...]:
    real = "" if metric.real is None else f"{metric.real:.6g}"
    return metric.name, real, f"{metric.quantized:.6g}"


def _layer_table(layers: Sequence[LayerNoise]) -> str:
    header = ("layer", "operation", "scale", "range", "clipped", "alone dB", "accumulated dB")
    rows = [
        (
            layer.name,
            layer.operator,
            "float" if layer.scale is None else f"{layer.scale:.6g}",
            f"[{layer.low:.4g}, {layer.high:.4g}]",
            f"{layer.clipped_share:.3%}",
            decimal(layer.isolated_ratio),
            decimal(layer.accumulated_ratio),
        )
        for layer in layers
    ]
    return _table(header, rows)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>\n{body}</table>"


def _ratios(layers: Sequence[LayerNoise], second: Sequence[LayerNoise] | None) -> str:
    def points(ratios: Sequence[float]) -> str:
        step = (WIDTH - 2 * MARGIN) / max(len(ratios) - 1, 1)
        return " ".join(f"{MARGIN + i * step:.1f},{_height(r):.1f}" for i, r in enumerate(ratios))

    lines = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">']
    for level in range(0, int(TALLEST) + 1, 20):
        y = _height(level)
        lines.append(f'<line class="grid" x1="{MARGIN}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        lines.append(f'<text x="2" y="{y + 4:.1f}">{level} dB</text>')
    first = [layer.accumulated_ratio for layer in layers]
    orange = (
        [layer.isolated_ratio for layer in layers]
        if second is None
        else [layer.accumulated_ratio for layer in second]
    )
    lines.append(f'<polyline class="line second" points="{points(orange)}"/>')
    lines.append(f'<polyline class="line" points="{points(first)}"/>')
    return "\n".join([*lines, "</svg>"])


def _height(ratio: float) -> float:
    inside = min(max(ratio, 0.0), TALLEST) / TALLEST
    return HEIGHT - MARGIN / 2 - inside * (HEIGHT - MARGIN)


def _histogram(layer: LayerNoise) -> str:
    width, height = 420, 90
    low, high = float(layer.edges[0]), float(layer.edges[-1])
    tallest = float(layer.histogram.max(initial=1)) or 1.0
    bar = width / len(layer.histogram)
    lines = [f'<svg viewBox="0 0 {width} {height + 16}" width="{width}" height="{height + 16}">']
    for i, count in enumerate(layer.histogram.tolist()):
        tall = height * (count / tallest) ** 0.5
        lines.append(
            f'<rect class="bar" x="{i * bar:.1f}" y="{height - tall:.1f}" '
            f'width="{bar:.1f}" height="{tall:.1f}"/>'
        )
    if layer.scale is not None:
        for edge in (-128 * layer.scale, 127 * layer.scale):
            if low <= edge <= high:
                x = (edge - low) / (high - low) * width
                lines.append(f'<line class="edge" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}"/>')
    lines.append(f'<text x="0" y="{height + 13}">{low:.4g}</text>')
    lines.append(f'<text x="{width}" y="{height + 13}" text-anchor="end">{high:.4g}</text>')
    return "\n".join([*lines, "</svg>"])
