"""Render parts of HTML pages: templates, tables, axes, and plots of the noise of layers."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files
from math import floor, isfinite, isinf, isnan, log10
from typing import TYPE_CHECKING

from ceras_ir.transforms.quantization.analysis.layer_noise import LayerNoise

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

SEPARATOR = re.compile(r"[/_]+(?=\w)|\.(?=[^\W\d])|(?<=[a-z])(?=[A-Z])")
"""The end of a part of a name, such as `Average` in `AveragePool`; numbers have none."""


def render(template: str, values: Mapping[str, object]) -> str:
    """Return the HTML page of the template file `template` of this folder, filled with `values`."""
    shared = {"style": _read("style.css"), "script": _read("script.js")}
    return _environment().get_template(template).render({**values, **shared}) + "\n"


@cache
def _read(name: str) -> str:
    return (files("ceras_ir.workbench.pages") / name).read_text(encoding="utf-8")


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(_read),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = breakable
    return environment


def breakable(text: str) -> "Markup":
    """Return HTML for a long name, in which lines may break after separators such as slashes."""
    from markupsafe import Markup

    # An escape such as `&amp;` has none of these characters.
    return Markup(SEPARATOR.sub(r"\g<0><wbr>", escape(text)))


@dataclass(frozen=True)
class Card:
    """A number that a page shows in large letters, with a label."""

    label: str
    value: str
    unit: str = ""
    note: str = ""
    share: float | None = None
    """The length of a bar below the number, from 0 to 1."""
    change: str = ""
    verdict: str = ""


@dataclass(frozen=True)
class StackShare:
    """A segment of a stacked bar: `share` (from 0 to 1) of the total."""

    name: str
    share: float
    value: str
    colour: str


@dataclass(frozen=True)
class Split:
    """A stacked bar on a page: a total that is divided into labelled shares."""

    title: str
    parts: Sequence[StackShare]


@dataclass(frozen=True)
class Column:
    """A column of a table on a page. A click on the title sorts the rows."""

    title: str
    kind: str = ""
    """The class of cells: `name` and `text` are aligned to the left, numbers to the right."""
    help: str = ""

    @property
    def numeric(self) -> bool:
        """Whether rows are sorted by numbers in this column, not by text."""
        return not self.kind


@dataclass(frozen=True)
class TableCell:
    """A cell of a table on a page: the text, the number by which rows are sorted, and the look."""

    text: str
    number: float | None = None
    share: float | None = None
    grade: str = ""
    colour: str = ""
    link: str = ""


@dataclass(frozen=True)
class Line:
    """
    A row of a table on a page. `layer` is the number of the layer that it describes; a click
    selects it.
    """

    cells: Sequence[TableCell]
    layer: int | None = None


@dataclass(frozen=True)
class Table:
    """A table on a page. `filtered` adds a field to search for rows."""

    name: str
    columns: Sequence[Column]
    rows: Sequence[Line] = field(default_factory=list[Line])
    filtered: bool = False


@dataclass(frozen=True)
class Chip:
    """A label on a page: a few words in a frame."""

    text: str
    colour: str = ""


EXACT_DB = 999.0
"""The sort key, in decibels, of exact layers."""

BYTE_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
TIMES = ((1e6, "s"), (1e3, "ms"), (1.0, "\N{MICRO SIGN}s"))
COUNTS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def size(value: float) -> tuple[str, str]:
    """Return a number of bytes as two texts: the number, and a unit such as kB."""
    return _scaled(value, BYTE_UNITS, "bytes")


def duration(microseconds: float) -> tuple[str, str]:
    """Return a time as two texts: the number, and a unit such as ms."""
    return _scaled(microseconds, TIMES, "\N{MICRO SIGN}s")


def amount(value: float) -> tuple[str, str]:
    """Return a count as two texts: the number, and a prefix such as M."""
    return _scaled(value, COUNTS, "")


def _scaled(value: float, units: Sequence[tuple[float, str]], default: str) -> tuple[str, str]:
    for factor, unit in units:
        if abs(value) >= factor:
            scaled = value / factor
            digits = 0 if abs(scaled) >= 100 else 1 if abs(scaled) >= 10 else 2
            return f"{scaled:,.{digits}f}", unit
    return f"{value:,.3g}", default


def together(pair: tuple[str, str]) -> str:
    """Join a number and a unit by a space, unless one is empty."""
    return " ".join(part for part in pair if part)


def whole(value: float | None) -> TableCell:
    """Return a count as a table cell without digits after the point; an empty cell for `None`."""
    if value is None:
        return TableCell("")
    return TableCell(f"{value:,.0f}", value)


def some(value: float) -> TableCell:
    """Return a count as a table cell; an empty cell for 0."""
    return whole(value) if value else TableCell("", 0.0)


def decibels(value: float, fair: float = 30.0, poor: float = 20.0) -> TableCell:
    """
    Return a signal-to-noise ratio in dB as a table cell: "exact" if infinite, "n/a" for NaN. The
    cell is colored in one way below `fair`, and in another below `poor`.
    """
    if isnan(value):
        return TableCell("n/a")
    if isinf(value):
        return TableCell("exact", EXACT_DB)
    return TableCell(
        f"{value:.1f}", value, grade="bad" if value < poor else "fair" if value < fair else ""
    )


def round_numbers(end: int, max_steps: int = 12) -> range:
    """
    Return equidistant round numbers from 0 to at most `end`, for the ticks of an axis. The distance
    is 1, 2 or 5 times a power of ten, so that there are at most `max_steps` steps.
    """
    steps = (digit * 10**power for power in range(20) for digit in (1, 2, 5))
    return range(0, end + 1, next(step for step in steps if end <= max_steps * step))


def decades(low: float, high: float) -> list[int]:
    """
    Return the exponents of the powers of ten from at most `low` to above `high`, for a logarithmic
    axis.
    """
    first, last = floor(log10(low)), floor(log10(high))
    return list(range(first, last + 2))


RATIO_WIDTH, HEIGHT, LEFT, BELOW, ABOVE = 1000, 300, 60, 34, 10
MIN_TOP_DB = 60.0
"""The minimum upper end of the plot in decibels."""
MAX_LEVELS = 9
"""The maximum number of steps of the decibel axis."""
PLOT_LABELS = 12
"""The approximate number of labelled layers below the plot."""


@dataclass(frozen=True)
class Ratio:
    """
    The signal-to-noise ratios of a layer, in dB, for two curves of a plot: infinite if exact,
    `None` for a gap.
    """

    name: str
    operator: str
    first: float | None
    second: float | None
    share: float | None = None
    """The share of the noise at the outputs."""


def ratios(layers: Sequence[LayerNoise], second: Sequence[LayerNoise] | None) -> str:
    """
    Return a plot (SVG) with two signal-to-noise ratios for each layer. The first is accumulated: it
    includes the noise of all preceding layers. The other is the accumulated ratio of a `second`
    variant; without one, it is isolated: the noise of the layer only.
    """
    second_ratios = {(v.name, v.operator): v.accumulated_ratio for v in second or ()}
    return ratio_plot(
        [
            Ratio(
                v.name,
                v.operator,
                v.accumulated_ratio,
                second_ratios.get((v.name, v.operator)) if second_ratios else v.isolated_ratio,
                v.share,
            )
            for v in layers
        ],
        ("accumulated", "second variant" if second_ratios else "alone"),
    )


def ratio_plot(layers: Sequence[Ratio], words: tuple[str, str]) -> str:
    """
    Return a plot (SVG) of the ratios of all layers as two curves, named by `words`, and of their
    shares of the noise at the outputs as columns.
    """
    pairs = [(_available(layer.first), _available(layer.second)) for layer in layers]
    finite = [r for pair in pairs for r in pair if r is not None and isfinite(r)]
    top = max(MIN_TOP_DB, 10.0 * (int(max(finite, default=0.0)) // 10 + 1))
    bottom = min(0.0, 10.0 * (int(min(finite, default=0.0)) // 10))
    slot = (RATIO_WIDTH - LEFT) / max(len(layers), 1)

    def x(index: int) -> float:
        return LEFT + (index + 0.5) * slot

    def y(ratio: float) -> float:
        inside = (min(max(ratio, bottom), top) - bottom) / (top - bottom)
        return HEIGHT - BELOW - inside * (HEIGHT - BELOW - ABOVE)

    lines = [f'<svg viewBox="0 0 {RATIO_WIDTH} {HEIGHT}" role="img">']
    lower, upper = int(bottom), int(top)
    step = round_numbers(upper - lower, MAX_LEVELS).step
    for level in range(-(-lower // step) * step, upper + 1, step):
        at = y(level)
        lines.append(
            f'<line class="grid" x1="{LEFT}" x2="{RATIO_WIDTH}" y1="{at:.1f}" y2="{at:.1f}"/>'
        )
        lines.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{level} dB</text>')
    every = max(1, round(len(layers) / PLOT_LABELS))
    for i in range(0, len(layers), every):
        lines.append(f'<text x="{x(i):.1f}" y="{HEIGHT - 14}" text-anchor="middle">{i + 1}</text>')
    lines += _columns(layers, x, slot)
    for side, style in ((1, "b"), (0, "a")):
        points = [(i, r) for i, pair in enumerate(pairs) if (r := pair[side]) is not None]
        path = " ".join(f"{x(i):.1f},{y(r):.1f}" for i, r in points)
        lines.append(f'<polyline class="line {style}" points="{path}"/>')
    for i, (layer, pair) in enumerate(zip(layers, pairs, strict=True)):
        text = ", ".join(
            f"{word} {'exact' if not isfinite(r) else f'{r:.1f} dB'}"
            for word, r in zip(words, pair, strict=True)
            if r is not None
        )
        text += "" if layer.share is None else f", {layer.share:.1%} of the noise at the outputs"
        lines.append(
            f"<g><title>{i + 1}. {escape(layer.name)} ({escape(layer.operator)}): {text}</title>"
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
    largest = max((layer.share or 0.0 for layer in layers), default=0.0)
    for i, layer in enumerate(layers):
        if layer.share:
            tall = (HEIGHT - BELOW - ABOVE) / 2 * layer.share / largest
            yield (
                f'<rect class="share" x="{x(i) - slot * 0.4:.1f}" '
                f'y="{HEIGHT - BELOW - tall:.1f}" width="{slot * 0.8:.1f}" height="{tall:.1f}"/>'
            )


def histogram(layer: LayerNoise) -> str:
    """
    Return a plot (SVG) of the distribution of the values of a layer, and of the range that the
    stored integers represent.
    """
    width, height = 260, 60
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
