"""
Draw a memory plan as SVG: steps from left to right, addresses from bottom to top.

Each buffer is a rectangle over the steps and bytes that it occupies, with the name as a tooltip,
and as a label if the label fits. A line shows the bytes in use. Workspaces and states, which the
target adds to the planned values, have separate colours.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from itertools import cycle

from ceras_ir.dialects.mem import CPU
from ceras_ir.support.labels import Box, OccupiedBoxes, fitted, text_width
from ceras_ir.transforms.memory.offsets import gap
from ceras_ir.workbench.pages import round_numbers
from ceras_ir.workbench.report.content import DrawnBuffer, DrawnPlan, DrawnRegion

MAP_WIDTH, MAP_HEIGHT = 860, 460
MAP_LEFT, MAP_TOP, MAP_RIGHT, MAP_BOTTOM = 84, 12, 16, 28
"""Margins of the picture; axis labels are at the left and bottom."""
MAP_FONT_SIZE = 11
MAP_LABEL_HEIGHT, MAP_LABEL_MARGIN = 15, 4

PLAN_COLOURS = ("#5b8def", "#e08a3c", "#4fb286", "#a77bd8")
"""The colours of the CPU, and of the other devices in alphabetical order."""
INPUT_COLOUR = "#9aa5b1"
KIND_COLOURS = {"workspace": "#d3b23c", "state": "#d8709f"}
KIND_TITLES = {"workspace": "workspace of a kernel", "state": "state"}

# Pictures in notebooks have no style of a page, so that the colour of text is used.
PLAN_STYLE = """\
<style>
.memory svg { width: 100%; height: auto; display: block; }
.memory rect { stroke: var(--paper, transparent); stroke-width: 0.6; fill-opacity: 0.88; }
.memory rect:hover { fill-opacity: 1; stroke: var(--ink, currentColor); }
.memory text { font: 11px system-ui, sans-serif; pointer-events: none; }
.memory .name { fill: #10151c; }
.memory .region { fill: var(--ink, currentColor); paint-order: stroke; stroke-width: 3;
  stroke: var(--paper, transparent); text-anchor: end; }
.memory .axis { stroke: var(--line, currentColor); stroke-width: 0.5; }
.memory .number { fill: var(--soft, currentColor); text-anchor: end; }
.memory .step { fill: var(--soft, currentColor); text-anchor: middle; }
.memory .alive { fill: none; stroke: var(--bad, #c0392b); stroke-width: 1.5; pointer-events: none; }
.memory .border { stroke: var(--ink, currentColor); stroke-dasharray: 4 3; }
.memory .entry { white-space: nowrap; }
.memory .key { display: inline-block; width: 0.8em; height: 0.8em; margin: 0 0.4em 0 0.9em;
  border-radius: 2px; }
.memory .key.line { height: 0.2em; vertical-align: middle; background: var(--bad, #c0392b); }
</style>"""


def memory_picture(plan: DrawnPlan) -> str:
    """Return HTML with the picture of a memory plan, a summary and a legend."""
    drawing = _Drawing(plan)
    drawn = "\n".join(drawing.shapes())
    size = f"{MAP_LEFT + MAP_WIDTH + MAP_RIGHT} {MAP_TOP + MAP_HEIGHT + MAP_BOTTOM}"
    return (
        f'{PLAN_STYLE}\n<div class="memory">\n<p class="soft">{_summary(plan)}<br>'
        f"steps from left to right, addresses from bottom to top; computed on{_legend(plan)} "
        '<span class="entry"><span class="key line"></span>bytes alive</span></p>\n'
        f'<svg viewBox="0 0 {size}" role="img" aria-label="memory plan">\n{drawn}\n</svg>\n</div>'
    )


def _summary(plan: DrawnPlan) -> str:
    values = sum(not buffer.kind for buffer in plan.buffers)
    text = (
        f"{plan.steps} steps, {values} buffers of values, peak {plan.value_bytes:,} bytes, "
        f"lower bound {plan.lower_bound:,}, gap {gap(plan.value_bytes, plan.lower_bound):.2%}"
    )
    if values < len(plan.buffers):
        text += f"; {plan.size:,} bytes with the workspaces of kernels and the states"
    return text


def _legend(plan: DrawnPlan) -> str:
    keys = [(colour, device) for device, colour in _device_colours(plan).items()]
    if any(not buffer.device and not buffer.kind for buffer in plan.buffers):
        keys.append((INPUT_COLOUR, "inputs, constants"))
    kinds = dict.fromkeys(buffer.kind for buffer in plan.buffers if buffer.kind)
    keys += [(KIND_COLOURS.get(kind, INPUT_COLOUR), KIND_TITLES.get(kind, kind)) for kind in kinds]
    return "".join(
        f' <span class="entry"><span class="key" style="background:{colour}"></span>'
        f"{escape(title)}</span>"
        for colour, title in keys
    )


def _device_colours(plan: DrawnPlan) -> dict[str, str]:
    known = {buffer.device for buffer in plan.buffers if buffer.device}
    ordered = sorted(known, key=lambda device: (device != CPU, device))
    return dict(zip(ordered, cycle(PLAN_COLOURS), strict=False))


@dataclass
class _Drawing:
    plan: DrawnPlan
    occupied: OccupiedBoxes = field(default_factory=OccupiedBoxes)

    def shapes(self) -> Iterator[str]:
        """Yield the SVG elements. Labels follow all rectangles, so that they are not covered."""
        plan = self.plan
        yield from self._axes()
        base, height = {"": 0}, 0
        for region in plan.regions:
            base[region.name] = height
            height += region.size
        colours = _device_colours(plan)
        boxes = [(buffer, self._box(buffer, base.get(buffer.region, 0))) for buffer in plan.buffers]
        for buffer, box in boxes:
            colour = KIND_COLOURS.get(buffer.kind) or colours.get(buffer.device, INPUT_COLOUR)
            yield _rectangle(buffer, box, colour)
        yield self._alive()
        for region in plan.regions:
            yield from self._border(region, base[region.name] + region.size)
        # Large buffers get their labels first.
        for buffer, box in sorted(boxes, key=lambda item: -item[0].size):
            yield from self._label(buffer.name, box)

    def _across(self, step: float) -> float:
        return MAP_LEFT + MAP_WIDTH * step / max(self.plan.steps, 1)

    def _up(self, bytes_: float) -> float:
        return MAP_TOP + MAP_HEIGHT * (1 - bytes_ / max(self.plan.size, 1))

    def _box(self, buffer: DrawnBuffer, base: int) -> Box:
        start = base + buffer.offset
        left, right = self._across(buffer.first_step), self._across(buffer.end_step)
        return Box(left, self._up(start + buffer.size), right, self._up(start))

    def _axes(self) -> Iterator[str]:
        size = self.plan.size
        unit, name = (1024, "KiB") if size >= 4096 else (1, "B")
        right, bottom = MAP_LEFT + MAP_WIDTH, MAP_TOP + MAP_HEIGHT
        for tick in round_numbers(size // unit):
            y = self._up(tick * unit)
            yield f'<line class="axis" x1="{MAP_LEFT}" y1="{y:.2f}" x2="{right}" y2="{y:.2f}"/>'
            yield f'<text class="number" x="{MAP_LEFT - 6}" y="{y + 4:.2f}">{tick:,} {name}</text>'
        for tick in round_numbers(self.plan.steps):
            x = self._across(tick)
            yield f'<line class="axis" x1="{x:.2f}" y1="{MAP_TOP}" x2="{x:.2f}" y2="{bottom}"/>'
            yield f'<text class="step" x="{x:.2f}" y="{bottom + 16}">{tick}</text>'

    def _border(self, region: DrawnRegion, end: int) -> Iterator[str]:
        y, right = self._up(end), MAP_LEFT + MAP_WIDTH
        text = f"{region.name}: {region.size:,} of {region.capacity:,} bytes"
        left = right - MAP_LABEL_MARGIN - text_width(text, MAP_FONT_SIZE)
        yield f'<line class="border" x1="{MAP_LEFT}" y1="{y:.2f}" x2="{right}" y2="{y:.2f}"/>'
        # The label of a low region moves up until it is free.
        top = min(y, MAP_TOP + MAP_HEIGHT - MAP_LABEL_HEIGHT)
        while not self.occupied.take(Box(left, top, right, top + MAP_LABEL_HEIGHT)):
            top -= MAP_LABEL_HEIGHT
        x = right - MAP_LABEL_MARGIN
        yield f'<text class="region" x="{x}" y="{top + 12:.2f}">{escape(text)}</text>'

    def _label(self, name: str, box: Box) -> Iterator[str]:
        text = fitted(name, box.right - box.left - 2 * MAP_LABEL_MARGIN, MAP_FONT_SIZE)
        if not text or box.bottom - box.top < MAP_LABEL_HEIGHT:
            return
        right = box.left + 2 * MAP_LABEL_MARGIN + text_width(text, MAP_FONT_SIZE)
        if self.occupied.take(Box(box.left, box.top, right, box.top + MAP_LABEL_HEIGHT)):
            x, y = box.left + MAP_LABEL_MARGIN, box.top + 12
            yield f'<text class="name" x="{x:.2f}" y="{y:.2f}">{escape(text)}</text>'

    def _alive(self) -> str:
        points: list[str] = []
        for step in range(self.plan.steps):
            y = self._up(min(self.plan.alive(step), self.plan.size))
            points += [f"{self._across(step + i):.2f},{y:.2f}" for i in (0, 1)]
        return f'<polyline class="alive" points="{" ".join(points)}"/>'


def _rectangle(buffer: DrawnBuffer, box: Box, colour: str) -> str:
    stop = buffer.offset + buffer.size
    memory = f" of {buffer.region}" if buffer.region else ""
    kind = f" ({KIND_TITLES.get(buffer.kind, buffer.kind)})" if buffer.kind else ""
    title = (
        f"{buffer.name}{kind}: bytes{memory} [{buffer.offset:,}, {stop:,}), "
        f"steps [{buffer.first_step}, {buffer.end_step})"
    )
    return (
        f'<rect x="{box.left:.2f}" y="{box.top:.2f}" width="{box.right - box.left:.2f}" '
        f'height="{box.bottom - box.top:.2f}" rx="1.5" fill="{colour}">'
        f"<title>{escape(title)}</title></rect>"
    )
