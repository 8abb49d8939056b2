"""
Print the table of `ceras-compare`, and write the page of `--html`.

The page is a single file without external resources.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape
from math import inf, isnan
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape as escape_markup
from rich.table import Table

from ceras_ir.support.labels import end_of_name
from ceras_ir.transforms.quantization.analysis.layer_noise import LayerNoise
from ceras_ir.workbench.compare.proposals import (
    MIN_CLIPPED_SHARE,
    MIN_GOOD_DB,
    Proposal,
    remedies,
    worst_layers,
)
from ceras_ir.workbench.metrics.figures import Measured
from ceras_ir.workbench.pages import histogram, ratios, render

if TYPE_CHECKING:
    from ceras_ir.workbench.compare.floors import Floors
    from ceras_ir.workbench.compare.variants import Variant

MIN_FAIR_DB = 20.0
"""The ratio in decibels below which a layer is marked as bad; up to `MIN_GOOD_DB` as fair."""
FULL_BAR_DB = 60.0
"""The decibels of a full bar."""
MAX_NAME_CHARACTERS = 44
"""The characters of a layer name; converters join the names of fused nodes."""

NOISE_SECTIONS = {
    "result": "Result",
    "worst": "Worst layers",
    "plot": "Plot",
    "layers": "All layers",
    "histograms": "Histograms",
}


def decimal(value: float) -> str:
    """Format a number with one digit after the point. Infinity is "exact", and NaN is "n/a"."""
    return _word(value) or f"{value:.1f}"


def number(value: float) -> str:
    """Format a number with four significant digits. Infinity is "exact", and NaN is "n/a"."""
    return _word(value) or f"{value:.4g}"


def _word(value: float) -> str:
    return "exact" if value == inf else "n/a" if isnan(value) else ""


def step(scale: float | None) -> str:
    """Format a scale for the table, as a power of two if possible; "float" for `None`."""
    if scale is None:
        return "float"
    mantissa, exponent = scale.hex().split("p")
    return f"2^{int(exponent)}" if float.fromhex(mantissa) == 1.0 else f"{scale:.4g}"


def named(name: str) -> str:
    """
    Return HTML for the name of a layer. A long name is shortened, and the full name is a tooltip.
    """
    *_, last = name.split(";")
    shown = end_of_name(last, MAX_NAME_CHARACTERS)
    return f'<span title="{escape(name)}">{escape(shown)}</span>'


def compare_page(title: str, variants: Sequence[Variant], samples: int) -> str:
    """
    Return the HTML page of a comparison: for each layer, the noise of the first variant; if there
    is a second variant, the figures of both are next to each other. A variant is a quantized
    network that was compared with a reference. `samples` is the number of compared samples.
    """
    first = variants[0]
    second = variants[1] if len(variants) > 1 else None
    against = f"{first.name} against {first.reference}"
    if second is not None:
        against = f"{first.name}, and {second.name}, against {first.reference}"
    many = "sample" if samples == 1 else "samples"
    key_a = f"accumulated, {first.name}" if second else "accumulated"
    key_b = f"accumulated, {second.name}" if second else "each layer alone"
    worst = "".join(_worst(layer, first) for layer in worst_layers(first.layers))
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="soft">{escape(against)}; {samples} {many}, {len(first.layers)} layers</p>',
        f'<h2 id="result" class="part">Result</h2>{_results(first, second)}',
        '<h2 id="worst" class="part">The layers that add most noise</h2>',
        f'<div class="cards worst">{worst}</div>',
        *(f'<p class="said">{escape(text)}</p>' for text in first.remedies),
        '<h2 id="plot" class="part">Signal to noise, layer by layer</h2>',
        f'<p class="soft"><span class="key a"></span>{escape(key_a)}: '
        "with the errors of all layers before"
        f'<br><span class="key b"></span>{escape(key_b)}<br>Higher is better; at the top a layer '
        f"is exact. {_columns(first)}Point at a layer for details.</p>",
        f'<figure class="panel plot">{ratios(first.layers, second and second.layers)}</figure>',
        f'<h2 id="layers" class="part">All layers</h2>{_layer_rows(first, second)}',
        '<h2 id="histograms" class="part">Histograms</h2>',
        '<p class="soft">Values of the reference; the dashed lines are the range of stored '
        "integers. Heights are square roots of counts, so that tails are visible.</p>",
        f"<details{' open' if len(first.layers) <= 24 else ''}><summary>{len(first.layers)} "
        "layers</summary>",
        '<div class="cards small">',
        *(_small(i, layer) for i, layer in enumerate(first.layers)),
        "</div></details>",
    ]
    nav = "".join(f'<a href="#{name}">{text}</a>' for name, text in NOISE_SECTIONS.items())
    named_page = f"{title}: where precision goes"
    return render("base.html", {"title": named_page, "nav": nav, "main": "\n".join(parts)})


def _results(first: Variant, second: Variant | None) -> str:
    cards: list[str] = []
    for i, metric in enumerate(first.metrics):
        other = None if second is None else second.metrics[i]
        cards.append(_result(metric, first, other, second))
    return f'<div class="cards">{"".join(cards)}</div>'


def _result(
    metric: Measured, first: Variant, other: Measured | None, second: Variant | None
) -> str:
    lines: list[str] = []
    if metric.real is not None:
        change = metric.quantized - metric.real
        error = "" if metric.error is None else f" ± {metric.error:.2g}"
        lines.append(f"{escape(first.reference)}: {number(metric.real)} ({change:+.3g}{error})")
    if other is not None and second is not None:
        lines.append(f"{escape(second.name)}: {number(other.quantized)}")
    below = "".join(f'<div class="soft">{line}</div>' for line in lines)
    return (
        f'<div class="card"><div class="soft">{escape(metric.name)}</div>'
        f"<b>{number(metric.quantized)}</b>{below}</div>"
    )


def _worst(layer: LayerNoise, variant: Variant) -> str:
    found = remedies(layer, variant.recipe, adjustable=variant.adjustable)
    hints = "".join(f"<li>{escape(text)}</li>" for text in found)
    return (
        f'<div class="card"><h3>{named(layer.name)}</h3><div class="soft">{escape(layer.operator)}'
        f", {layer.channels} channels, step {step(layer.scale)}</div>"
        f"{_headline(layer)}{histogram(layer)}<ul>{hints}</ul></div>"
    )


def _small(index: int, layer: LayerNoise) -> str:
    return (
        f'<div class="card" id="layer{index}"><h3>{index + 1}. {named(layer.name)}</h3>'
        f'<div class="soft">{escape(layer.operator)}, {decimal(layer.isolated_ratio)} dB alone'
        f"</div>{histogram(layer)}</div>"
    )


def _columns(variant: Variant) -> str:
    largest = max((layer.share or 0.0 for layer in variant.layers), default=0.0)
    if not largest:
        return ""
    return (
        '<br><span class="key c"></span>The contribution of each layer to noise at the outputs; '
        f"the highest column is {largest:.1%}.<br>"
    )


def _headline(layer: LayerNoise) -> str:
    isolated = f"{decimal(layer.isolated_ratio)} dB alone"
    if layer.share is None:
        return f'<b class="{_grade(layer.isolated_ratio)}">{isolated}</b>'
    return f'<b class="bad">{_share(layer)} of the noise</b><div class="soft">{isolated}</div>'


def _share(layer: LayerNoise) -> str:
    return "" if layer.share is None else f"{layer.share:.1%}"


def _grade(ratio: float) -> str:
    if isnan(ratio):
        return ""
    return "bad" if ratio < MIN_FAIR_DB else "fair" if ratio < MIN_GOOD_DB else "fine"


def _layer_rows(first: Variant, second: Variant | None) -> str:
    has_steps = any(layer.reference_scale is not None for layer in first.layers)
    header = ["layer", "operation", *(["step before"] if has_steps else []), "step", "range"]
    header += ["clipped", "of the noise", "alone dB", "accumulated dB"]
    second_layers: dict[tuple[str, str], LayerNoise] = {}
    if second is not None:
        header.append(f"{second.name} dB")
        second_layers = {(v.name, v.operator): v for v in second.layers}
    head = "".join(
        f"<th{' class=name' if i == 0 else ''}>{escape(cell)}</th>" for i, cell in enumerate(header)
    )
    rows: list[str] = []
    for i, layer in enumerate(first.layers):
        cells = [escape(layer.operator), *([step(layer.reference_scale)] if has_steps else [])]
        clipped = f"{layer.clipped_share:.2%}"
        if layer.clipped_share > MIN_CLIPPED_SHARE:
            clipped = f'<span class="fair">{clipped}</span>'
        cells += [step(layer.scale), f"{layer.low:.3g} to {layer.high:.3g}", clipped]
        cells += [_share(layer), _bar(layer.isolated_ratio), _bar(layer.accumulated_ratio)]
        if second is not None:
            other = second_layers.get((layer.name, layer.operator))
            cells.append("" if other is None else _bar(other.accumulated_ratio))
        name = f'<td class="name">{i + 1}. <a href="#layer{i}">{named(layer.name)}</a></td>'
        rows.append(f"<tr>{name}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    body = "\n".join(rows)
    return f'<div class="scroll long"><table><tr>{head}</tr>\n{body}</table></div>'


def _bar(ratio: float) -> str:
    share = 0.0 if isnan(ratio) else min(max(ratio, 0.0), FULL_BAR_DB) / FULL_BAR_DB
    grade = _grade(ratio)
    return (
        f'<span class="{grade}">{decimal(ratio)}</span><span class="bar">'
        f'<i class="{grade}" style="width:{share:.0%}"></i></span>'
    )


MAX_LINE_CHARACTERS = 160
"""The width of output to a program, which must not be wrapped."""


def print_table(variants: Sequence[Variant], samples: int, console: Console | None = None) -> None:
    """
    Print the table of `ceras-compare`: the noise of each layer in the first variant, and next to it
    the figures of the other variants. The default of `console` is stdout.
    """
    if console is None:
        console = Console(
            width=None if sys.stdout.isatty() else MAX_LINE_CHARACTERS, highlight=False
        )
    first, rest = variants[0], variants[1:]
    console.print(_layers(first, rest))
    console.print(f"\n{samples} sample(s), {first.name} against {first.reference}", markup=False)
    if first.rescalings is not None:
        before, after = first.rescalings
        console.print(f"requantizations at run time: {after} ({before} before scale alignment)")
    console.print(_metrics(first, rest))
    for layer in worst_layers(first.layers):
        ratio = decimal(layer.isolated_ratio)
        share = "" if layer.share is None else f", {layer.share:.0%} of the noise at the outputs"
        console.print(f"\n{layer.name} ({layer.operator}), {ratio} dB alone{share}:", markup=False)
        for text in remedies(layer, first.recipe, adjustable=first.adjustable):
            console.print(f"  - {text}", markup=False)
    for text in first.remedies:
        # A command remains on a single line, so that it can be copied.
        console.print(f"\n{text}", markup=False, soft_wrap=True)


def print_proposals(found: Sequence[Proposal], limits: Floors) -> None:
    """
    Print the noise that remains with more bits, and the gain of each set of options that was tried.
    Gains that exceed twice their standard error are first, with a `+`.
    """
    print(f"\nwith fewer roundings: {limits}")
    print("other options, on inputs not used for calibration:")
    for proposal in sorted(found, key=lambda p: not p.helps):
        print(f"  {'+' if proposal.helps else ' '} {proposal}")
    if not any(proposal.helps for proposal in found):
        print("no gain exceeds twice the standard error")


def _layers(first: Variant, rest: Sequence[Variant]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("layer", max_width=36, overflow="fold")
    table.add_column("operation")
    has_steps = any(layer.reference_scale is not None for layer in first.layers)
    shares = ("of the noise",) if any(layer.share is not None for layer in first.layers) else ()
    columns = ("scale", "range", "clipped", *shares, "alone dB", "accumulated dB")
    for name in (*(("scale before",) if has_steps else ()), *columns):
        table.add_column(name, justify="right")
    for variant in rest:
        table.add_column(f"{variant.name.removeprefix('recipe ')} dB", justify="right")
    rest_layers = [{(v.name, v.operator): v for v in variant.layers} for variant in rest]
    for layer in first.layers:
        same = [other.get((layer.name, layer.operator)) for other in rest_layers]
        table.add_row(
            escape_markup(layer.name),
            layer.operator,
            *((step(layer.reference_scale),) if has_steps else ()),
            step(layer.scale),
            f"({layer.low:.3g}, {layer.high:.3g})",
            f"{layer.clipped_share:.2%}",
            *(f"{layer.share or 0.0:.1%}" for _ in shares),
            decimal(layer.isolated_ratio),
            decimal(layer.accumulated_ratio),
            *("" if v is None else decimal(v.accumulated_ratio) for v in same),
        )
    return table


def _metrics(first: Variant, rest: Sequence[Variant]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("metric", first.reference, *(variant.name for variant in (first, *rest))):
        table.add_column(escape_markup(name), justify="left" if name == "metric" else "right")
    for metrics in zip(*(variant.metrics for variant in (first, *rest)), strict=True):
        real = "" if metrics[0].real is None else number(metrics[0].real)
        table.add_row(escape_markup(metrics[0].name), real, *map(_with_error, metrics))
    return table


def _with_error(metric: Measured) -> str:
    text = number(metric.quantized)
    return text if metric.error is None else f"{text} ± {metric.error:.2g}"
