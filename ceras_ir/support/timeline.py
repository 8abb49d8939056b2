"""When the parts of a machine are busy, coarse enough to be drawn: bars in lanes over cycles."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

COLUMNS = 600
"""How many parts a timeline's cycles are divided into; what is shorter is drawn with others."""


@dataclass(frozen=True)
class Bar:
    """Columns [start, end) in which a kind of work fills more time than any other."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True)
class Lane:
    """One part of a machine."""

    name: str
    busy: float
    """Share of the cycles."""
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Timeline:
    """One stretch of time, from its first cycle on."""

    name: str
    cycles: int
    note: str
    kinds: tuple[str, ...]
    """Of work, in the order of their colours."""
    lanes: tuple[Lane, ...]

    def to_json(self) -> dict[str, object]:
        """Bars as text, `start+length:kind`, where a kind is its number: there are many."""
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
    """The inverse of what `to_json` writes; a `ValueError` for anything else."""
    bars: list[Bar] = []
    for word in text.split():
        start, _, rest = word.partition("+")
        length, _, number = rest.partition(":")
        first = int(start)
        if not 0 <= first < first + int(length) <= COLUMNS or not 0 <= int(number) < len(kinds):
            raise ValueError(f"no bar of a timeline: {word}")
        bars.append(Bar(first, first + int(length), kinds[int(number)]))
    return tuple(bars)


def bars_of(spans: Iterable[tuple[int, int, str]], cycles: int) -> Iterator[Bar]:
    """Bars for spans [start, end) of a kind; in each column, the kind that takes most of it."""
    columns: list[dict[str, float]] = [{} for _ in range(COLUMNS)]
    for start, end, kind in spans:
        first, last = start * COLUMNS / cycles, end * COLUMNS / cycles
        for column in range(int(first), min(COLUMNS, int(last) + 1)):
            inside = min(last, column + 1) - max(first, column)
            columns[column][kind] = columns[column].get(kind, 0) + inside
    previous, begun = "", 0
    for at in range(COLUMNS + 1):
        inside_of = columns[at] if at < COLUMNS else {}
        busy = sum(inside_of.values()) >= 0.5
        kind = max(inside_of, key=lambda k: inside_of[k]) if busy else ""
        if kind != previous:
            if previous:
                yield Bar(begun, at, previous)
            previous, begun = kind, at
