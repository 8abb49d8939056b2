"""
Build the loops, index arithmetic and operations of a kernel in the tile dialect, and the layouts of
its results.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.builder import Builder
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from ceras_ir.backends.vta.schedule.blocks import Blocks
from ceras_ir.backends.vta.schedule.contraction import Contraction
from ceras_ir.dialects import tile
from ceras_ir.dialects.tile.memory import WGT, buffer_type, packed_vector

Index: TypeAlias = SSAValue | int
"""An index that the kernel computes, or a constant that is known when it is built."""


class KernelBuilder:
    """
    Inserts the operations of a kernel before `start`, or into the loop of the current `with` block.
    Equal constants are shared.
    """

    def __init__(self, start: tile.Conv2dOp | tile.MaxPoolOp | tile.AveragePoolOp):
        block = start.parent
        assert block is not None
        self._block = block
        self._last_constant: arith.ConstantOp | None = None
        self._builder = Builder(InsertPoint.before(start))
        self._constants: dict[int, SSAValue] = {}
        self.packed = packed_vector(start.input)
        """The last dimensions of feature maps in DRAM."""
        rows, self.lanes = (1, *self.packed)[-2:]
        self.tile, self._vector = (self.lanes, self.lanes), (rows, self.lanes)

    def add(self, op: Operation) -> Operation:
        return self._builder.insert(op)

    def value(self, index: Index) -> SSAValue:
        if isinstance(index, SSAValue):
            return index
        if index not in self._constants:
            constant = arith.ConstantOp(IntegerAttr(index, IndexType()))
            last = self._last_constant
            at = InsertPoint.at_start(self._block) if last is None else InsertPoint.after(last)
            Builder(at).insert(constant)
            self._last_constant = constant
            self._constants[index] = constant.result
        return self._constants[index]

    def values(self, *indices: Index) -> list[SSAValue]:
        """
        Return the indices as SSA values. Zeros at the end are omitted, because missing indices are
        0.
        """
        kept = list(indices)
        while kept and isinstance(kept[-1], int) and kept[-1] == 0:
            kept.pop()
        return [self.value(i) for i in kept]

    def sum(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if isinstance(a, int):
            a, b = b, a
        assert isinstance(a, SSAValue)
        if isinstance(b, int) and b == 0:
            return a
        if isinstance(b, int) and b < 0:
            return self._result(arith.SubiOp(a, self.value(-b)))
        return self._result(arith.AddiOp(a, self.value(b)))

    def product(self, a: Index, factor: int) -> Index:
        if isinstance(a, int):
            return a * factor
        return a if factor == 1 else self._result(arith.MuliOp(a, self.value(factor)))

    def _result(self, op: arith.AddiOp | arith.SubiOp | arith.MuliOp) -> SSAValue:
        self._builder.insert(op)
        return op.result

    @contextmanager
    def loop(self, start: int, stop: int, step: int = 1) -> Generator[Index]:
        """
        Insert a loop over [start, stop) around the operations of the `with` block, and yield the
        index. If there is a single iteration, no loop is inserted, and the index is the constant
        `start`.
        """
        if start + step >= stop:
            yield start
            return
        body = Block(arg_types=[IndexType()])
        bounds = self.value(start), self.value(stop), self.value(step)
        self._builder.insert(scf.ForOp(*bounds, [], body))
        outer = self._builder
        self._builder = Builder(InsertPoint.at_end(body))
        yield body.args[0]
        self._builder.insert(scf.YieldOp())
        self._builder = outer

    @contextmanager
    def when_zero(self, *indices: Index) -> Generator[None]:
        """
        Insert a condition around the operations of the `with` block: they are executed only if all
        `indices`, which must not be negative, are zero. Without computed indices, there is no
        condition.
        """
        computed = [i for i in indices if isinstance(i, SSAValue)]
        assert not any(i for i in indices if isinstance(i, int)), "known to be not zero"
        if not computed:
            yield
            return
        total: Index = computed[0]
        for index in computed[1:]:
            total = self.sum(total, index)
        with self._guarded(total, "eq", 0):
            yield

    @contextmanager
    def unless_zero(self, index: Index) -> Generator[None]:
        """
        Insert a condition around the operations of the `with` block: they are executed only if the
        computed `index` is not zero.
        """
        with self._guarded(index, "ne", 0):
            yield

    def where(self, index: Index, value: int) -> Iterator[None]:
        """
        Insert a condition around the operations in the body of a `for` statement over the result:
        they are executed only if `index` is `value`. A constant index needs no condition: the body
        runs, or does not run if the index differs.
        """
        if isinstance(index, SSAValue):
            with self._guarded(index, "eq", value):
                yield
        elif index == value:
            yield

    @contextmanager
    def _guarded(self, index: Index, predicate: str, value: int) -> Generator[None]:
        holds = arith.CmpiOp(self.value(index), self.value(value), predicate)
        self._builder.insert(holds)
        body = Block()
        otherwise = Region(Block([scf.YieldOp()]))
        self._builder.insert(scf.IfOp(holds.result, [], Region(body), otherwise))
        outer = self._builder
        self._builder = Builder(InsertPoint.at_end(body))
        yield
        self._builder.insert(scf.YieldOp())
        self._builder = outer

    def blocks(self, extent: int, block: int) -> Iterator[tuple[Index, int]]:
        """
        Divide `extent` into blocks. Yield the start and the size of a block inside a loop over all
        full blocks, then of the smaller rest, if there is one. The caller inserts operations for
        each.
        """
        blocked = extent // block * block
        if blocked:
            with self.loop(0, blocked, block) as start:
                yield start, block
        if blocked < extent:
            yield blocked, extent - blocked

    def view(self, value: SSAValue, *shape: int) -> SSAValue:
        """Return a view of the DRAM buffer `value` with another shape of as many elements."""
        if tile.memref_type(value).get_shape() == shape:
            return value
        self.add(view := tile.ViewOp(value, shape))
        return view.result

    def alloc(self, space: str, *shape: int) -> SSAValue:
        vector = self.tile if space == WGT else self._vector
        self.add(alloc := memref.AllocOp([], [], buffer_type(space, shape, vector)))
        return alloc.memref

    def rotate(self, ring: SSAValue) -> SSAValue:
        self.add(rotate := tile.RotateOp(ring))
        return rotate.buffer


Span = tuple[int, int]
"""A range of rows or columns: the first, and the number."""
Box = tuple[tuple[int, ...], list[tuple[int, int]]]
"""
A grid of accumulator vectors of a block: the indices of the first, and loops as (extent, stride).
"""
Loops = list[tuple[int, int, int, int]]
"""Loops of a GEMM: extent, and strides of accumulators, inputs and weights, in vectors."""


@dataclass(frozen=True)
class RowMajor:
    """
    The row-major order of the output positions (rows and columns) of a block in the accumulators.
    """

    b: Blocks

    @property
    def shape(self) -> tuple[int, ...]:
        return self.b.rows, self.b.columns

    @property
    def finished(self) -> int:
        """
        The number of positions of a block that the output stage processes and stores; they are the
        first positions.
        """
        return self.b.positions

    def loops(self, c: Contraction, row: int) -> Loops:
        """
        Return the loops of a GEMM over all positions of a block. A row of the input on chip has
        `row` vectors.
        """
        b = self.b
        return [(b.rows, b.columns, c.row_stride * row, 0), (b.columns, 1, c.strides[1], 0)]

    def boxes(self, rows: Span | None, columns: Span | None) -> Iterator[Box]:
        """
        Yield the positions in a range of rows and a range of columns, as boxes for ALU
        instructions; `None` is the full range.
        """
        (row, height), (column, width) = rows or (0, self.b.rows), columns or (0, self.b.columns)
        if columns is None:
            yield (row, column), [(height * width, 1)]
            return
        box = [(height, self.b.columns), (width, 1)]
        yield (row, column), [loop for loop in box if loop[0] > 1] or box[:1]


@dataclass(frozen=True)
class MaximumPlanes:
    """
    The order of the output positions of a block in the accumulators, if a maximum over windows with
    strides sh, sw follows: sh * sw planes. Position `y`, `x` is in plane `y % sh * sw + x % sw` at
    row `y // sh` and column `x // sw`; planes are row-major. The maximum is then elementwise over
    planes, and its results are contiguous.
    """

    b: Blocks
    maximum: tile.WindowMaximum

    @property
    def plane(self) -> tuple[int, int]:
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
            for offset, column, elements in across:
                yield (plane + offset, row, column), [*lines, *elements] or [(1, 0)]
