"""
Draw the pictures of a report as SVG: a memory plan, a network, and the roofline of each device.

1. Memory plan: steps from left to right, addresses from bottom to top. Each value is a rectangle
   over the steps and bytes that it occupies, with the name as a tooltip. A line shows the bytes in
   use.
2. Network: operations in order from top to bottom, straight edges to the next operation, and arcs
   at the side for other edges. Networks are mostly chains, so no layout search is needed.
3. Roofline: the layers of each device, products per second over products per byte.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import cycle
from math import log10

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.dialects.mem import CPU
from ceras_ir.pipeline import report
from ceras_ir.transforms.memory.offsets import gap
from ceras_ir.workbench.pages import decades, round_numbers, shortened
from ceras_ir.workbench.report.content import (
    Device,
    DrawnBuffer,
    DrawnPlan,
    DrawnRegion,
    Row,
    content_of,
)

MAP_WIDTH, MAP_HEIGHT = 1100, 480
MAP_LEFT, MAP_TOP, MAP_RIGHT, MAP_BOTTOM = 72, 12, 12, 28
"""Margins of the picture; axis labels are at the left and bottom."""
PLAN_COLOURS = ("#5b8def", "#e08a3c", "#4fb286", "#a77bd8")
"""The colours of the CPU, and of the other devices in alphabetical order."""
INPUT = "#9aa5b1"

PLAN_STYLE = """\
<style>
.memory svg { width: 100%; height: auto; display: block; }
.memory rect { stroke: var(--paper, #fff); stroke-width: 0.6; fill-opacity: 0.8; }
.memory rect:hover { fill-opacity: 1; stroke: var(--ink, #222); }
.memory text { font: 10px system-ui, sans-serif; pointer-events: none; }
.memory .name { fill: #10151c; }
.memory .axis { stroke: var(--line, #ddd); stroke-width: 0.5; }
.memory .number { fill: var(--soft, #666); text-anchor: end; }
.memory .step { fill: var(--soft, #666); text-anchor: middle; }
.memory .alive { fill: none; stroke: var(--bad, #c0392b); stroke-width: 1.5; pointer-events: none; }
.memory .border { stroke: var(--ink, #222); stroke-dasharray: 4 3; }
.memory .key { display: inline-block; width: 0.8em; height: 0.8em; margin: 0 0.4em 0 0.9em;
  border-radius: 2px; }
.memory .key.line { height: 0.2em; vertical-align: middle; background: var(--bad, #c0392b); }
</style>"""


def memory_picture(plan: DrawnPlan) -> str:
    """Draw the plan as part of a page."""
    summary = (
        f"{plan.steps} steps, {len(plan.buffers)} buffers of values, peak {plan.size:,} bytes, "
        f"lower bound {plan.lower_bound:,}, gap {gap(plan.size, plan.lower_bound):.2%}"
    )
    colours = dict(zip(_devices(plan), cycle(PLAN_COLOURS), strict=False))
    legend = "".join(
        f'<span class="key" style="background:{c}"></span>{escape(d)}' for d, c in colours.items()
    )
    if any(not buffer.device for buffer in plan.buffers):
        legend += f'<span class="key" style="background:{INPUT}"></span>inputs, constants'
    count, size = max(plan.steps, 1), max(plan.size, 1)
    base, height = {"": 0}, 0
    shapes = [*_axes(count, size)]
    for region in plan.regions:
        base[region.name] = height
        height += region.size
        shapes += _border(region, height, size)
    for buffer in plan.buffers:
        shapes += _shapes(buffer, base.get(buffer.region, 0), count, size, colours)
    shapes.append(_alive(plan, count, size))
    drawn = "\n".join(shapes)
    return (
        f'{PLAN_STYLE}\n<div class="memory">\n<p class="soft">{summary}<br>'
        f"steps from left to right, addresses from bottom to top; computed on{legend}"
        '<span class="key line"></span>bytes alive</p>\n'
        f'<svg viewBox="0 0 {MAP_LEFT + MAP_WIDTH + MAP_RIGHT} '
        f'{MAP_TOP + MAP_HEIGHT + MAP_BOTTOM}" role="img" aria-label="memory plan">'
        f"\n{drawn}\n</svg>\n</div>"
    )


def _devices(plan: DrawnPlan) -> list[str]:
    known = {buffer.device for buffer in plan.buffers if buffer.device}
    return sorted(known, key=lambda device: (device != CPU, device))


def _across(step: float, count: int) -> float:
    return MAP_LEFT + MAP_WIDTH * step / count


def _up(bytes_: float, size: int) -> float:
    return MAP_TOP + MAP_HEIGHT * (1 - bytes_ / size)


def _axes(count: int, size: int) -> Iterator[str]:
    unit, name = (1024, "KiB") if size >= 4096 else (1, "B")
    right, bottom = MAP_LEFT + MAP_WIDTH, MAP_TOP + MAP_HEIGHT
    for tick in round_numbers(size // unit):
        y = _up(tick * unit, size)
        yield f'<line class="axis" x1="{MAP_LEFT}" y1="{y:.2f}" x2="{right}" y2="{y:.2f}"/>'
        yield f'<text class="number" x="{MAP_LEFT - 6}" y="{y + 3:.2f}">{tick:,} {name}</text>'
    for tick in round_numbers(count):
        x = _across(tick, count)
        yield f'<line class="axis" x1="{x:.2f}" y1="{MAP_TOP}" x2="{x:.2f}" y2="{bottom}"/>'
        yield f'<text class="step" x="{x:.2f}" y="{MAP_TOP + MAP_HEIGHT + 16}">{tick}</text>'


def _border(region: DrawnRegion, end: int, size: int) -> Iterator[str]:
    y, name = _up(end, size), escape(region.name)
    text = f"{name}: {region.size:,} of {region.capacity:,} bytes"
    right = MAP_LEFT + MAP_WIDTH
    yield f'<line class="border" x1="{MAP_LEFT}" y1="{y:.2f}" x2="{right}" y2="{y:.2f}"/>'
    yield f'<text class="name" x="{MAP_LEFT + 4}" y="{y + 12:.2f}">{text}</text>'


def _alive(plan: DrawnPlan, count: int, size: int) -> str:
    points: list[str] = []
    for step in range(count):
        y = _up(min(plan.alive(step), size), size)
        points += [f"{_across(step, count):.2f},{y:.2f}", f"{_across(step + 1, count):.2f},{y:.2f}"]
    return f'<polyline class="alive" points="{" ".join(points)}"/>'


def _shapes(
    buffer: DrawnBuffer, base: int, count: int, size: int, colours: Mapping[str, str]
) -> Iterator[str]:
    x = _across(buffer.first_step, count)
    width = MAP_WIDTH * (buffer.end_step - buffer.first_step) / count
    height = MAP_HEIGHT * buffer.size / size
    y = _up(base + buffer.offset, size) - height
    stop = buffer.offset + buffer.size
    memory = f" of {buffer.region}" if buffer.region else ""
    where = (
        f"{buffer.name}: bytes{memory} [{buffer.offset:,}, {stop:,}), "
        f"steps [{buffer.first_step}, {buffer.end_step})"
    )
    place = f'x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"'
    colour = colours.get(buffer.device, INPUT)
    yield f'<rect {place} rx="1.5" fill="{colour}"><title>{escape(where)}</title></rect>'
    if width > 6 * len(buffer.name) and height > 12:
        yield f'<text class="name" x="{x + 4:.2f}" y="{y + 12:.2f}">{escape(buffer.name)}</text>'


ROW_HEIGHT, BOX_HEIGHT, BOX_WIDTH, BOX_LEFT = 40, 28, 470, 10
"""Pixels: the distance, height and width of boxes, and the left margin."""
LANE, LANES = 12, 14
"""Pixels between arcs, and the number of lanes for arcs."""
LONGEST_NAME, LONGEST_OP = 34, 18
"""The maximum characters of the parts of a label."""

DEVICE_COLOURS = ("#5b8def", "#e08a3c", "#4fb286", "#a77bd8", "#d8607f", "#8c9bab")
"""The colours of devices, in the order of appearance."""

GRAPH_STYLE = """\
<style>
.graph .box { fill: var(--panel, #f6f8fa); stroke: var(--line, #c9d1d9); }
.graph g:hover .box, .graph .chosen .box { stroke: var(--accent, #2f6fb5); stroke-width: 1.6; }
.graph .border .box { stroke-dasharray: 3 2; }
.graph text { font: 12px system-ui, sans-serif; fill: var(--ink, #222); }
.graph .op { font-weight: 600; }
.graph .name { fill: var(--soft, #5d6b7a); }
.graph .shape { fill: var(--soft, #5d6b7a); font-size: 11px; text-anchor: end; }
.graph .edge { fill: none; stroke: var(--soft, #8c959f); }
.graph .arc { fill: none; stroke: var(--accent, #2f6fb5); stroke-opacity: 0.55; }
.graph .load { fill: var(--bad, #c0392b); fill-opacity: 0.75; }
.graph [data-layer] { cursor: pointer; }
</style>"""


@dataclass(frozen=True)
class DrawnNode:
    """A box of the picture, which represents an operation or a graph input."""

    op: str
    name: str
    shape: str = ""
    colour: str = "#8c9bab"
    layer: int | None = None
    load: float = 0.0
    """The time, as a share of the longest layer's."""
    title: str = ""
    """The tooltip."""


def module_picture(module: ModuleOp) -> str:
    """Draw the function `main` as SVG."""
    layers = [layer.to_json() for layer in report.layers(module)]
    entries: dict[str, object] = {"layers": layers, "results": report.results(module)}
    content = content_of(entries, "", "")
    return graph_picture(content.layers, content.input_names, content.results)


def devices_of(rows: Sequence[Row]) -> dict[str, str]:
    """Return the colour of each device."""
    known = dict.fromkeys(row.device for row in rows)
    return {device: DEVICE_COLOURS[i % len(DEVICE_COLOURS)] for i, device in enumerate(known)}


def graph_picture(
    rows: Sequence[Row], inputs: Sequence[str], results: Mapping[str, int | str]
) -> str:
    """Draw layers between the inputs and outputs of the network as SVG."""
    nodes = [DrawnNode("input", name) for name in inputs]
    place: dict[int | str, int] = {name: i for i, name in enumerate(inputs)}
    edges: list[tuple[int, int]] = []
    colours = devices_of(rows)
    longest = max((row.microseconds or 0.0 for row in rows), default=0.0)
    for row in rows:
        sources = [place[source] for source in row.inputs if source in place]
        # An operation with only constant operands, such as encoded weights, is a constant too.
        if not sources:
            continue
        place[row.number] = len(nodes)
        edges += [(source, len(nodes)) for source in sorted(sources)]
        nodes.append(_node(row, colours[row.device], longest))
    for name, source in results.items():
        if source in place:
            edges.append((place[source], len(nodes)))
        nodes.append(DrawnNode("output", name))
    return _svg(nodes, edges)


def _node(row: Row, colour: str, longest: float) -> DrawnNode:
    load = (row.microseconds or 0.0) / longest if longest else 0.0
    title = f"{row.name} ({row.op}) on {row.device}" + (f": {row.reason}" if row.reason else "")
    unnamed = row.name.startswith(f"graph.{row.op.partition(' ')[0]}")
    shape = "x".join(map(str, row.shape))
    return DrawnNode(row.op, "" if unnamed else row.name, shape, colour, row.number, load, title)


def _svg(nodes: Sequence[DrawnNode], edges: Sequence[tuple[int, int]]) -> str:
    width, height = BOX_LEFT + BOX_WIDTH + LANE * (LANES + 2), ROW_HEIGHT * len(nodes) + 10
    parts = [GRAPH_STYLE, *_lines(edges), *_boxes(nodes)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" style="max-width:100%;height:auto" role="img" '
        f'aria-label="graph">{"".join(parts)}</svg>'
    )


def _boxes(nodes: Sequence[DrawnNode]) -> Iterator[str]:
    for row, node in enumerate(nodes):
        y = 5 + ROW_HEIGHT * row
        op, name = shortened(node.op, LONGEST_OP), shortened(node.name, LONGEST_NAME)
        kind = ' class="border"' if node.layer is None else f' data-layer="{node.layer}"'
        title = escape(node.title or f"{node.op} {node.name}")
        at = BOX_LEFT + 14 + 7.4 * len(op) + 10
        load = ""
        if node.load > 0.005:
            load = (
                f'<rect class="load" x="{BOX_LEFT + 4}" y="{y + BOX_HEIGHT - 3}" height="3" '
                f'width="{(BOX_WIDTH - 4) * node.load:.1f}"/>'
            )
        yield (
            f'<g{kind}><title>{title}</title><rect class="box" x="{BOX_LEFT}" y="{y}" '
            f'width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6"/><rect x="{BOX_LEFT}" y="{y}" '
            f'width="4" height="{BOX_HEIGHT}" rx="2" fill="{node.colour}"/>{load}'
            f'<text class="op" x="{BOX_LEFT + 14}" y="{y + 18}">{escape(op)}</text>'
            f'<text class="name" x="{at:.0f}" y="{y + 18}">{escape(name)}</text>'
            f'<text class="shape" x="{BOX_LEFT + BOX_WIDTH - 10}" y="{y + 18}">{node.shape}</text>'
            "</g>"
        )


def _lines(edges: Sequence[tuple[int, int]]) -> Iterator[str]:
    middle, right = BOX_LEFT + BOX_WIDTH / 2, BOX_LEFT + BOX_WIDTH
    lane_ends: list[int] = []  # The row of the end of the last arc in each lane.
    for source, target in sorted(edges):
        top, bottom = 5 + ROW_HEIGHT * source + BOX_HEIGHT, 5 + ROW_HEIGHT * target
        if target == source + 1:
            yield f'<path class="edge" d="M{middle} {top}V{bottom}"/>'
            continue
        lane = next((i for i, end in enumerate(lane_ends) if end <= source), len(lane_ends))
        lane_ends[lane : lane + 1] = [target]
        x = right + LANE * (lane % LANES + 1)
        start, stop = top - BOX_HEIGHT / 2, bottom + BOX_HEIGHT / 2
        yield (
            f'<path class="arc" d="M{right} {start}H{x - 6}Q{x} {start} {x} {start + 6}V{stop - 6}'
            f'Q{x} {stop} {x - 6} {stop}H{right}"/>'
        )


PLOT_WIDTH, PLOT_HEIGHT = 1000, 340
PLOT_LEFT, PLOT_BELOW, PLOT_ABOVE, PLOT_RIGHT = 74, 40, 14, 20
MIN_RADIUS, MAX_RADIUS = 2.5, 9.0
"""The radius of dots; the area is the share of the time of a layer."""


@dataclass(frozen=True)
class _Axes:
    """The ranges of two logarithmic axes, as powers of ten, and the conversion to coordinates."""

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
    """Draw the roofline; return `None` if no layer has products and a time."""
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
        *(_roof(axes, device, colours.get(device.device, "#888")) for device in devices),
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
            f'r="{radius:.1f}" fill="{colours.get(row.device, "#888")}">'
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
