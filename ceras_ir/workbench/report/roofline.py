"""Draw the roofline: the layers of each device, products per second over products per byte."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import log10

from ceras_ir.workbench.pages import decades
from ceras_ir.workbench.report.content import Device, Row

PLOT_WIDTH, PLOT_HEIGHT = 1000, 340
PLOT_LEFT, PLOT_BELOW, PLOT_ABOVE, PLOT_RIGHT = 90, 40, 14, 34
UNUSED_COLOUR = "#888888"
"""The colour of a device without layers."""
MIN_RADIUS, MAX_RADIUS = 2.5, 9.0
"""The radius of dots; the area is the share of the time of a layer."""


@dataclass(frozen=True)
class _Axes:
    """
    Two logarithmic axes: their ranges as exponents of ten, and the conversion of values to
    coordinates.
    """

    x: tuple[int, int]
    y: tuple[int, int]

    def across(self, value: float) -> float:
        low, high = self.x
        width = PLOT_WIDTH - PLOT_LEFT - PLOT_RIGHT
        return PLOT_LEFT + (log10(value) - low) / (high - low) * width

    def up(self, value: float) -> float:
        low, high = self.y
        height = PLOT_HEIGHT - PLOT_BELOW - PLOT_ABOVE
        return PLOT_HEIGHT - PLOT_BELOW - (log10(value) - low) / (high - low) * height


def roofline(rows: Sequence[Row], devices: Sequence[Device], colours: dict[str, str]) -> str | None:
    """
    Return a plot (SVG) of products per microsecond over products per byte, for each layer and, as a
    line, for the limits of each device. Return `None` if no layer has products and a time.
    """
    known = {device.device: device for device in devices}
    dots = [
        (row, row.macs / row.bytes, row.macs / row.microseconds)
        for row in rows
        if row.macs and row.bytes and row.microseconds and row.device in known
    ]
    if not dots:
        return None
    intensities, rates = [x for _, x, _ in dots], [y for *_, y in dots]
    ridges = [device.macs_per_us / device.bytes_per_us for device in devices]
    xs = decades(min(intensities), max(*intensities, *ridges))
    ys = decades(min(rates), max(*rates, *(device.macs_per_us for device in devices)))
    axes = _Axes((xs[0], xs[-1]), (ys[0], ys[-1]))
    longest = max(row.microseconds or 0.0 for row, *_ in dots)
    parts = [
        f'<svg viewBox="0 0 {PLOT_WIDTH} {PLOT_HEIGHT}" role="img" aria-label="roofline" '
        'class="roofline">',
        *_grid(axes, xs, ys),
        *(_roof(axes, device, colours.get(device.device, UNUSED_COLOUR)) for device in devices),
    ]
    for row, x, y in sorted(dots, key=lambda dot: -(dot[0].microseconds or 0.0)):
        share = (row.microseconds or 0.0) / longest
        radius = max(MIN_RADIUS, MAX_RADIUS * share**0.5)
        title = (
            f"{row.name} ({row.op}): {x:,.1f} products a byte, {y / 1000:,.2f} G a second, "
            f"{row.microseconds:,.1f} us"
        )
        parts.append(
            f'<circle data-layer="{row.number}" cx="{axes.across(x):.1f}" cy="{axes.up(y):.1f}" '
            f'r="{radius:.1f}" fill="{colours.get(row.device, UNUSED_COLOUR)}">'
            f"<title>{escape(title)}</title></circle>"
        )
    return "\n".join([*parts, "</svg>"])


def _grid(axes: _Axes, xs: Sequence[int], ys: Sequence[int]) -> Iterator[str]:
    bottom, right = PLOT_HEIGHT - PLOT_BELOW, PLOT_WIDTH - PLOT_RIGHT
    for exponent in xs:
        x = axes.across(10.0**exponent)
        yield f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{PLOT_ABOVE}" y2="{bottom}"/>'
        yield f'<text class="tick" x="{x:.1f}" y="{bottom + 16}">{_power(exponent)}</text>'
    for exponent in ys:
        y = axes.up(10.0**exponent)
        yield f'<line class="axis" x1="{PLOT_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        # A product per microsecond is 10^6 per second.
        yield f'<text class="end" x="{PLOT_LEFT - 8}" y="{y + 4:.1f}">{_rate(exponent + 6)}</text>'
    middle, words = (PLOT_LEFT + right) / 2, "products per byte moved"
    yield f'<text class="tick" x="{middle}" y="{PLOT_HEIGHT - 4}">{words}</text>'


def _power(exponent: int) -> str:
    return f"{10.0**exponent:g}" if -3 <= exponent <= 5 else f"1e{exponent}"


def _rate(exponent: int) -> str:
    thousands = exponent // 3
    prefix = ("", "k", "M", "G", "T", "P")[max(0, min(thousands, 5))]
    return f"{10 ** (exponent - 3 * thousands)} {prefix}MAC/s"


def _roof(axes: _Axes, device: Device, colour: str) -> str:
    ridge = device.macs_per_us / device.bytes_per_us
    low, high = (10.0**exponent for exponent in axes.x)
    # The slope can begin below the lowest line.
    start = max(low, 10.0 ** axes.y[0] / device.bytes_per_us)
    points = [(start, min(start * device.bytes_per_us, device.macs_per_us))]
    points += [(ridge, device.macs_per_us)] if ridge > start else []
    points.append((high, device.macs_per_us))
    path = " ".join(f"{axes.across(x):.1f},{axes.up(y):.1f}" for x, y in points)
    title = (
        f"{device.device}: {device.macs_per_us / 1000:,.1f} G products, "
        f"{device.bytes_per_us / 1000:,.1f} GB a second"
    )
    return (
        f'<polyline class="roof" points="{path}" style="stroke:{colour}">'
        f"<title>{escape(title)}</title></polyline>"
    )
