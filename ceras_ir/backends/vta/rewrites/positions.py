"""How the output positions of a block lie in the accumulators."""

from collections.abc import Iterator
from dataclasses import dataclass

from ceras_ir.backends.vta.schedule.blocks import Blocks
from ceras_ir.backends.vta.schedule.contraction import Contraction
from ceras_ir.dialects import tile

Span = tuple[int, int]
"""First and number."""
Box = tuple[tuple[int, ...], list[tuple[int, int]]]
"""Indices within a block of one output vector; loops as extents and strides."""
Loops = list[tuple[int, int, int, int]]
"""Extents, and strides of sums, inputs and weights."""


@dataclass(frozen=True)
class RowMajor:
    """One row after the other."""

    b: Blocks

    @property
    def shape(self) -> tuple[int, ...]:
        return self.b.rows, self.b.columns

    @property
    def finished(self) -> int:
        """Positions that are rescaled and stored, the first of all."""
        return self.b.positions

    def loops(self, c: Contraction, row: int) -> Loops:
        """Over all, beside inputs whose rows are `row` vectors."""
        b = self.b
        return [(b.rows, b.columns, c.row_stride * row, 0), (b.columns, 1, c.strides[1], 0)]

    def boxes(self, rows: Span | None, columns: Span | None) -> Iterator[Box]:
        """Of some rows and columns, None for all."""
        (row, height), (column, width) = rows or (0, self.b.rows), columns or (0, self.b.columns)
        if columns is None:
            yield (row, column), [(height * width, 1)]
            return
        box = [(height, self.b.columns), (width, 1)]
        yield (row, column), [loop for loop in box if loop[0] > 1] or box[:1]


@dataclass(frozen=True)
class Planes:
    """
    A plane for each place within the stride of a maximum, row-major each: position `y`, `x` is in
    plane `y % sh * sw + x % sw` at `y // sh`, `x // sw`. Then a maximum is of planes, and its
    results are dense.
    """

    b: Blocks
    maximum: tile.WindowMaximum

    @property
    def plane(self) -> tuple[int, int]:
        """Rows and columns of each plane."""
        return self.maximum.results(self.b.rows, self.b.columns)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.maximum.merged, *self.plane

    @property
    def finished(self) -> int:
        rows, columns = self.plane
        return rows * columns

    def loops(self, c: Contraction, row: int) -> Loops:
        (sh, sw), (rows, columns), size = self.maximum.strides, self.plane, self.finished
        down, right = c.row_stride * row, c.strides[1]
        return [
            *((rows, columns, sh * down, 0), (columns, 1, sw * right, 0)),
            *((sh, sw * size, down, 0), (sw, size, right, 0)),
        ]

    def boxes(self, rows: Span | None, columns: Span | None) -> Iterator[Box]:
        (sh, sw), (height, width), size = self.maximum.strides, self.plane, self.finished
        down: list[tuple[int, int, list[Span]]] = [(0, 0, [(height, width), (sh, sw * size)])]
        if rows is not None:
            down = [(y % sh * sw, y // sh, []) for y in range(rows[0], sum(rows))]
        across: list[tuple[int, int, list[Span]]] = [(0, 0, [(width, 1), (sw, size)])]
        if columns is not None:
            across = [(x % sw, x // sw, []) for x in range(columns[0], sum(columns))]
        for plane, row, lines in down:
            for beside, column, elements in across:
                yield (plane + beside, row, column), [*lines, *elements] or [(1, 0)]
