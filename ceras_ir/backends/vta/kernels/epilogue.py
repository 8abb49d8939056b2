"""
Emit the operations of the output stage on finished sums: border, bias, shifts, clamp and swish.

The ALU executes them, except for constants of output channels that the GEMM core adds as products.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from ceras_ir.backends.vta.kernels.builder import (
    Index,
    KernelBuilder,
    MaximumPlanes,
    RowMajor,
)
from ceras_ir.backends.vta.schedule.blocks import Blocks
from ceras_ir.backends.vta.schedule.contraction import (
    SWISH_TEMPORARIES,
    BorderRun,
    Contraction,
    bias_immediate,
    borders_of,
)
from ceras_ir.dialects import tile
from ceras_ir.dialects.tile import AluFunction
from ceras_ir.dialects.tile.memory import ACC, INP, WGT
from ceras_ir.support.diagnostics import InputError


class ChannelProducts:
    """
    The biases and border constants of a contraction that are stored as int8 digits, and that the
    GEMM core adds as products with the place values (`radix`). Their tiles remain on chip; `load`
    is called after the loads of the first block, so that the first product need not wait.
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
        """
        Emit GEMM operations that add constants to `acc`, a buffer and the first index. `digits` has
        the tiles of the constants, `first` the index of the first constant. Each loop is an extent
        with the strides of accumulators and constants.
        """
        tiles = tile.vectors_in(digits)[-1]
        steps = [(extent, target, 0, step * tiles) for extent, target, step in loops]
        # One instruction per tile: consecutive iterations write different sums.
        for place in range(tiles):
            source = (digits, self.at.values(*first, place))
            self.at.add(tile.GemmOp(acc, (self.radix, []), source, steps))


NEGATED_BITS = 17
"""The bits of a signed integer that can hold any 16-bit value and its negative."""

Vectors = tuple[SSAValue, Index]
"""A buffer of accumulators, and the index of an output vector in it."""


class SwishProgram:
    """
    Emits swish on accumulators as MIN, MAX, ADD and shifts, as `graph.shift_swish` defines it, for
    blocks of `positions` output positions.

    The ALU of VTA has two addresses and no subtraction. A value is negated by a product with 2^18 -
    1 modulo 2^32, after a left shift that leaves 17 bits: copies that are shifted by 1, 2, 3, 6 and
    9 bits are added. A copy is an addition to a cleared vector.
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
        if self.constants is not None:
            start = [self.at.value(0), self.at.value(0)]
            box = (self.box[0], self.box[1])
            self.at.add(tile.LoadOp(self.source, start, self.constants, [], box))

    def apply(self, acc: SSAValue, i: Index, n: Index) -> None:
        """
        Emit the swish of output vector `i` of the accumulators `acc`, in place. `n` is the index of
        the vector among all output channels, which selects the constants.
        """
        a: Vectors = (acc, i)
        b, c, d = ((self.temporaries, t) for t in range(SWISH_TEMPORARIES))
        self._negate(a, b, c)
        self._copy(c, a)
        self._with(AluFunction.MIN, c, b)
        self._with(AluFunction.MAX, b, a)
        self._by(AluFunction.MAX, a, 0)
        # Now b = |q| and c = -|q|; d becomes the addend of max(q, 0).
        self._copy(d, c)
        self._by(AluFunction.SHR, d, 2)
        self._constant(AluFunction.ADD, d, 0, n)
        self._by(AluFunction.SHR, c, 1)
        self._with(AluFunction.MAX, c, d)
        self._constant(AluFunction.MAX, c, 1, n)
        self._clear(d)
        for k, bits in ((2, 3), (3, 1), (4, 2)):
            self._by(AluFunction.SHR, b, bits)
            self._constant(AluFunction.ADD, b, k, n)
            self._with(AluFunction.MIN, d, b)
            if k < 4:
                self._constant(AluFunction.ADD, b, k + 3, n)
        self._with(AluFunction.MAX, c, d)
        self._with(AluFunction.ADD, a, c)
        shift, low, high = self.rescaling
        if shift:
            self._by(AluFunction.ADD, a, 1 << shift - 1)
            self._by(AluFunction.SHR, a, shift)
        self._by(AluFunction.MAX, a, low)
        self._by(AluFunction.MIN, a, high)

    def _negate(self, a: Vectors, b: Vectors, c: Vectors) -> None:
        """
        Emit `b = -a`; each is an accumulator vector for all positions, and `c` is overwritten.
        """
        room = 32 - NEGATED_BITS
        self._copy(b, a)
        self._by(AluFunction.SHR, b, -room)
        for times, bits in ((2, 1), (2, 3), (1, 9)):
            self._copy(c, b)
            for _ in range(times):
                self._by(AluFunction.SHR, c, -bits)
                self._with(AluFunction.ADD, b, c)
        self._by(AluFunction.SHR, b, room)

    def _constant(self, kind: AluFunction, target: Vectors, row: int, n: Index) -> None:
        if self.constants is None:
            assert self.uniform is not None
            self._by(kind, target, self.uniform[row])
            return
        loops = [(self.positions, 1, 0)]
        source = (self.constants, self.at.values(row, n))
        self.at.add(tile.AluOp(kind, self._start(target), loops, source=source))

    def _start(self, place: Vectors) -> tuple[SSAValue, list[SSAValue]]:
        return place[0], self.at.values(place[1])

    def _by(self, kind: AluFunction, target: Vectors, immediate: int) -> None:
        loops = [(self.positions, 1)]
        self.at.add(tile.AluOp(kind, self._start(target), loops, immediate=immediate))

    def _with(self, kind: AluFunction, target: Vectors, source: Vectors) -> None:
        loops = [(self.positions, 1, 1)]
        op = tile.AluOp(kind, self._start(target), loops, source=self._start(source))
        self.at.add(op)

    def _clear(self, target: Vectors) -> None:
        self.at.add(tile.ClearOp(*self._start(target), self.positions))

    def _copy(self, target: Vectors, source: Vectors) -> None:
        self._clear(target)
        self._with(AluFunction.ADD, target, source)


class ContractionEpilogue:
    """
    Emits the output stage of a convolution or matrix product (bias, shifts, clamp, swish) for
    blocks of `positions` output positions.
    """

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
        """
        Emit the loads of bias, per-channel shifts and constants of swish. They remain on chip.
        """
        for source, buffer in ((self.op.bias, self.bias), (self.op.shifts, self.shifts)):
            if source is not None and buffer is not None:
                start = [self.at.value(0)]
                self.at.add(tile.LoadOp(source, start, buffer, [], (1, self.nblocks)))
        if self.swish is not None:
            self.swish.load()

    def add_products(self, acc: SSAValue, n: Index, count: int) -> None:
        """
        Emit products that add the bias to the accumulators `acc`, if it is stored as digits in
        weight tiles; otherwise emit no operation. `n` is the first of `count` output vectors.
        """
        if self.products is not None and self.products.bias is not None:
            loops = [(count, self.positions, 1), (self.positions, 1, 0)]
            self.products.add((acc, []), self.products.bias, (n,), loops)

    def finish(self, acc: SSAValue, i: Index, n: Index, count: int) -> None:
        """
        Emit the output stage for `count` output vectors of the accumulators `acc`, from index `i`
        on. `n` is the index of the first vector among all output channels, which selects the
        constants.
        """
        at, op = self.at, self.op
        if self.bias is not None:
            self._by_channel(AluFunction.ADD, acc, i, count, (self.bias, n))
        elif self.immediate:
            self.apply(AluFunction.ADD, acc, i, count, self.immediate)
        if shift := op.shift.value.data:
            self.apply(AluFunction.SHR, acc, i, count, shift)
        if self.shifts is not None:
            known = op.uniform_shifts
            uniform = None if known is None else known.get_values()
            self._by_channel(AluFunction.SHR, acc, i, count, (self.shifts, n), uniform)
        if op.never_below is None:
            self.apply(AluFunction.MAX, acc, i, count, op.low.value.data)
        if op.never_above is None:
            self.apply(AluFunction.MIN, acc, i, count, op.high.value.data)
        if self.swish is not None:
            with at.loop(0, count) as j:
                self.swish.apply(acc, at.sum(i, j), at.sum(n, j))

    def _by_channel(
        self,
        kind: AluFunction,
        acc: SSAValue,
        i: Index,
        count: int,
        source: tuple[SSAValue, Index],
        uniform: Sequence[int] | None = None,
    ) -> None:
        """
        Emit an ALU operation of `count` output vectors with per-channel constants: `source` is the
        buffer and the index of the first vector of constants. `uniform` has the constant of each
        vector, or -1 if its channels differ.
        """
        loops = [(count, self.positions, 1), (self.positions, 1, 0)]
        vectors = (source[0], self.at.values(source[1]))
        target = (acc, self.at.values(i))
        self.at.add(tile.AluOp(kind, target, loops, source=vectors, uniform=uniform))

    def apply(self, kind: AluFunction, acc: SSAValue, i: Index, count: int, immediate: int) -> None:
        loops = [(count * self.positions, 1)]
        self.at.add(tile.AluOp(kind, (acc, self.at.values(i)), loops, immediate=immediate))


@dataclass(frozen=True)
class _Part:
    """
    The rows (or columns) of a block that need the same border constant: `count` of them, in the
    block that starts at row (or column) `block`. `constant` is the index of the constant.
    """

    constant: int
    block: int
    first: int
    """The first row or column, relative to the start of the block."""
    count: int


class Border:
    """
    Adds constants to sums whose windows extend over the border of the input of a contraction.

    Loads pad with zeros. The contribution of the actual padding is a constant for each channel and
    kind of position. It remains on chip and is added by the ALU, or by the GEMM core as a product.
    """

    def __init__(
        self,
        op: tile.Conv2dOp,
        at: KernelBuilder,
        shape: Contraction,
        blocks: Blocks,
        positions: RowMajor | MaximumPlanes,
        products: ChannelProducts | None,
    ):
        assert op.border is not None
        self.all = borders_of(shape)
        kinds, *_ = tile.memref_type(op.border).get_shape()
        if kinds != self.all.constants:
            raise InputError(
                f"'tile.conv2d' has {self.all.constants} kinds of windows beyond the input, but "
                f"the border has constants for {kinds}"
            )
        self.at, self.source, self.blocks, self.positions = at, op.border, blocks, positions
        self.box = (self.all.constants, shape.nblocks * shape.groups)
        self.products = products if shape.border_tiles else None
        self.constants = None if shape.border_tiles else at.alloc(ACC, *self.box)

    def load(self) -> None:
        if self.constants is None:
            return
        start = [self.at.value(0), self.at.value(0)]
        self.at.add(tile.LoadOp(self.source, start, self.constants, [], self.box))

    def add(self, acc: SSAValue, n: Index, count: int, y: Index, x: Index) -> None:
        """
        Add the border constants to a block of accumulators `acc`: `count` output vectors, from
        vector `n` of all output channels on, and the output positions from row `y` and column `x`
        on.
        """
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
        """
        Add the border constants with index `constant` to ranges (first, count) of output rows and
        columns of a block; `None` is the full range.
        """
        at, vectors = self.at, (count, self.blocks.positions, 1)
        for start, loops in self.positions.boxes(rows, columns):
            box = [vectors, *((extent, step, 0) for extent, step in loops)]
            target = (acc, at.values(0, *start))
            if self.products is not None and self.products.border is not None:
                self.products.add(target, self.products.border, (constant, n), box)
                continue
            assert self.constants is not None
            source = (self.constants, at.values(constant, n))
            at.add(tile.AluOp(tile.AluFunction.ADD, target, box, source=source))


def _parts(runs: Sequence[BorderRun], block: int, constant: int) -> Iterator[_Part]:
    for number, run in enumerate(runs, constant):
        end = run.first + run.count
        for start in range(run.first // block * block, end, block):
            first = max(run.first, start)
            yield _Part(number, start, first - start, min(end, start + block) - first)
