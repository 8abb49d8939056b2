"""The output positions of a block in the accumulators, and constants at the border of the input."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from ceras_ir.backends.vta.kernels.builder import Index, KernelBuilder
from ceras_ir.backends.vta.kernels.epilogue import ChannelProducts
from ceras_ir.backends.vta.schedule.blocks import Blocks
from ceras_ir.backends.vta.schedule.contraction import BorderRun, Contraction, borders_of
from ceras_ir.dialects import tile
from ceras_ir.dialects.tile.memory import ACC
from ceras_ir.support.diagnostics import InputError

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


@dataclass(frozen=True)
class _Part:
    """What of a run lies in the block of output positions that begins at `block`."""

    constant: int
    block: int
    first: int
    """From the beginning of the block on."""
    count: int


class Border:
    """
    Of one contraction in blocks. Loads pad with zeros; what the padding should have contributed is
    a constant for each channel and kind of position, which stays on chip and is added by the ALU,
    or by the GEMM core if it is a product.
    """

    def __init__(
        self,
        op: tile.Conv2dOp,
        at: KernelBuilder,
        shape: Contraction,
        blocks: Blocks,
        positions: RowMajor | Planes,
        products: ChannelProducts | None,
    ):
        assert op.border is not None
        self.all = borders_of(shape)
        kinds, *_ = tile.memref_type(op.border).get_shape()
        if kinds != self.all.constants:
            raise InputError(
                f"'tile.conv2d' looks over the edge of its input in {self.all.constants} ways, but "
                f"its border has constants for {kinds}"
            )
        self.at, self.source, self.blocks, self.positions = at, op.border, blocks, positions
        self.box = (self.all.constants, shape.nblocks * shape.groups)
        self.products = products if shape.border_tiles else None
        self.constants = None if shape.border_tiles else at.alloc(ACC, *self.box)

    def load(self) -> None:
        """Bring the constants on chip that the ALU adds."""
        if self.constants is None:
            return
        start = [self.at.value(0), self.at.value(0)]
        self.at.add(tile.LoadOp(self.source, start, self.constants, [], self.box))

    def add(self, acc: SSAValue, n: Index, count: int, y: Index, x: Index) -> None:
        """To all of `count` output vectors, `n` of all the first, of the block at `y`, `x`."""
        at, b = self.at, self.blocks
        across = list(_parts(self.all.columns, b.columns, len(self.all.rows)))
        for row, part in enumerate(self.all.rows):
            for rows in _parts((part,), b.rows, row):
                for _ in at.where(y, rows.block):
                    self._add(acc, n, count, rows.constant, (rows.first, rows.count), None)
                    for columns in across:
                        corner = self.all.corner(row, columns.constant - len(self.all.rows))
                        place = (rows.first, rows.count), (columns.first, columns.count)
                        for _ in at.where(x, columns.block):
                            self._add(acc, n, count, corner, *place)
        for columns in across:
            for _ in at.where(x, columns.block):
                place = (columns.first, columns.count)
                self._add(acc, n, count, columns.constant, None, place)

    def _add(
        self,
        acc: SSAValue,
        n: Index,
        count: int,
        constant: int,
        rows: tuple[int, int] | None,
        columns: tuple[int, int] | None,
    ) -> None:
        """A constant to a box of positions: first and number of rows and columns, None for all."""
        at, vectors = self.at, (count, self.blocks.positions, 1)
        for start, loops in self.positions.boxes(rows, columns):
            box = [vectors, *((extent, step, 0) for extent, step in loops)]
            target = (acc, at.values(0, *start))
            if self.products is not None and self.products.border is not None:
                self.products.add(target, self.products.border, (constant, n), box)
                continue
            assert self.constants is not None
            source = (self.constants, at.values(constant, n))
            at.add(tile.AluOp(tile.Alu.ADD, target, box, source=source))


def _parts(runs: Sequence[BorderRun], block: int, constant: int) -> Iterator[_Part]:
    """Runs cut at the beginnings of blocks; their constants count from `constant` on."""
    for number, run in enumerate(runs, constant):
        end = run.first + run.count
        for start in range(run.first // block * block, end, block):
            first = max(run.first, start)
            yield _Part(number, start, first - start, min(end, start + block) - first)
