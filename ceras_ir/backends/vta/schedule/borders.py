"""
Where windows of a contraction look over the edge of its input, and with which of their taps.

A tap is outside if its row is or if its column is: what all taps outside contribute is the sum
over those in rows outside and those in columns outside, less those in both.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from ceras_ir.backends.vta.schedule.contraction import Contraction


@dataclass(frozen=True)
class Run:
    """`count` neighbours among rows, or columns, of outputs that have these taps outside."""

    first: int
    count: int
    taps: tuple[int, ...]


@dataclass(frozen=True)
class Borders:
    """Runs of output rows and of output columns whose windows have taps outside."""

    rows: tuple[Run, ...] = ()
    columns: tuple[Run, ...] = ()

    @property
    def constants(self) -> int:
        """What is added, for every output channel: for rows, for columns, and where both meet."""
        rows, columns = len(self.rows), len(self.columns)
        return rows + columns + rows * columns

    def corner(self, row: int, column: int) -> int:
        """The constant of two runs, by their numbers."""
        return len(self.rows) + len(self.columns) + row * len(self.columns) + column

    def additions(self, rows: int, columns: int) -> int:
        """Vectors that are added to, for `rows` x `columns` outputs of one block of channels."""
        down, across = (sum(run.count for run in runs) for runs in (self.rows, self.columns))
        return down * columns + across * rows + down * across


@lru_cache
def borders_of(shape: Contraction) -> Borders:
    """Of a contraction around whose input is something else than zeros; none of any other."""
    return Borders(_runs(shape, 0), _runs(shape, 1)) if shape.outside else Borders()


def _runs(c: Contraction, axis: int) -> tuple[Run, ...]:
    extent, size = ((c.rows, c.height), (c.columns, c.width))[axis]
    taps = range((c.spread if c.is_by_taps else c.kernel)[axis])

    def outside(position: int) -> tuple[int, ...]:
        first = position * c.strides[axis] - c.padding[axis]
        return tuple(k for k in taps if not 0 <= first + k * c.dilations[axis] < size)

    runs: list[Run] = []
    for key, group in groupby(range(extent), outside):
        positions = list(group)
        if key:
            runs.append(Run(positions[0], len(positions), key))
    return tuple(runs)
