"""
Draw flash against time of the builds that `--optimize` selects from.

The line connects builds of which none is both smaller and faster than another. The build of each
goal has a mark and a label. An axis is logarithmic if the largest value exceeds ten times the
smallest value.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import product
from math import ceil, floor, log10

from ceras_ir.support.labels import Box, OccupiedBoxes, text_width
from ceras_ir.workbench.pages import Column, Line, Table, TableCell, duration, together, whole
from ceras_ir.workbench.report.content import DrawnBuild, TradeOff

CURVE_WIDTH, CURVE_HEIGHT = 1000, 320
CURVE_LEFT, CURVE_TOP, CURVE_RIGHT, CURVE_BOTTOM = 90, 16, 34, 46
"""Margins of the picture; axis labels are at the left and bottom."""
CURVE_FONT_SIZE, CURVE_LABEL_HEIGHT, CURVE_LABEL_GAP = 11, 15, 9
MAX_LINEAR_STEPS = 6
MIN_LOGARITHMIC_RATIO = 10.0


@dataclass(frozen=True)
class Axis:
    """An axis of a plot, from the first to the last of `ticks`."""

    ticks: tuple[float, ...]
    is_logarithmic: bool

    @classmethod
    def of(cls, values: Sequence[float]) -> "Axis":
        """
        Return an axis that contains all `values`, which are not negative. It is logarithmic if the
        largest exceeds `MIN_LOGARITHMIC_RATIO` times the smallest, and that is not 0.
        """
        low, high = min(values), max(values)
        if low and high > MIN_LOGARITHMIC_RATIO * low:
            powers = range(floor(log10(low)), ceil(log10(high)) + 1)
            ticks = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
            start = max(tick for tick in ticks if tick <= low)
            end = min(tick for tick in ticks if tick >= high)
            return cls(tuple(tick for tick in ticks if start <= tick <= end), True)
        span = high - low or high or 1.0
        power = floor(log10(span / MAX_LINEAR_STEPS))
        steps = (digit * 10.0**power for digit in (1, 2, 5, 10))
        step = next(step for step in steps if span <= MAX_LINEAR_STEPS * step)
        first, last = floor(low / step), ceil(high / step)
        return cls(tuple(step * i for i in range(first, max(last, first + 1) + 1)), False)

    def share(self, value: float) -> float:
        """Return the position of `value` on the axis: 0 at the start, 1 at the end."""
        low, high = self.ticks[0], self.ticks[-1]
        if self.is_logarithmic:
            return log10(value / low) / log10(high / low)
        return (value - low) / (high - low)


@dataclass(frozen=True)
class _Plot:
    x: Axis
    y: Axis
    x_unit: tuple[float, str]
    y_unit: tuple[float, str]

    def across(self, value: float) -> float:
        width = CURVE_WIDTH - CURVE_LEFT - CURVE_RIGHT
        return CURVE_LEFT + width * self.x.share(value)

    def up(self, value: float) -> float:
        height = CURVE_HEIGHT - CURVE_TOP - CURVE_BOTTOM
        return CURVE_TOP + height * (1 - self.y.share(value))

    def point(self, build: DrawnBuild) -> tuple[float, float]:
        assert build.microseconds is not None
        x, y = build.flash_bytes / self.x_unit[0], build.microseconds / self.y_unit[0]
        return self.across(x), self.up(y)

    def grid(self) -> Iterator[str]:
        right, bottom = CURVE_WIDTH - CURVE_RIGHT, CURVE_HEIGHT - CURVE_BOTTOM
        taken = OccupiedBoxes()
        for tick in self.x.ticks:
            x, text = self.across(tick), f"{tick:,.6g}"
            yield f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{CURVE_TOP}" y2="{bottom}"/>'
            half = text_width(text, CURVE_FONT_SIZE) / 2 + 2
            if taken.take(Box(x - half, 0, x + half, 1)):
                yield f'<text class="tick" x="{x:.1f}" y="{bottom + 16}">{text}</text>'
        for tick in self.y.ticks:
            y = self.up(tick)
            yield f'<line class="axis" x1="{CURVE_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
            if taken.take(Box(-2, y - 6, -1, y + 6)):
                text = f"{tick:,.6g} {self.y_unit[1]}"
                yield f'<text class="end" x="{CURVE_LEFT - 8}" y="{y + 4:.1f}">{text}</text>'
        middle = (CURVE_LEFT + right) / 2
        yield (
            f'<text class="tick" x="{middle:.1f}" y="{CURVE_HEIGHT - 6}">flash, '
            f"{self.x_unit[1]}</text>"
        )


def trade_off_picture(found: TradeOff) -> str | None:
    """
    Return a plot (SVG) of flash against time of the builds, or `None` if fewer than two have a
    time.
    """
    builds = dict.fromkeys(b for b in (*found.curve, *found.goals.values()) if b.microseconds)
    if len(builds) < 2:
        return None
    times = [build.microseconds or 0.0 for build in builds]
    x_unit = (1024.0, "KiB") if max(b.flash_bytes for b in builds) >= 4096 else (1.0, "bytes")
    y_unit = (1000.0, "ms") if max(times) >= 1000 else (1.0, "\N{MICRO SIGN}s")
    plot = _Plot(
        Axis.of([build.flash_bytes / x_unit[0] for build in builds]),
        Axis.of([time / y_unit[0] for time in times]),
        x_unit,
        y_unit,
    )
    points = [plot.point(b) for b in found.curve if b.microseconds]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    parts = [*plot.grid(), f'<polyline class="line a" points="{line}"/>']
    for build in builds:
        x, y = plot.point(build)
        parts.append(
            f'<circle class="build" cx="{x:.1f}" cy="{y:.1f}" r="3.5">'
            f"<title>{escape(_title(build))}</title></circle>"
        )
    parts += _marks(found, {name: plot.point(b) for name, b in found.goals.items() if b in builds})
    return (
        f'<svg viewBox="0 0 {CURVE_WIDTH} {CURVE_HEIGHT}" role="img" class="roofline" '
        f'aria-label="flash and time">{"".join(parts)}</svg>'
    )


def _title(build: DrawnBuild) -> str:
    time = together(duration(build.microseconds or 0.0))
    return f"{build.kernels} ({build.level}): {build.flash_bytes:,} bytes of flash, {time}"


def _marks(found: TradeOff, points: Mapping[str, tuple[float, float]]) -> Iterator[str]:
    at: dict[tuple[float, float], list[str]] = {}
    for name, point in points.items():
        at.setdefault(point, []).append(name)
    occupied = OccupiedBoxes()
    for x, y in at:
        occupied.take(Box(x - 6, y - 6, x + 6, y + 6))
    for (x, y), names in at.items():
        chosen = " chosen-goal" if found.selected in names else ""
        yield f'<circle class="goal{chosen}" cx="{x:.1f}" cy="{y:.1f}" r="6"/>'
        text = ", ".join(f"{n} (selected)" if n == found.selected else n for n in names)
        width = text_width(text, CURVE_FONT_SIZE)
        places = (b for b in _places(x, y, width) if _is_inside(b) and occupied.take(b))
        if (box := next(places, None)) is None:
            continue
        yield (
            f'<text class="goal-name" x="{box.left:.1f}" y="{box.bottom - 4:.1f}">'
            f"{escape(text)}</text>"
        )


def _places(x: float, y: float, width: float) -> Iterable[Box]:
    """
    Yield rectangles for the label of the point (x, y), in order of preference: next to it at the
    right and left, then further away vertically.
    """
    rows = (-1, 0, *(row for n in range(1, 40) for row in (n, -1 - n)))
    for row, is_right in product(rows, (True, False)):
        left = x + CURVE_LABEL_GAP if is_right else x - CURVE_LABEL_GAP - width
        top = y + row * CURVE_LABEL_HEIGHT
        yield Box(left, top, left + width, top + CURVE_LABEL_HEIGHT)


def _is_inside(box: Box) -> bool:
    is_across = box.left >= CURVE_LEFT and box.right <= CURVE_WIDTH
    return is_across and box.top >= 0 and box.bottom <= CURVE_HEIGHT - CURVE_BOTTOM


def trade_off_table(found: TradeOff) -> Table:
    """Return a table with the build of each goal of `--optimize` as a row."""
    columns = [Column("--optimize", "text"), Column("flash"), Column("SRAM"), Column("time")]
    columns += [Column("C compiler", "text"), Column("kernels", "wide")]
    rows: list[Line] = []
    for name, build in found.goals.items():
        time = build.microseconds
        shown = TableCell("") if time is None else TableCell(together(duration(time)), time)
        label = f"{name} (selected)" if name == found.selected else name
        cells = [TableCell(label), whole(build.flash_bytes), whole(build.sram_bytes), shown]
        rows.append(Line([*cells, TableCell(build.level), TableCell(build.kernels)]))
    return Table("optimize-table", columns, rows)
