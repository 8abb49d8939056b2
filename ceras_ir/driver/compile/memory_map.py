"""
A memory plan as a picture in one HTML file: time from left to right, addresses upwards.

Every value is a rectangle over the steps and bytes that it occupies; a rectangle's tooltip
says which. A line shows how many bytes are alive. The file needs nothing but itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import cycle

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ceras_ir.dialects.mem import CPU, RegionAttr, arena_of, block_of, device_of, regions_of
from ceras_ir.network.artefacts import Artefact
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.memory_report import holds_io
from ceras_ir.support.diagnostics import node_name
from ceras_ir.transforms.memory.analysis.liveness import Buffer, analyse, steps
from ceras_ir.transforms.memory.analysis.slices import slices_of_plan
from ceras_ir.transforms.memory.analysis.spans import gap

WIDTH, HEIGHT = 1100, 560
LEFT, TOP, RIGHT, BOTTOM = 72, 12, 12, 28
"""Around the picture; left and below are the numbers."""
COLOURS = ("#7a9cc6", "#d99058", "#8fb573", "#b08ac9")
"""Of the CPU, then of the other devices in the order of their names."""

PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}: memory</title>
<style>
body {{ font: 14px sans-serif; margin: 2em; color: #222; }}
</style>
</head>
<body>
<h1>{title}</h1>
{picture}
</body>
</html>
"""

PICTURE = """\
<style>
.memory svg {{ max-width: 100%; height: auto; }}
.memory rect {{ stroke: #333; stroke-width: 0.5; fill-opacity: 0.85; }}
.memory rect:hover {{ fill-opacity: 1; stroke-width: 2; }}
.memory text {{ font: 10px sans-serif; pointer-events: none; }}
.memory .axis {{ stroke: #ccc; stroke-width: 0.5; }}
.memory .number {{ fill: #666; text-anchor: end; }}
.memory .step {{ fill: #666; text-anchor: middle; }}
.memory .alive {{ fill: none; stroke: #a02020; stroke-width: 1.5; pointer-events: none; }}
.memory span {{ display: inline-block; width: 1em; height: 1em; margin: 0 0.3em 0 1em; }}
</style>
<div class="memory">
<p>{summary}</p>
<p>steps from left to right, addresses from bottom to top; computed on{legend}; \
<b style="color:#a02020">line</b>: bytes alive</p>
<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}">
{shapes}
</svg>
</div>"""
"""A part of a page that touches nothing else of it."""


def memory_map(module: ModuleOp, title: str) -> Artefact:
    """`memory.html` of a module with placed memory."""
    picture = memory_picture(module)
    assert picture is not None
    text = PAGE.format(title=escape(title), picture=picture)
    return Artefact.of_text("memory.html", "picture of the memory plan: time and addresses", text)


def memory_picture(module: ModuleOp) -> str | None:
    """The memory plan of a module as part of a page; None if there is no plan."""
    main = main_function(module)
    arena = arena_of(main)
    if arena is None:
        return None
    liveness = analyse(main, include_io=holds_io(main), slicing=slices_of_plan(main))
    bound = liveness.lower_bound(arena.alignment.data)
    size, order = arena.size.data, steps(main)
    summary = (
        f"{len(order)} steps, {len(liveness.buffers)} buffers, peak {size:,} bytes, "
        f"lower bound {bound:,}, gap {gap(size, bound):.2%}"
    )
    colours = dict(zip(_devices(order), cycle(COLOURS), strict=False))
    legend = "".join(f'<span style="background:{c}"></span>{d}' for d, c in colours.items())
    count, size = max(len(order), 1), max(size, 1)
    base, height = {"": 0}, 0
    shapes = [*_axes(count, size)]
    for region in regions_of(main):
        base[region.region.data] = height
        height += region.size.data
        shapes += _border(region, height, size)
    for buffer in liveness.buffers:
        shapes += _shapes(buffer, base, count, size, colours)
    shapes.append(_alive(liveness.buffers, count, size))
    return PICTURE.format(
        summary=summary,
        legend=legend,
        width=LEFT + WIDTH + RIGHT,
        height=TOP + HEIGHT + BOTTOM,
        shapes="\n".join(shapes),
    )


def _devices(order: Sequence[Operation]) -> list[str]:
    """Those that run something, the CPU first."""
    return sorted({device_of(op) for op in order}, key=lambda device: (device != CPU, device))


def _across(step: float, count: int) -> float:
    return LEFT + WIDTH * step / count


def _up(bytes_: float, size: int) -> float:
    return TOP + HEIGHT * (1 - bytes_ / size)


def _ticks(end: int) -> range:
    """Round numbers from 0 to `end`, at most twelve steps of them."""
    steps = (digit * 10**power for power in range(20) for digit in (1, 2, 5))
    return range(0, end + 1, next(step for step in steps if end <= 12 * step))


def _axes(count: int, size: int) -> Iterator[str]:
    """Lines with numbers, in KiB or bytes and in steps."""
    unit, name = (1024, "KiB") if size >= 4096 else (1, "B")
    for tick in _ticks(size // unit):
        y = _up(tick * unit, size)
        yield f'<line class="axis" x1="{LEFT}" y1="{y:.2f}" x2="{LEFT + WIDTH}" y2="{y:.2f}"/>'
        yield f'<text class="number" x="{LEFT - 6}" y="{y + 3:.2f}">{tick:,} {name}</text>'
    for tick in _ticks(count):
        x = _across(tick, count)
        yield f'<line class="axis" x1="{x:.2f}" y1="{TOP}" x2="{x:.2f}" y2="{TOP + HEIGHT}"/>'
        yield f'<text class="step" x="{x:.2f}" y="{TOP + HEIGHT + 16}">{tick}</text>'


def _border(region: RegionAttr, end: int, size: int) -> Iterator[str]:
    """A line above a region, with its name and what it has."""
    y, name = _up(end, size), escape(region.region.data)
    text = f"{name}: {region.size.data:,} of {region.capacity.data:,} bytes"
    yield f'<line class="alive" x1="{LEFT}" y1="{y:.2f}" x2="{LEFT + WIDTH}" y2="{y:.2f}"/>'
    yield f'<text x="{LEFT + 4}" y="{y + 12:.2f}">{text}</text>'


def _alive(buffers: Sequence[Buffer], count: int, size: int) -> str:
    """The bytes alive at each step as one line of stairs."""
    points: list[str] = []
    for step in range(count):
        alive = sum(b.size for b in buffers if b.lower <= step < b.upper)
        y = _up(min(alive, size), size)
        points += [f"{_across(step, count):.2f},{y:.2f}", f"{_across(step + 1, count):.2f},{y:.2f}"]
    return f'<polyline class="alive" points="{" ".join(points)}"/>'


def _shapes(
    buffer: Buffer, base: dict[str, int], count: int, size: int, colours: Mapping[str, str]
) -> Iterator[str]:
    """A rectangle with a tooltip, and a name where there is room; regions stand on each other."""
    block = block_of(buffer.values[0])
    if block is None:
        return
    x, width = _across(buffer.lower, count), WIDTH * (buffer.upper - buffer.lower) / count
    height = HEIGHT * buffer.size / size
    y = _up(base[block.region.data] + block.offset.data, size) - height
    owners = [v.owner for v in buffer.values if isinstance(v.owner, Operation)]
    name = " = ".join(map(node_name, owners)) or "input"
    colour = colours[device_of(owners[0])] if owners else "#cccccc"
    start = block.offset.data
    stop = start + buffer.size
    memory = f" of {block.region.data}" if block.region.data else ""
    where = f"{name}: bytes{memory} [{start:,}, {stop:,}), steps [{buffer.lower}, {buffer.upper})"
    place = f'x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"'
    yield f'<rect {place} fill="{colour}"><title>{escape(where)}</title></rect>'
    if width > 7 * len(name) and height > 12:
        yield f'<text x="{x + 3:.2f}" y="{y + 11:.2f}">{escape(name)}</text>'
