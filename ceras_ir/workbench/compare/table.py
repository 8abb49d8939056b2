"""Print the table of `ceras-compare`: layers, metrics, and the worst layers."""

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ceras_ir.workbench.compare.page import decimal, number, step
from ceras_ir.workbench.compare.proposals import Proposal, remedies, worst_layers
from ceras_ir.workbench.compare.variants import Variant
from ceras_ir.workbench.metrics.figures import Measured

WIDTH = 160
"""The width of output to a program, which must not be wrapped."""


def print_table(variants: Sequence[Variant], samples: int, console: Console | None = None) -> None:
    """Print the first variant, and the differences of the other variants; by default on stdout."""
    if console is None:
        console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)
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


def print_proposals(found: Sequence[Proposal]) -> None:
    """Print the gains of other options, significant gains first."""
    print("\nother options, on inputs not used for calibration:")
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
    others = [{(v.name, v.operator): v for v in variant.layers} for variant in rest]
    for layer in first.layers:
        same = [other.get((layer.name, layer.operator)) for other in others]
        table.add_row(
            escape(layer.name),
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
        table.add_column(escape(name), justify="left" if name == "metric" else "right")
    for metrics in zip(*(variant.metrics for variant in (first, *rest)), strict=True):
        real = "" if metrics[0].real is None else number(metrics[0].real)
        table.add_row(escape(metrics[0].name), real, *map(_with_error, metrics))
    return table


def _with_error(metric: Measured) -> str:
    text = number(metric.quantized)
    return text if metric.error is None else f"{text} ± {metric.error:.2g}"
