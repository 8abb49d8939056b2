"""
Build the loops of a contraction (a convolution or matrix product) in the tile dialect: blocks of
output positions (M), of reductions (K) and of output channels (N).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from ceras_ir.backends.vta.kernels.builder import Index, KernelBuilder, MaximumPlanes, RowMajor
from ceras_ir.backends.vta.kernels.epilogue import Border, ContractionEpilogue
from ceras_ir.backends.vta.schedule.blocks import MIN_MERGED_NBLOCK, Blocks
from ceras_ir.backends.vta.schedule.contraction import Contraction
from ceras_ir.dialects import tile
from ceras_ir.dialects.tile.memory import ACC, INP, WGT


@dataclass(frozen=True, eq=False)
class _Reduction:
    """
    A block of the reduction (K) of a contraction: `size` blocks of input channels from block `k`
    on, at element `tap` (row, column) of the window.
    """

    k: Index
    size: int
    at: Index
    """The position among all reductions of an output, in blocks of input channels."""
    tap: tuple[Index, Index] = (0, 0)


class ConvolutionExpansion:
    """
    Builds the kernel of a convolution or matrix product as operations of the tile dialect, before
    `op`, which it replaces. `shape` has the extents in vectors, `blocks` the block sizes.
    """

    def __init__(self, op: tile.Conv2dOp, shape: Contraction, blocks: Blocks):
        self.op, self.c, self.b = op, shape, blocks
        self.at = at = KernelBuilder(op)
        self.window = shape.window(blocks.rows, blocks.columns)
        self.group: Index = 0
        c = shape
        self.layout = self.positions()
        outer = (c.batch, c.groups) if c.groups > 1 else (c.batch,)
        plane, result = (c.height, c.width), self.results()
        if self.c.is_flat:
            plane, result = plane[1:], result[1:]
        results = (*outer, c.nblocks, *result, *at.packed)
        self.input = at.view(op.input, *outer, c.input_blocks, *plane, *at.packed)
        self.output = at.view(op.output, *results)
        self.residual = None if op.residual is None else at.view(op.residual, *results)
        outputs = c.groups * c.nblocks
        tiles: tuple[int, ...] = (outputs, c.kblocks * c.taps)
        if c.is_by_taps:
            tiles = (outputs, c.input_blocks, prod(c.spread))
            if blocks.kblock == c.input_blocks:
                tiles = (outputs * c.input_blocks, prod(c.spread))
        self.weights = at.view(op.weights, *tiles, *at.tile)
        self._allocate()

    def positions(self) -> RowMajor | MaximumPlanes:
        """Return the order of the positions of a block in the accumulators."""
        return RowMajor(self.b)

    def results(self) -> tuple[int, int]:
        return self.c.rows, self.c.columns

    def _allocate(self) -> None:
        b = self.b
        inp_stages, wgt_stages, acc_stages = b.stages
        inp_shape = (self.window[1],) if self.c.is_flat else self.window
        acc_shape = (b.columns,) if self.c.is_flat else self.layout.shape
        self.epilogue = ContractionEpilogue(self.op, self.at, self.c, self.layout.finished)
        self.border = None
        if self.c.outside:
            products = self.epilogue.products
            self.border = Border(self.op, self.at, self.c, b, self.layout, products)
        k_tiles = -(-self.c.kblocks // b.kblock)
        inp_tiles, wgt_tiles = (k_tiles, 1) if b.order is tile.Order.MNK else (1, k_tiles)
        inp_blocks = b.kblock * (inp_tiles if b.resident else 1)
        wgt_blocks = b.kblock * (wgt_tiles if b.resident else 1)
        self.inp_ring = self.at.alloc(INP, inp_stages, inp_blocks, *inp_shape)
        self.wgt_ring = self.at.alloc(WGT, wgt_stages, wgt_blocks * b.nblock * self.c.taps)
        self.acc_ring = self.at.alloc(ACC, acc_stages, b.nblock, *acc_shape)
        if self.residual is not None:
            self.residual_ring = self.at.alloc(INP, b.nblock, *acc_shape)
            self.residual_tiles = self.at.alloc(WGT, self.op.residual_tiles)

    def build(self) -> None:
        """
        Build the kernel: loads of constants, then the loops over blocks of positions and channels.
        """
        at, c = self.at, self.c
        zero = at.value(0)
        self.epilogue.load_bias()
        if self.border is not None:
            self.border.load()
        if self.op.residual_weights is not None:
            count = self.op.residual_tiles
            tiles = at.view(self.op.residual_weights, 1, count, *at.tile)
            at.add(tile.LoadOp(tiles, [zero, zero], self.residual_tiles, [], (1, count)))
        with at.loop(0, c.groups) as self.group:
            self._loops()

    def _loops(self) -> None:
        at, c, b = self.at, self.c, self.b
        is_kept = b.resident or b.kblock >= c.kblocks
        if b.order is tile.Order.NMK:
            for n, size in at.blocks(c.nblocks, b.nblock):
                weights = self.at.rotate(self.wgt_ring) if is_kept else None
                for batch, y, x in self.blocks_of_positions():
                    self._block(batch, y, x, n, size, None, weights)
            return
        for batch, y, x in self.blocks_of_positions():
            inputs = self.at.rotate(self.inp_ring) if is_kept else None
            for n, size in at.blocks(c.nblocks, b.nblock):
                self._block(batch, y, x, n, size, inputs, None)

    def blocks_of_positions(self):
        """
        Build the loops over the blocks of output positions; yield batch, first row and first column
        of a block.
        """
        at, c, b = self.at, self.c, self.b
        with (
            at.loop(0, c.batch) as batch,
            at.loop(0, c.rows, b.rows) as y,
            at.loop(0, c.columns, b.columns) as x,
        ):
            yield batch, y, x

    def image(self, batch: Index) -> list[Index]:
        """
        Return the leading indices of an image in the packed tensor: the batch, and the current
        group if there are several.
        """
        return [batch, self.group] if self.c.groups > 1 else [batch]

    def _channel(self, n: Index) -> Index:
        """
        Return the index among the output vectors of all groups of vector `n` of the current group.
        """
        return self.at.sum(self.at.product(self.group, self.c.nblocks), n)

    def _load_weights(
        self, buffer: SSAValue, at_k: Index, n: Index, nblock: int, part: _Reduction
    ) -> None:
        at, c, taps = self.at, self.c, self.c.taps
        first, target = self._channel(n), at.product(at_k, self.b.nblock * taps)
        if not c.is_by_taps:
            start = [at.value(first), at.value(at.product(part.k, taps))]
            box = (nblock, part.size * taps)
            at.add(tile.LoadOp(self.weights, start, buffer, at.values(target), box))
            return
        tap = at.value(at.sum(at.product(part.tap[0], c.spread[1]), part.tap[1]))
        if part.size == c.input_blocks:
            start = [at.value(at.product(first, part.size)), tap]
            box = (nblock * part.size, 1)
            at.add(tile.LoadOp(self.weights, start, buffer, at.values(target), box))
            return
        with at.loop(0, nblock) as i:
            start = [at.value(at.sum(first, i)), at.value(part.k), tap]
            place = at.values(at.sum(target, at.product(i, part.size)))
            at.add(tile.LoadOp(self.weights, start, buffer, place, (part.size, 1)))

    def _load_inputs(
        self, buffer: SSAValue, at_k: Index, batch: Index, y: Index, x: Index, part: _Reduction
    ) -> None:
        at, c, k, kblock = self.at, self.c, part.k, part.size
        down, right = (at.product(i, d) for i, d in zip(part.tap, c.dilations, strict=True))
        column = at.sum(at.sum(at.product(x, c.strides[1]), right), -c.padding[1])
        if self.c.is_flat:
            start = [at.value(i) for i in (*self.image(batch), k, column)]
            box = (kblock, self.window[1])
            at.add(tile.LoadOp(self.input, start, buffer, at.values(at_k), box))
            return
        row = at.sum(at.sum(at.product(y, c.strides[0]), down), -c.padding[0])
        with at.loop(0, kblock) as i:
            start = [at.value(j) for j in (*self.image(batch), at.sum(k, i), row, column)]
            target = at.values(at.sum(at_k, i))
            at.add(tile.LoadOp(self.input, start, buffer, target, self.window, c.row_step))

    def _block(
        self,
        batch: Index,
        y: Index,
        x: Index,
        n: Index,
        nblock: int,
        inputs: SSAValue | None,
        weights: SSAValue | None,
    ) -> None:
        """
        Build a block of output positions and channels: all reductions, then the output stage. The
        inner of the two loops over blocks reuses one operand: `inputs` or `weights` is the buffer
        that holds it, and is loaded in the first iteration.
        """
        at, b = self.at, self.b
        acc = self.at.rotate(self.acc_ring)
        at.add(tile.ClearOp(acc, [], nblock * b.positions))
        if self.residual is not None:
            self._add_residual(self.residual, acc, batch, y, x, n, nblock)
        for part in self._reductions():
            inp, inp_at = (inputs, part.at) if inputs else (self.at.rotate(self.inp_ring), 0)
            wgt, wgt_at = (weights, part.at) if weights else (self.at.rotate(self.wgt_ring), 0)
            if inputs is None or not isinstance(n, int) or n == 0:
                with at.when_zero(*((n,) if inputs else ())):
                    self._load_inputs(inp, inp_at, batch, y, x, part)
            with at.when_zero(*((batch, y, x) if weights else ())):
                self._load_weights(wgt, wgt_at, n, nblock, part)
            self._gemm(acc, (inp, inp_at), (wgt, wgt_at), nblock, part.size)
        self._add_constants(acc, batch, y, x, n, nblock)
        for i, size in at.blocks(nblock, b.drain or nblock):
            self.epilogue.finish(acc, i, self._channel(at.sum(n, i)), size)
            self.store(acc, i, batch, y, x, n, size)

    def _add_constants(
        self, acc: SSAValue, batch: Index, y: Index, x: Index, n: Index, nblock: int
    ) -> None:
        """
        Add the constants to the sums of a block: those at the border, and those that the GEMM core
        adds as products, which the first block of the kernel loads.
        """
        products, block = self.epilogue.products, (self.group, batch, y, x, n)
        if products is not None and all(isinstance(i, SSAValue) or i == 0 for i in block):
            with self.at.when_zero(*block):
                products.load()
        if self.border is not None:
            self.border.add(acc, self._channel(n), nblock, y, x)
        self.combine(acc, y)
        self.epilogue.add_products(acc, self._channel(n), nblock)

    def combine(self, acc: SSAValue, y: Index) -> None:
        """
        Combine the sums of different positions of a block that begins at row `y`, before the bias
        is added. The base class does not combine any.
        """

    def _reductions(self) -> Iterator[_Reduction]:
        at, c, b = self.at, self.c, self.b
        if not c.is_by_taps:
            for k, size in at.blocks(c.kblocks, b.kblock):
                yield _Reduction(k, size, k)
            return
        kh, kw = c.spread
        with at.loop(0, kh) as i, at.loop(0, kw) as j, at.loop(0, c.input_blocks, b.kblock) as k:
            tap = at.sum(at.product(i, kw), j)
            where = at.sum(at.product(tap, c.input_blocks), k)
            yield _Reduction(k, b.kblock, where, (i, j))

    def store(
        self, acc: SSAValue, i: Index, batch: Index, y: Index, x: Index, n: Index, count: int
    ) -> None:
        at, b = self.at, self.b
        if self.c.is_flat:
            start = [at.value(j) for j in (*self.image(batch), at.sum(n, i), x)]
            at.add(tile.StoreOp(acc, at.values(i), self.output, start, (count, b.columns)))
            return
        with at.loop(0, count) as j:
            block = at.sum(i, j)
            start = [at.value(v) for v in (*self.image(batch), at.sum(n, block), y, x)]
            box = (b.rows, b.columns)
            at.add(tile.StoreOp(acc, at.values(block), self.output, start, box))

    def _gemm(
        self,
        acc: SSAValue,
        inputs: tuple[SSAValue, Index],
        weights: tuple[SSAValue, Index],
        nblock: int,
        kblock: int,
    ) -> None:
        at, c, b = self.at, self.c, self.b
        (inp, inp_at), (wgt, wgt_at) = inputs, weights
        wgt_start = at.product(wgt_at, b.nblock * c.taps)
        ih, iw = self.window
        (kh, kw), (dh, dw) = c.kernel, c.dilations
        positions = self.layout.loops(c, iw)
        channels = (nblock, b.positions, 0, kblock * c.taps)
        if nblock >= MIN_MERGED_NBLOCK and c.is_flat:
            # The hardware loops iterate over K and M, so micro-ops only iterate over N.
            loops = [(kblock, 0, ih * iw, 1), (b.columns, 1, 1, 0)]
            operands = (inp, at.values(inp_at)), (wgt, at.values(wgt_start))
            at.add(tile.GemmOp((acc, []), *operands, [*loops, channels]))
            return
        if nblock >= MIN_MERGED_NBLOCK:
            sums = [(kblock, 0, ih * iw, c.taps), (kh, 0, dh * iw, kw), (kw, 0, dw, 1)]
            inner = [loop for loop in sums if loop[0] > 1]
            operands = (inp, at.values(inp_at)), (wgt, at.values(wgt_start))
            at.add(tile.GemmOp((acc, []), *operands, [*positions, *inner, channels]))
            return
        with at.loop(0, kblock) as k, at.loop(0, kh) as i, at.loop(0, kw) as j:
            rows, columns = at.product(i, dh), at.product(j, dw)
            block = at.sum(inp_at, k)
            source = (
                at.values(block, columns) if self.c.is_flat else at.values(block, rows, columns)
            )
            position = at.sum(at.product(k, c.taps), at.sum(at.product(i, kw), j))
            position = at.sum(wgt_start, position)
            inner = [channels] if nblock > 1 else []
            at.add(
                tile.GemmOp(
                    (acc, []), (inp, source), (wgt, at.values(position)), [*positions, *inner]
                )
            )

    def _add_residual(
        self,
        residual: SSAValue,
        acc: SSAValue,
        batch: Index,
        y: Index,
        x: Index,
        n: Index,
        nblock: int,
    ) -> None:
        """
        Add the residual of a block to the cleared sums: multiply it by a diagonal tile of weights,
        and shift the sums left.
        """
        at, b = self.at, self.b
        loops = [(b.rows, b.columns, b.columns, 0), (b.columns, 1, 1, 0)]
        with at.loop(0, nblock) as i:
            buffer = self.at.rotate(self.residual_ring)
            block = at.sum(n, i)
            start = (*self.image(batch), block, *((x,) if self.c.is_flat else (y, x)))
            box = (1, b.columns) if self.c.is_flat else (b.rows, b.columns)
            at.add(tile.LoadOp(residual, [at.value(j) for j in start], buffer, [], box))
            indices = at.values(self._channel(block)) if self.op.residual_tiles > 1 else []
            weights = (self.residual_tiles, indices)
            at.add(tile.GemmOp((acc, at.values(i)), (buffer, []), weights, loops))
        if shift := self.op.residual_shift.value.data:
            self.epilogue.apply(tile.AluFunction.SHR, acc, 0, nblock, -shift)


class MaximumExpansion(ConvolutionExpansion):
    """
    Builds a convolution with a maximum over windows, in blocks of entire rows from the top down,
    with a single output vector each.

    Maxima are computed along rows, then down columns, in place. The first maxima of a block need
    sums of the previous block, which are still in the other accumulators.

    Exact: bias, shift and clamp are monotonic.
    """

    @property
    def maximum(self) -> tile.WindowMaximum:
        assert self.c.maximum is not None
        return self.c.maximum

    def positions(self) -> MaximumPlanes:
        return MaximumPlanes(self.b, self.maximum)

    def results(self) -> tuple[int, int]:
        return self.maximum.results(self.c.rows, self.c.columns)

    def blocks_of_positions(self):
        at, c, (rows, _) = self.at, self.c, self.layout.shape[1:]
        with at.loop(0, c.batch) as batch, at.loop(0, self.results()[0], rows) as self._first:
            yield batch, at.product(self._first, self.maximum.strides[0]), 0

    def combine(self, acc: SSAValue, y: Index) -> None:
        at, (sh, sw), (_, rows, columns) = self.at, self.maximum.strides, self.layout.shape
        size = rows * columns
        lines = (sh, sw * size, sw * size)
        for offset in self.maximum.offsets(1):
            if offset > 0:
                loops = [lines, (size, 1, 1)]
                self._greater(acc, (0,), acc, (offset,), loops)
            elif columns > 1:
                loops = [(rows, columns, columns), (columns - 1, 1, 1), lines]
                self._greater(acc, (0, 0, 1), acc, (sw + offset,), loops)
        # With two buffers, the next buffer is the previous one. The second rotation restores this
        # block.
        before = at.rotate(self.acc_ring)
        at.rotate(self.acc_ring)
        for offset in self.maximum.offsets(0):
            if offset > 0:
                self._greater(acc, (0,), acc, (offset * sw,), [(size, 1, 1)])
                continue
            plane = (sh + offset) * sw
            if rows > 1:
                self._greater(acc, (0, 1), acc, (plane,), [(size - columns, 1, 1)])
            if isinstance(y, SSAValue):
                with at.unless_zero(y):
                    self._greater(acc, (0,), before, (plane, rows - 1), [(columns, 1, 1)])

    def _greater(
        self,
        acc: SSAValue,
        target: Sequence[int],
        other: SSAValue,
        source: Sequence[int],
        loops: Sequence[tuple[int, int, int]],
    ) -> None:
        """
        Emit `target = max(target, source)` on accumulators. `target` and `source` are (plane, row,
        column) of the first vector; `source` is in the buffer `other`. `loops` have (extent,
        strides of both).
        """
        at = self.at
        vectors = (other, at.values(0, *source))
        where = (acc, at.values(0, *target))
        at.add(tile.AluOp(tile.AluFunction.MAX, where, loops, source=vectors))

    def store(
        self, acc: SSAValue, i: Index, batch: Index, y: Index, x: Index, n: Index, count: int
    ) -> None:
        _, rows, columns = self.layout.shape
        start = [self.at.value(v) for v in (*self.image(batch), n, self._first, 0)]
        self.at.add(tile.StoreOp(acc, self.at.values(i), self.output, start, (rows, columns)))
