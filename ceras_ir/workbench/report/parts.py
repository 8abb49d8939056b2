"""What templates show: cards, tables, stacks of shares; and how numbers are written."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isinf, isnan


@dataclass(frozen=True)
class Card:
    """One figure in large letters."""

    label: str
    value: str
    unit: str = ""
    note: str = ""
    share: float | None = None
    """Of a bar below it."""
    change: str = ""
    verdict: str = ""


@dataclass(frozen=True)
class Part:
    """One share of a stack."""

    name: str
    share: float
    value: str
    colour: str


@dataclass(frozen=True)
class Split:
    """Shares of a whole, beside each other."""

    title: str
    parts: Sequence[Part]


@dataclass(frozen=True)
class Column:
    """One column of a table, by which rows can be sorted."""

    title: str
    kind: str = ""
    """The class of its cells: `name` and `text` are to the left, numbers to the right."""
    help: str = ""

    @property
    def numeric(self) -> bool:
        """Whether it is sorted by numbers."""
        return not self.kind


@dataclass(frozen=True)
class Cell:
    """What stands in a row."""

    text: str
    number: float | None = None
    share: float | None = None
    grade: str = ""
    colour: str = ""


@dataclass(frozen=True)
class Line:
    """One row; of a layer, with its number."""

    cells: Sequence[Cell]
    layer: int | None = None


@dataclass(frozen=True)
class Table:
    """Rows below the heads of columns."""

    name: str
    columns: Sequence[Column]
    rows: Sequence[Line] = field(default_factory=list[Line])
    filtered: bool = False


@dataclass(frozen=True)
class Chip:
    """A few words in a frame."""

    text: str
    colour: str = ""


EXACT = 999.0
"""Decibels that exact layers are sorted by."""

BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
TIMES = ((1e6, "s"), (1e3, "ms"), (1.0, "\N{MICRO SIGN}s"))
COUNTS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def size(value: float) -> tuple[str, str]:
    """Bytes: the number, and its unit."""
    return _scaled(value, BYTES, "bytes")


def duration(microseconds: float) -> tuple[str, str]:
    """A time: the number, and its unit."""
    return _scaled(microseconds, TIMES, "\N{MICRO SIGN}s")


def amount(value: float) -> tuple[str, str]:
    """How many: the number, and its prefix."""
    return _scaled(value, COUNTS, "")


def _scaled(value: float, units: Sequence[tuple[float, str]], least: str) -> tuple[str, str]:
    for factor, unit in units:
        if abs(value) >= factor:
            scaled = value / factor
            digits = 0 if abs(scaled) >= 100 else 1 if abs(scaled) >= 10 else 2
            return f"{scaled:,.{digits}f}", unit
    return f"{value:,.3g}", least


def together(pair: tuple[str, str]) -> str:
    """A number with its unit."""
    return " ".join(part for part in pair if part)


def whole(value: float | None) -> Cell:
    """A count; nothing where there is none."""
    if value is None:
        return Cell("")
    return Cell(f"{value:,.0f}", value)


def some(value: float) -> Cell:
    """A count of which most rows have none."""
    return whole(value) if value else Cell("", 0.0)


def decibels(value: float, fair: float = 30.0, poor: float = 20.0) -> Cell:
    """A ratio with a grade; an infinite ratio is exact, and NaN is not available."""
    if isnan(value):
        return Cell("n/a")
    if isinf(value):
        return Cell("exact", EXACT)
    return Cell(
        f"{value:.1f}", value, grade="bad" if value < poor else "fair" if value < fair else ""
    )
