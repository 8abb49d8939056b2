"""
Describe the activity of the parts of a machine over cycles, as bars in lanes.

The picture is SVG with a lane for each part and an axis of cycles.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ceras_ir.support.labels import fitted

TIMELINE_COLUMNS = 600
"""Columns into which the cycles of a timeline are divided; work shorter than a column is merged."""


@dataclass(frozen=True)
class Bar:
    """
    A bar of a lane: columns `start` to `end - 1` of the picture, in which the part of the machine
    spends more time on `kind` (such as "load") than on any other kind of work.
    """

    start: int
    end: int
    kind: str


@dataclass(frozen=True)
class Lane:
    """A part of a machine, such as the load unit, drawn as a row of the timeline."""

    name: str
    busy: float
    """The share of cycles with work, from 0 to 1."""
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Timeline:
    """The activity of a machine from cycle 0 to `cycles`. `note` is text below the name."""

    name: str
    cycles: int
    note: str
    kinds: tuple[str, ...]
    """The names of the kinds of work, in the order of the colours."""
    lanes: tuple[Lane, ...]

    def to_json(self) -> dict[str, object]:
        """
        Return a JSON object with all fields. The bars of a lane are text such as `3+10:0`: start,
        length, and index of the kind in `kinds`.
        """
        numbers = {kind: i for i, kind in enumerate(self.kinds)}
        lanes = [
            {
                "name": lane.name,
                "busy": round(lane.busy, 4),
                "bars": " ".join(
                    f"{b.start}+{b.end - b.start}:{numbers[b.kind]}" for b in lane.bars
                ),
            }
            for lane in self.lanes
        ]
        return {
            "name": self.name,
            "cycles": self.cycles,
            "note": self.note,
            "kinds": list(self.kinds),
            "lanes": lanes,
        }


def parse_bars(text: str, kinds: Sequence[str]) -> tuple[Bar, ...]:
    """
    Parse the text of bars in `to_json`: `3+10:0` is a bar of 10 columns from column 3 for
    `kinds[0]`. Raise a `ValueError` for other text.
    """
    bars: list[Bar] = []
    for word in text.split():
        start, _, rest = word.partition("+")
        length, _, number = rest.partition(":")
        first = int(start)
        if not 0 <= first < first + int(length) <= TIMELINE_COLUMNS or not 0 <= int(number) < len(
            kinds
        ):
            raise ValueError(f"no bar of a timeline: {word}")
        bars.append(Bar(first, first + int(length), kinds[int(number)]))
    return tuple(bars)


def bars_of(spans: Iterable[tuple[int, int, str]], cycles: int) -> Iterator[Bar]:
    """
    Draw work as bars. Each span is the first cycle, the cycle after the last, and the kind of work.
    The `cycles` are divided into `TIMELINE_COLUMNS` equal columns; a column belongs to the kind
    with the most cycles in it, or to no bar if it is idle for more than half.
    """
    columns: list[dict[str, float]] = [{} for _ in range(TIMELINE_COLUMNS)]
    for start, end, kind in spans:
        first, last = start * TIMELINE_COLUMNS / cycles, end * TIMELINE_COLUMNS / cycles
        for column in range(int(first), min(TIMELINE_COLUMNS, int(last) + 1)):
            inside = min(last, column + 1) - max(first, column)
            columns[column][kind] = columns[column].get(kind, 0) + inside
    previous, begun = "", 0
    for at in range(TIMELINE_COLUMNS + 1):
        inside_of = columns[at] if at < TIMELINE_COLUMNS else {}
        busy = sum(inside_of.values()) >= 0.5
        kind = max(inside_of, key=lambda k: inside_of[k]) if busy else ""
        if kind != previous:
            if previous:
                yield Bar(begun, at, previous)
            previous, begun = kind, at


BARS_WIDTH, ROW, LABEL, MARGIN = 1200, 22, 120, 50
"""Pixels of the bars, of a lane with the gap, of the names on the left, and of the right margin."""
TIMELINE_FONT_SIZE, SHARE_WIDTH = 12, 48
"""Pixels of text, and of the share of time on the right of a name, with the gaps."""
COLOURS = (
    *("#4c78a8", "#72b7b2", "#9d755d", "#b279a2", "#54a24b", "#eeca3b", "#e45756"),
    "#bab0ac",
)
"""Colours of kinds of work in the order of the timeline; the last is for all further kinds."""
TIMELINE_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#444}.end{text-anchor:end;fill:#888}"
    ".tick{text-anchor:middle}.lane{fill:#f3f3f3}.axis{stroke:#0002}"
)
"""The style of a separate picture; pages have other rules."""


def height_of(timeline: Timeline) -> int:
    """Return the height of the picture in pixels."""
    return (len(timeline.lanes) + 1) * ROW


def legend(timeline: Timeline) -> dict[str, str]:
    """Return the color of each kind of work, by the name of the kind."""
    last = len(COLOURS) - 1
    return {kind: COLOURS[min(number, last)] for number, kind in enumerate(timeline.kinds)}


def timeline_picture(timeline: Timeline, attributes: str = "") -> str:
    """
    Return the picture of `timeline` as SVG text. `attributes`, such as `class="wide"`, are written
    into the `svg` element.
    """
    from html import escape

    right, bottom = LABEL + BARS_WIDTH, len(timeline.lanes) * ROW
    colours = legend(timeline)
    parts = [f'<svg {attributes} viewBox="0 0 {right + MARGIN} {bottom + ROW}" role="img">']
    for number, lane in enumerate(timeline.lanes):
        y = number * ROW
        name = fitted(lane.name, LABEL - SHARE_WIDTH, TIMELINE_FONT_SIZE)
        parts.append(f'<text x="0" y="{y + 15}">{escape(name)}</text>')
        parts.append(f'<text x="{LABEL - 8}" y="{y + 15}" class="end">{lane.busy:.0%}</text>')
        parts.append(
            f'<rect x="{LABEL}" y="{y + 2}" width="{BARS_WIDTH}" height="{ROW - 4}" class="lane"/>'
        )
        for bar in lane.bars:
            first, last = (timeline.cycles * at // TIMELINE_COLUMNS for at in (bar.start, bar.end))
            x, width = (
                BARS_WIDTH * at // TIMELINE_COLUMNS for at in (bar.start, bar.end - bar.start)
            )
            parts.append(
                f'<rect x="{LABEL + x}" y="{y + 2}" width="{width}" height="{ROW - 4}" '
                f'fill="{colours[bar.kind]}"><title>{escape(bar.kind)}, cycles {first:,} to '
                f"{last:,}</title></rect>"
            )
    for cycle in _ticks(timeline.cycles):
        x = LABEL + cycle * BARS_WIDTH // max(1, timeline.cycles)
        parts.append(f'<line class="axis" x1="{x}" x2="{x}" y1="0" y2="{bottom + 3}"/>')
        parts.append(f'<text x="{x}" y="{bottom + 15}" class="tick">{cycle:,}</text>')
    return "\n".join([*parts, "</svg>"])


def _ticks(cycles: int) -> range:
    step = 1  # Chosen so that there are 5 to 10 ticks.
    while cycles // step > 10:
        step *= 5 if str(step)[0] == "1" and cycles // (step * 2) > 10 else 2
    return range(0, cycles + 1, step)
