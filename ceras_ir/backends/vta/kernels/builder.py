"""Build the loops, index arithmetic and operations of a kernel, folding what is known."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from xdsl.builder import Builder
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from ceras_ir.dialects import tile
from ceras_ir.dialects.tile.memory import WGT, buffer_type, packed_vector

Index: TypeAlias = SSAValue | int
"""An index that is computed, or known."""


class IndexBuilder:
    """
    Inserts before `start`, or inside of the loop that is being built; constants go to the
    front of the block, once each.
    """

    def __init__(self, start: Operation):
        block = start.parent
        assert block is not None
        self._block = block
        self._last_constant: arith.ConstantOp | None = None
        self._builder = Builder(InsertPoint.before(start))
        self._constants: dict[int, SSAValue] = {}

    def add(self, op: Operation) -> Operation:
        """Insert `op` here."""
        return self._builder.insert(op)

    def value(self, index: Index) -> SSAValue:
        """`index` as a value."""
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
        """Indices as values, without trailing zeros."""
        kept = list(indices)
        while kept and isinstance(kept[-1], int) and kept[-1] == 0:
            kept.pop()
        return [self.value(i) for i in kept]

    def sum(self, a: Index, b: Index) -> Index:
        """`a + b`"""
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
        """`a * factor`"""
        if isinstance(a, int):
            return a * factor
        return a if factor == 1 else self._result(arith.MuliOp(a, self.value(factor)))

    def _result(self, op: arith.AddiOp | arith.SubiOp | arith.MuliOp) -> SSAValue:
        self._builder.insert(op)
        return op.result

    @contextmanager
    def loop(self, start: int, stop: int, step: int = 1) -> Generator[Index]:
        """Build the body of a loop; one that runs once is no loop."""
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
        """Build what runs only where all `indices` are zero; none of them may be negative."""
        computed = [i for i in indices if isinstance(i, SSAValue)]
        assert not any(i for i in indices if isinstance(i, int)), "known to be not zero"
        if not computed:
            yield
            return
        total: Index = computed[0]
        for index in computed[1:]:
            total = self.sum(total, index)
        with self._when(total, "eq", 0):
            yield

    @contextmanager
    def unless_zero(self, index: Index) -> Generator[None]:
        """Build what runs only where `index`, which is computed, is not zero."""
        with self._when(index, "ne", 0):
            yield

    def where(self, index: Index, value: int) -> Iterator[None]:
        """Build what runs only where `index` is `value`; nothing if that cannot be."""
        if isinstance(index, SSAValue):
            with self._when(index, "eq", value):
                yield
        elif index == value:
            yield

    @contextmanager
    def _when(self, index: Index, predicate: str, value: int) -> Generator[None]:
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
        The start and size of every block of `extent`: a loop over whole blocks, then the rest,
        if any, so that the body is built at most twice.
        """
        whole = extent // block * block
        if whole:
            with self.loop(0, whole, block) as start:
                yield start, block
        if whole < extent:
            yield whole, extent - whole


class KernelBuilder(IndexBuilder):
    """Inserts before `start`, the operation that is cut into blocks."""

    def __init__(self, start: tile.Conv2dOp | tile.MaxPoolOp | tile.AveragePoolOp):
        super().__init__(start)
        self.packed = packed_vector(start.input)
        """The last dimensions of feature maps in DRAM."""
        rows, self.lanes = (1, *self.packed)[-2:]
        self.tile = (self.lanes, self.lanes)
        self._vector = (rows, self.lanes)

    def view(self, value: SSAValue, *shape: int) -> SSAValue:
        """A buffer in DRAM under another shape."""
        if tile.memref_type(value).get_shape() == shape:
            return value
        self.add(view := tile.ViewOp(value, shape))
        return view.result

    def alloc(self, space: str, *shape: int) -> SSAValue:
        """A buffer on chip for so many vectors, or tiles."""
        vector = self.tile if space == WGT else self._vector
        self.add(alloc := memref.AllocOp([], [], buffer_type(space, shape, vector)))
        return alloc.memref

    def rotate(self, ring: SSAValue) -> SSAValue:
        """The next buffer of a ring."""
        self.add(rotate := tile.RotateOp(ring))
        return rotate.buffer
