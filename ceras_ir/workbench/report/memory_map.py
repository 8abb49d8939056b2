"""
Draw a memory plan: steps from left to right, addresses from bottom to top.

Each value is a rectangle over the steps and bytes that it occupies, with the name as a tooltip. A
line shows the bytes in use.
"""

from collections.abc import Iterator, Mapping
from html import escape
from itertools import cycle

from ceras_ir.dialects.mem import CPU
from ceras_ir.transforms.memory.offsets import gap
from ceras_ir.workbench.pages.rendering import round_numbers
from ceras_ir.workbench.report.content import Buffer, Plan, Region

WIDTH, HEIGHT = 1100, 480
LEFT, TOP, RIGHT, BOTTOM = 72, 12, 12, 28
"""Margins of the picture; axis labels are at the left and bottom."""
COLOURS = ("#5b8def", "#e08a3c", "#4fb286", "#a77bd8")
"""The colours of the CPU, and of the other devices in alphabetical order."""
INPUT = "#9aa5b1"

STYLE = """\
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


def memory_picture(plan: Plan) -> str:
    """Draw the plan as part of a page."""
    summary = (
        f"{plan.steps} steps, {len(plan.buffers)} buffers of values, peak {plan.size:,} bytes, "
        f"lower bound {plan.lower_bound:,}, gap {gap(plan.size, plan.lower_bound):.2%}"
    )
    colours = dict(zip(_devices(plan), cycle(COLOURS), strict=False))
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
        f'{STYLE}\n<div class="memory">\n<p class="soft">{summary}<br>'
        f"steps from left to right, addresses from bottom to top; computed on{legend}"
        '<span class="key line"></span>bytes alive</p>\n'
        f'<svg viewBox="0 0 {LEFT + WIDTH + RIGHT} {TOP + HEIGHT + BOTTOM}" role="img" '
        f'aria-label="memory plan">\n{drawn}\n</svg>\n</div>'
    )


def _devices(plan: Plan) -> list[str]:
    known = {buffer.device for buffer in plan.buffers if buffer.device}
    return sorted(known, key=lambda device: (device != CPU, device))


def _across(step: float, count: int) -> float:
    return LEFT + WIDTH * step / count


def _up(bytes_: float, size: int) -> float:
    return TOP + HEIGHT * (1 - bytes_ / size)


def _axes(count: int, size: int) -> Iterator[str]:
    unit, name = (1024, "KiB") if size >= 4096 else (1, "B")
    for tick in round_numbers(size // unit):
        y = _up(tick * unit, size)
        yield f'<line class="axis" x1="{LEFT}" y1="{y:.2f}" x2="{LEFT + WIDTH}" y2="{y:.2f}"/>'
        yield f'<text class="number" x="{LEFT - 6}" y="{y + 3:.2f}">{tick:,} {name}</text>'
    for tick in round_numbers(count):
        x = _across(tick, count)
        yield f'<line class="axis" x1="{x:.2f}" y1="{TOP}" x2="{x:.2f}" y2="{TOP + HEIGHT}"/>'
        yield f'<text class="step" x="{x:.2f}" y="{TOP + HEIGHT + 16}">{tick}</text>'


def _border(region: Region, end: int, size: int) -> Iterator[str]:
    y, name = _up(end, size), escape(region.name)
    text = f"{name}: {region.size:,} of {region.capacity:,} bytes"
    yield f'<line class="border" x1="{LEFT}" y1="{y:.2f}" x2="{LEFT + WIDTH}" y2="{y:.2f}"/>'
    yield f'<text class="name" x="{LEFT + 4}" y="{y + 12:.2f}">{text}</text>'


def _alive(plan: Plan, count: int, size: int) -> str:
    points: list[str] = []
    for step in range(count):
        y = _up(min(plan.alive(step), size), size)
        points += [f"{_across(step, count):.2f},{y:.2f}", f"{_across(step + 1, count):.2f},{y:.2f}"]
    return f'<polyline class="alive" points="{" ".join(points)}"/>'


def _shapes(
    buffer: Buffer, base: int, count: int, size: int, colours: Mapping[str, str]
) -> Iterator[str]:
    x = _across(buffer.first_step, count)
    width = WIDTH * (buffer.end_step - buffer.first_step) / count
    height = HEIGHT * buffer.size / size
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
