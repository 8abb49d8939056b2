"""A timeline as SVG: a lane for each part, bars over an axis of cycles."""

from html import escape

from ceras_ir.support.timeline import COLUMNS, Timeline

WIDTH, ROW, LABEL, MARGIN = 1200, 22, 120, 30
"""Of the bars, of a lane with its gap, of the names in front, and behind."""
COLOURS = (
    *("#4c78a8", "#72b7b2", "#9d755d", "#b279a2", "#54a24b", "#eeca3b", "#e45756"),
    "#bab0ac",
)
"""Of kinds of work, in the order that a timeline lists them; the last for all further ones."""
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#444}.end{text-anchor:end;fill:#888}"
    ".tick{text-anchor:middle}.lane{fill:#f3f3f3}.axis{stroke:#0002}"
)
"""For a picture that stands alone; pages have rules of their own."""


def height_of(timeline: Timeline) -> int:
    """Pixels of its picture."""
    return (len(timeline.lanes) + 1) * ROW


def legend(timeline: Timeline) -> dict[str, str]:
    """The colour of each kind of work."""
    return {kind: _colour(number) for number, kind in enumerate(timeline.kinds)}


def timeline_picture(timeline: Timeline, place: str = "") -> str:
    """The lanes of one timeline; `place` is more attributes of the `svg` element."""
    right, bottom = LABEL + WIDTH, len(timeline.lanes) * ROW
    colours = legend(timeline)
    parts = [f'<svg {place} viewBox="0 0 {right + MARGIN} {bottom + ROW}" role="img">']
    for number, lane in enumerate(timeline.lanes):
        y = number * ROW
        parts.append(f'<text x="0" y="{y + 15}">{escape(lane.name)}</text>')
        parts.append(f'<text x="{LABEL - 8}" y="{y + 15}" class="end">{lane.busy:.0%}</text>')
        parts.append(
            f'<rect x="{LABEL}" y="{y + 2}" width="{WIDTH}" height="{ROW - 4}" class="lane"/>'
        )
        for bar in lane.bars:
            first, last = (timeline.cycles * at // COLUMNS for at in (bar.start, bar.end))
            x, width = (WIDTH * at // COLUMNS for at in (bar.start, bar.end - bar.start))
            parts.append(
                f'<rect x="{LABEL + x}" y="{y + 2}" width="{width}" height="{ROW - 4}" '
                f'fill="{colours[bar.kind]}"><title>{escape(bar.kind)}, cycles {first:,} to '
                f"{last:,}</title></rect>"
            )
    for cycle in _ticks(timeline.cycles):
        x = LABEL + cycle * WIDTH // max(1, timeline.cycles)
        parts.append(f'<line class="axis" x1="{x}" x2="{x}" y1="0" y2="{bottom + 3}"/>')
        parts.append(f'<text x="{x}" y="{bottom + 15}" class="tick">{cycle:,}</text>')
    return "\n".join([*parts, "</svg>"])


def _colour(number: int) -> str:
    return COLOURS[min(number, len(COLOURS) - 1)]


def _ticks(cycles: int) -> range:
    """Five to ten round numbers of cycles."""
    step = 1
    while cycles // step > 10:
        step *= 5 if str(step)[0] == "1" and cycles // (step * 2) > 10 else 2
    return range(0, cycles + 1, step)
