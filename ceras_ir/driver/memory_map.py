"""
A memory plan as a picture in one HTML file: time from left to right, addresses upwards.

Every value is a rectangle over the steps and bytes that it occupies; a rectangle's tooltip
says which. The file needs nothing but itself.
"""

from collections.abc import Iterator
from html import escape

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ceras_ir.analysis.liveness import Buffer, analyse, steps
from ceras_ir.analysis.network import main_function
from ceras_ir.analysis.spans import gap
from ceras_ir.backends.artefacts import Artefact
from ceras_ir.diagnostics import node_name
from ceras_ir.dialects.mem import arena_of, block_of, device_of

WIDTH, HEIGHT, MARGIN = 1100, 560, 8
COLOURS = {"cpu": "#7a9cc6", "fpga": "#d99058", "vta": "#8fb573"}

PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}: memory</title>
<style>
body {{ font: 14px sans-serif; margin: 2em; color: #222; }}
svg {{ border: 1px solid #999; background: #fafafa; max-width: 100%; height: auto; }}
rect {{ stroke: #333; stroke-width: 0.5; fill-opacity: 0.85; }}
rect:hover {{ fill-opacity: 1; stroke-width: 2; }}
text {{ font: 10px sans-serif; pointer-events: none; }}
span {{ display: inline-block; width: 1em; height: 1em; margin: 0 0.3em 0 1em; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{summary}</p>
<p>steps from left to right, addresses from bottom to top; computed on{legend}</p>
<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}">
{shapes}
</svg>
</body>
</html>
"""


def memory_map(module: ModuleOp, title: str, *, include_io: bool) -> Artefact:
    """`memory.html` of a module with placed memory."""
    main = main_function(module)
    arena = arena_of(main)
    assert arena is not None
    liveness = analyse(main, include_io=include_io)
    bound = liveness.lower_bound(arena.alignment.data)
    size, order = arena.size.data, steps(main)
    summary = (
        f"{len(order)} steps, {len(liveness.buffers)} buffers, peak {size:,} bytes, "
        f"lower bound {bound:,}, gap {gap(size, bound):.2%}"
    )
    devices = sorted({device_of(op).value for op in order})
    legend = "".join(f'<span style="background:{COLOURS[d]}"></span>{d}' for d in devices)
    shapes = "\n".join(
        shape
        for buffer in liveness.buffers
        for shape in _shapes(buffer, max(len(order), 1), max(size, 1))
    )
    text = PAGE.format(
        title=escape(title),
        summary=summary,
        legend=legend,
        width=WIDTH + 2 * MARGIN,
        height=HEIGHT + 2 * MARGIN,
        shapes=shapes,
    )
    return Artefact.of_text("memory.html", "picture of the memory plan: time and addresses", text)


def _shapes(buffer: Buffer, count: int, size: int) -> Iterator[str]:
    """A rectangle with a tooltip, and a name where there is room."""
    block = block_of(buffer.values[0])
    if block is None:
        return
    x = MARGIN + WIDTH * buffer.lower / count
    width = WIDTH * (buffer.upper - buffer.lower) / count
    height = HEIGHT * buffer.size / size
    y = MARGIN + HEIGHT * (1 - block.offset.data / size) - height
    owners = [v.owner for v in buffer.values if isinstance(v.owner, Operation)]
    name = " = ".join(map(node_name, owners)) or "input"
    colour = COLOURS[device_of(owners[0]).value] if owners else "#cccccc"
    start = block.offset.data
    stop = start + buffer.size
    where = f"{name}: bytes [{start:,}, {stop:,}), steps [{buffer.lower}, {buffer.upper})"
    place = f'x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"'
    yield f'<rect {place} fill="{colour}"><title>{escape(where)}</title></rect>'
    if width > 7 * len(name) and height > 12:
        yield f'<text x="{x + 3:.2f}" y="{y + 11:.2f}">{escape(name)}</text>'
