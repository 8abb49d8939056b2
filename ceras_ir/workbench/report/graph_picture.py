"""
Draw a network as SVG.

Operations are in order from top to bottom, with straight edges to the next operation, and arcs at
the side for other edges. Networks are mostly chains, so no layout search is needed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.pipeline import report
from ceras_ir.support.labels import fitted, text_width
from ceras_ir.workbench.report.content import Row, content_of

ROW_HEIGHT, BOX_HEIGHT, BOX_WIDTH, BOX_LEFT = 40, 28, 470, 10
"""Pixels: the distance, height and width of boxes, and the left margin."""
LANE, ARC_LANES = 12, 14
"""Pixels between arcs, and the number of lanes for arcs."""
GRAPH_FONT_SIZE, SHAPE_FONT_SIZE = 12, 11
OP_WIDTH, SHAPE_WIDTH = 190, 150
"""The maximum pixels of parts of a label; the name uses the rest."""
NODE_TEXT_LEFT, NODE_TEXT_GAP, NODE_TEXT_RIGHT = BOX_LEFT + 14, 10, BOX_LEFT + BOX_WIDTH - 10

DEVICE_COLOURS = ("#5b8def", "#e08a3c", "#4fb286", "#a77bd8", "#d8607f", "#8c9bab")
"""The colours of devices, in the order of appearance."""

GRAPH_STYLE = """\
<style>
.graph .box { fill: var(--panel, transparent); stroke: var(--line, #8c959f); }
.graph g:hover .box, .graph .chosen .box { stroke: var(--accent, #2f6fb5); stroke-width: 1.6; }
.graph .border .box { stroke-dasharray: 3 2; }
.graph text { font: 12px system-ui, sans-serif; fill: var(--ink, currentColor); }
.graph .op { font-weight: 600; }
.graph .name { fill: var(--soft, currentColor); }
.graph .shape { fill: var(--soft, currentColor); font-size: 11px; text-anchor: end; }
.graph .edge { fill: none; stroke: var(--soft, #8c959f); }
.graph .arc { fill: none; stroke: var(--accent, #2f6fb5); stroke-opacity: 0.55; }
.graph .load { fill: var(--bad, #c0392b); fill-opacity: 0.75; }
.graph [data-layer] { cursor: pointer; }
</style>"""


@dataclass(frozen=True)
class DrawnNode:
    """A box in the picture of a network: an operation, a graph input or a graph output."""

    op: str
    name: str
    shape: str = ""
    colour: str = "#8c9bab"
    layer: int | None = None
    load: float = 0.0
    """The modelled time, as a share of that of the slowest layer."""
    title: str = ""
    """The text of the tooltip of the box."""


def module_picture(module: ModuleOp) -> str:
    """Draw the function `main` of a module as SVG."""
    layers = [layer.to_json() for layer in report.layers(module)]
    entries: dict[str, object] = {"layers": layers, "results": report.results(module)}
    content = content_of(entries, "", "")
    return graph_picture(content.layers, content.input_names, content.results)


def devices_of(rows: Sequence[Row]) -> dict[str, str]:
    """Return the color of each device, by name, in the pictures of a report."""
    known = dict.fromkeys(row.device for row in rows)
    return {device: DEVICE_COLOURS[i % len(DEVICE_COLOURS)] for i, device in enumerate(known)}


def graph_picture(
    rows: Sequence[Row], inputs: Sequence[str], results: Mapping[str, int | str]
) -> str:
    """
    Return a picture (SVG) of the layers of a network, the inputs and outputs, and the edges between
    them. `results` maps each graph output to the number of the layer, or to the name of a graph
    input.
    """
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
    width, height = BOX_LEFT + BOX_WIDTH + LANE * (ARC_LANES + 2), ROW_HEIGHT * len(nodes) + 10
    parts = [GRAPH_STYLE, *_lines(edges), *_boxes(nodes)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" style="max-width:100%;height:auto" role="img" '
        f'aria-label="graph">{"".join(parts)}</svg>'
    )


def _boxes(nodes: Sequence[DrawnNode]) -> Iterator[str]:
    for row, node in enumerate(nodes):
        y = 5 + ROW_HEIGHT * row
        op = fitted(node.op, OP_WIDTH, GRAPH_FONT_SIZE, bold=True)
        shape = fitted(node.shape, SHAPE_WIDTH, SHAPE_FONT_SIZE)
        at = NODE_TEXT_LEFT + text_width(op, GRAPH_FONT_SIZE, bold=True) + NODE_TEXT_GAP
        end = NODE_TEXT_RIGHT - text_width(shape, SHAPE_FONT_SIZE) - NODE_TEXT_GAP
        name = fitted(node.name, end - at, GRAPH_FONT_SIZE)
        kind = ' class="border"' if node.layer is None else f' data-layer="{node.layer}"'
        title = escape(node.title or f"{node.op} {node.name}")
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
            f'<text class="op" x="{NODE_TEXT_LEFT}" y="{y + 18}">{escape(op)}</text>'
            f'<text class="name" x="{at:.0f}" y="{y + 18}">{escape(name)}</text>'
            f'<text class="shape" x="{NODE_TEXT_RIGHT}" y="{y + 18}">{shape}</text>'
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
        x = right + LANE * (lane % ARC_LANES + 1)
        start, stop = top - BOX_HEIGHT / 2, bottom + BOX_HEIGHT / 2
        yield (
            f'<path class="arc" d="M{right} {start}H{x - 6}Q{x} {start} {x} {start + 6}V{stop - 6}'
            f'Q{x} {stop} {x - 6} {stop}H{right}"/>'
        )
