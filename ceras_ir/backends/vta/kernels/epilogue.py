"""
What is done with finished sums: bias, shifts, clamp and swish.

The ALU does it, except for constants of output channels that the GEMM core adds as products.
"""

from collections.abc import Sequence
from math import prod

from xdsl.ir import SSAValue

from ceras_ir.backends.vta.kernels.builder import Index, KernelBuilder
from ceras_ir.backends.vta.schedule.contraction import (
    SWISH_TEMPORARIES,
    Contraction,
    bias_immediate,
    borders_of,
)
from ceras_ir.dialects import tile
from ceras_ir.dialects.tile import Alu
from ceras_ir.dialects.tile.memory import ACC, INP, WGT


class ChannelProducts:
    """
    Of one contraction. Its tiles stay on chip; `load` comes after the loads of the first block,
    so that the first product need not wait for them.
    """

    def __init__(self, op: tile.Conv2dOp, at: KernelBuilder, shape: Contraction):
        self.op, self.at = op, at
        self.vectors = shape.nblocks * shape.groups
        self.radix = at.alloc(INP, 1)
        self.kinds = borders_of(shape).constants
        bias, border = (self.vectors, shape.bias_tiles), (self.vectors, shape.border_tiles)
        self.bias = at.alloc(WGT, *bias) if shape.bias_tiles else None
        self.border = at.alloc(WGT, self.kinds, *border) if shape.border_tiles else None

    def load(self) -> None:
        """Bring the vector and all tiles on chip."""
        at, zero = self.at, self.at.value(0)
        assert self.op.radix is not None
        radix = at.view(self.op.radix, 1, *at.packed)
        at.add(tile.LoadOp(radix, [zero], self.radix, [], (1, 1)))
        for source, buffer in ((self.op.bias, self.bias), (self.op.border, self.border)):
            if buffer is not None and source is not None:
                count = prod(tile.vectors_in(buffer))
                tiles = at.view(source, count, *at.tile)
                at.add(tile.LoadOp(tiles, [zero], buffer, [], (1, count)))

    def add(
        self,
        acc: tuple[SSAValue, Sequence[SSAValue]],
        digits: SSAValue,
        first: Sequence[Index],
        loops: Sequence[tuple[int, int, int]],
    ) -> None:
        """Constants from `first` on; loops are extents, and strides of sums and of constants."""
        tiles = tile.vectors_in(digits)[-1]
        steps = [(extent, target, 0, step * tiles) for extent, target, step in loops]
        # One instruction for each tile: consecutive iterations write different sums.
        for place in range(tiles):
            source = (digits, self.at.values(*first, place))
            self.at.add(tile.GemmOp(acc, (self.radix, []), source, steps))


NEGATED_BITS = 17
"""A number of 16 bits and its negative."""

Vectors = tuple[SSAValue, Index]
"""A buffer of accumulators, and the output vector of it."""


class SwishProgram:
    """
    Swish of accumulators by MIN, MAX, ADD and shifts, as `graph.shift_swish` defines it, for a
    contraction whose blocks have `positions` output positions.

    VTA's ALU has two addresses and no difference. A number is negated by a product with 2^18 - 1
    modulo 2^32, after a shift to the left that leaves room for 17 bits: copies moved by 1, 2, 3, 6
    and 9 bits are added. A copy is a sum with what was cleared.
    """

    def __init__(self, op: tile.Conv2dOp, at: KernelBuilder, positions: int):
        assert op.bends is not None and op.swish is not None
        self.at, self.positions, self.source = at, positions, op.bends
        self.rescaling = list(op.swish.get_values())
        self.uniform = None if op.uniform_bends is None else list(op.uniform_bends.get_values())
        self.box = tile.memref_type(op.bends).get_shape()[:2]
        self.temporaries = at.alloc(ACC, SWISH_TEMPORARIES, positions)
        self.constants = None if self.uniform is not None else at.alloc(ACC, *self.box)

    def load(self) -> None:
        """Bring constants on chip that are no immediates."""
        if self.constants is not None:
            start = [self.at.value(0), self.at.value(0)]
            box = (self.box[0], self.box[1])
            self.at.add(tile.LoadOp(self.source, start, self.constants, [], box))

    def apply(self, acc: SSAValue, i: Index, n: Index) -> None:
        """Output vector `i` of `acc`, which is vector `n` of all."""
        a: Vectors = (acc, i)
        b, c, d = ((self.temporaries, t) for t in range(SWISH_TEMPORARIES))
        self._negate(a, b, c)
        self._copy(c, a)
        self._with(Alu.MIN, c, b)
        self._with(Alu.MAX, b, a)
        self._by(Alu.MAX, a, 0)
        # Now b = |q| and c = -|q|; d becomes what is added to max(q, 0).
        self._copy(d, c)
        self._by(Alu.SHR, d, 2)
        self._constant(Alu.ADD, d, 0, n)
        self._by(Alu.SHR, c, 1)
        self._with(Alu.MAX, c, d)
        self._constant(Alu.MAX, c, 1, n)
        self._clear(d)
        for k, bits in ((2, 3), (3, 1), (4, 2)):
            self._by(Alu.SHR, b, bits)
            self._constant(Alu.ADD, b, k, n)
            self._with(Alu.MIN, d, b)
            if k < 4:
                self._constant(Alu.ADD, b, k + 3, n)
        self._with(Alu.MAX, c, d)
        self._with(Alu.ADD, a, c)
        shift, low, high = self.rescaling
        if shift:
            self._by(Alu.ADD, a, 1 << shift - 1)
            self._by(Alu.SHR, a, shift)
        self._by(Alu.MAX, a, low)
        self._by(Alu.MIN, a, high)

    def _negate(self, a: Vectors, b: Vectors, c: Vectors) -> None:
        """`b = -a`; uses `c`."""
        room = 32 - NEGATED_BITS
        self._copy(b, a)
        self._by(Alu.SHR, b, -room)
        for times, bits in ((2, 1), (2, 3), (1, 9)):
            self._copy(c, b)
            for _ in range(times):
                self._by(Alu.SHR, c, -bits)
                self._with(Alu.ADD, b, c)
        self._by(Alu.SHR, b, room)

    def _constant(self, kind: Alu, target: Vectors, row: int, n: Index) -> None:
        """`target = kind(target, constant of this row)`"""
        if self.constants is None:
            assert self.uniform is not None
            self._by(kind, target, self.uniform[row])
            return
        loops = [(self.positions, 1, 0)]
        source = (self.constants, self.at.values(row, n))
        self.at.add(tile.AluOp(kind, self._start(target), loops, source=source))

    def _start(self, place: Vectors) -> tuple[SSAValue, list[SSAValue]]:
        return place[0], self.at.values(place[1])

    def _by(self, kind: Alu, target: Vectors, immediate: int) -> None:
        loops = [(self.positions, 1)]
        self.at.add(tile.AluOp(kind, self._start(target), loops, immediate=immediate))

    def _with(self, kind: Alu, target: Vectors, source: Vectors) -> None:
        loops = [(self.positions, 1, 1)]
        op = tile.AluOp(kind, self._start(target), loops, source=self._start(source))
        self.at.add(op)

    def _clear(self, target: Vectors) -> None:
        self.at.add(tile.ClearOp(*self._start(target), self.positions))

    def _copy(self, target: Vectors, source: Vectors) -> None:
        self._clear(target)
        self._with(Alu.ADD, target, source)


class Epilogue:
    """Of one contraction whose blocks have `positions` output positions."""

    def __init__(self, op: tile.Conv2dOp, at: KernelBuilder, shape: Contraction, positions: int):
        self.op, self.at, self.positions = op, at, positions
        self.nblocks = shape.nblocks * shape.groups
        self.immediate = bias_immediate(op)
        by_alu = self.immediate is None and not op.bias_tiles
        self.bias = at.alloc(ACC, self.nblocks) if by_alu else None
        self.products = ChannelProducts(op, at, shape) if shape.has_products else None
        self.shifts = None if op.shifts is None else at.alloc(ACC, self.nblocks)
        self.swish = None if op.swish is None else SwishProgram(op, at, positions)

    def load_bias(self) -> None:
        """Bring the bias on chip, where it stays, and what channels shift by; a swish's too."""
        for source, buffer in ((self.op.bias, self.bias), (self.op.shifts, self.shifts)):
            if source is not None and buffer is not None:
                start = [self.at.value(0)]
                self.at.add(tile.LoadOp(source, start, buffer, [], (1, self.nblocks)))
        if self.swish is not None:
            self.swish.load()

    def add_products(self, acc: SSAValue, n: Index, count: int) -> None:
        """The bias of `count` output vectors, the first of which is vector `n`, if it has tiles."""
        if self.products is not None and self.products.bias is not None:
            loops = [(count, self.positions, 1), (self.positions, 1, 0)]
            self.products.add((acc, []), self.products.bias, (n,), loops)

    def finish(self, acc: SSAValue, i: Index, n: Index, count: int) -> None:
        """`count` output vectors from `i` of `acc` on, the first of which is vector `n` of all."""
        at, op = self.at, self.op
        if self.bias is not None:
            self._by_channel(tile.Alu.ADD, acc, i, count, (self.bias, n))
        elif self.immediate:
            self.apply(tile.Alu.ADD, acc, i, count, self.immediate)
        if shift := op.shift.value.data:
            self.apply(tile.Alu.SHR, acc, i, count, shift)
        if self.shifts is not None:
            known = op.uniform_shifts
            uniform = None if known is None else known.get_values()
            self._by_channel(tile.Alu.SHR, acc, i, count, (self.shifts, n), uniform)
        if op.never_below is None:
            self.apply(tile.Alu.MAX, acc, i, count, op.low.value.data)
        if op.never_above is None:
            self.apply(tile.Alu.MIN, acc, i, count, op.high.value.data)
        if self.swish is not None:
            with at.loop(0, count) as j:
                self.swish.apply(acc, at.sum(i, j), at.sum(n, j))

    def _by_channel(
        self,
        kind: tile.Alu,
        acc: SSAValue,
        i: Index,
        count: int,
        source: tuple[SSAValue, Index],
        uniform: Sequence[int] | None = None,
    ) -> None:
        """
        One operation with the constants, from a vector on, of `count` output vectors; `uniform` of
        all vectors.
        """
        loops = [(count, self.positions, 1), (self.positions, 1, 0)]
        vectors = (source[0], self.at.values(source[1]))
        target = (acc, self.at.values(i))
        self.at.add(tile.AluOp(kind, target, loops, source=vectors, uniform=uniform))

    def apply(self, kind: tile.Alu, acc: SSAValue, i: Index, count: int, immediate: int) -> None:
        """One operation with a constant on `count` output vectors."""
        loops = [(count * self.positions, 1)]
        self.at.add(tile.AluOp(kind, (acc, self.at.values(i)), loops, immediate=immediate))
