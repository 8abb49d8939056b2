"""
A network as a picture: operations below each other in the order they run, edges to the next one
straight, all others as arcs at the side, the longer the further out.

Networks are chains with shortcuts, which this shows with no search for a layout.
"""

from collections.abc import Iterator, Sequence
from html import escape

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects.graph import ConstantOp
from ceras_ir.dialects.mem import device_of
from ceras_ir.network.function import input_names, main_function, output_names, result_values
from ceras_ir.pipeline.report import spelling
from ceras_ir.support.diagnostics import node_name
from ceras_ir.support.text_table import shortened

ROW, BOX, WIDTH, LEFT = 34, 22, 380, 10
"""Pixels from one box to the next, of its height and width, and in front of it."""
LANE, LANES = 14, 12
"""Pixels between arcs, and how many lanes there are for them."""
LONGEST = 44
"""Characters of a label."""

COLOURS = ("#d7e3f1", "#f6dcc3", "#d5e6c9", "#e3d5ec")
"""Of devices, in the order they come."""


def graph_picture(module: ModuleOp) -> str:
    """The function `main` as SVG."""
    main = main_function(module)
    block = main.body.block
    labels = [f"input {name}" for name in input_names(main)]
    colours = ["#eeeeee"] * len(labels)
    rows: dict[SSAValue, int] = {value: i for i, value in enumerate(block.args)}
    edges: list[tuple[int, int]] = []
    devices: list[str] = []
    for op in block.ops:
        if isinstance(op, ConstantOp) or not op.results:
            continue
        row = len(labels)
        sources = {rows[value] for value in op.operands if value in rows}
        # What has constants alone is one too, as weights that are encoded.
        if not sources and op.operands:
            continue
        edges += [(source, row) for source in sorted(sources)]
        rows |= dict.fromkeys(op.results, row)
        device = device_of(op)
        devices += [device] * (device not in devices)
        labels.append(_label(op))
        colours.append(COLOURS[devices.index(device) % len(COLOURS)])
    for name, value in zip(output_names(main), result_values(main), strict=True):
        if value in rows:
            edges.append((rows[value], len(labels)))
        labels.append(f"output {name}")
        colours.append("#eeeeee")
    return _svg(labels, colours, edges)


def _label(op: Operation) -> str:
    name, kind = node_name(op), spelling(op)
    return kind if name in ("", op.name) or name.startswith(f"{op.name} at") else f"{kind}  {name}"


def _svg(labels: Sequence[str], colours: Sequence[str], edges: Sequence[tuple[int, int]]) -> str:
    width, height = LEFT + WIDTH + LANE * (LANES + 2), ROW * len(labels) + 10
    parts = [*_boxes(labels, colours), *_lines(edges)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" style="max-width:100%;height:auto" font-family="sans-serif" '
        f'font-size="12">{"".join(parts)}</svg>'
    )


def _boxes(labels: Sequence[str], colours: Sequence[str]) -> Iterator[str]:
    for row, (label, colour) in enumerate(zip(labels, colours, strict=True)):
        shown = shortened(label, LONGEST)
        y = 5 + ROW * row
        yield (
            f'<g><title>{escape(label)}</title><rect x="{LEFT}" y="{y}" width="{WIDTH}" '
            f'height="{BOX}" rx="4" fill="{colour}" stroke="#666"/>'
            f'<text x="{LEFT + 8}" y="{y + 15}" fill="#222">{escape(shown)}</text></g>'
        )


def _lines(edges: Sequence[tuple[int, int]]) -> Iterator[str]:
    middle, right = LEFT + WIDTH / 2, LEFT + WIDTH
    ends: list[int] = []
    """Of each lane, the row at which the last arc in it ends."""
    for source, target in sorted(edges):
        top, bottom = 5 + ROW * source + BOX, 5 + ROW * target
        if target == source + 1:
            yield f'<path d="M{middle} {top}V{bottom}" stroke="#666" fill="none"/>'
            continue
        lane = next((i for i, end in enumerate(ends) if end <= source), len(ends))
        ends[lane : lane + 1] = [target]
        x = right + LANE * (lane % LANES + 1)
        start, stop = top - BOX / 2, bottom + BOX / 2
        yield (
            f'<path d="M{right} {start}H{x - 6}Q{x} {start} {x} {start + 6}V{stop - 6}'
            f'Q{x} {stop} {x - 6} {stop}H{right}" stroke="#2f6fb5" fill="none"/>'
        )
