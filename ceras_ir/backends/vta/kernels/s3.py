"""
Build the loop nests of Algorithms 1, 2 and 3 of paper S3 (see `docs/papers.md`) for a matrix
product, with a GEMM instruction for each block of a product (16x16x16 in the paper).

Algorithm 2 stores partial sums, as in the paper. The sums remain in the accumulators of a block of
output positions, and the store of the last block of the reduction overwrites the previous stores. A
CPU has no blocks on chip, so each product of Algorithm 1 loads the operands.
"""

from xdsl.ir import SSAValue

from ceras_ir.backends.vta.kernels.builder import Index, KernelBuilder
from ceras_ir.backends.vta.kernels.epilogue import ContractionEpilogue
from ceras_ir.backends.vta.schedule.blocks import Blocks
from ceras_ir.backends.vta.schedule.contraction import Contraction
from ceras_ir.dialects import tile
from ceras_ir.dialects.tile.memory import ACC, INP, WGT


class S3Expansion:
    """
    Builds the kernel of a matrix product before `op`, with the loops of an algorithm of paper S3.
    `blocks.order` selects the algorithm.
    """

    def __init__(self, op: tile.Conv2dOp, shape: Contraction, blocks: Blocks):
        self.op, self.c, self.b = op, shape, blocks
        self.at = at = KernelBuilder(op)
        c, b, self.step = shape, blocks, at.lanes
        self.input = at.view(op.input, c.batch, c.kblocks, c.width, *at.packed)
        self.weights = at.view(op.weights, c.nblocks, c.kblocks, *at.tile)
        self.output = at.view(op.output, c.batch, c.nblocks, c.columns, *at.packed)
        inp_stages, wgt_stages, _ = b.stages
        rows = self.step if b.order is tile.Order.ALG3 else b.columns
        self.epilogue = ContractionEpilogue(op, at, c, b.columns)
        self.inp = at.alloc(INP, inp_stages, b.kblock, rows)
        self.wgt = at.alloc(WGT, wgt_stages, b.nblock, b.kblock)
        self.acc = at.alloc(ACC, c.nblocks, b.columns)

    def build(self) -> None:
        at, c, b = self.at, self.c, self.b
        self.epilogue.load_bias()
        if self.epilogue.products is not None:
            self.epilogue.products.load()
        rows = -(-c.columns // self.step) * self.step
        with at.loop(0, c.batch) as batch:
            for m, size in at.blocks(rows, b.columns):
                at.add(tile.ClearOp(self.acc, [], c.nblocks * b.columns))
                self.epilogue.add_products(self.acc, 0, c.nblocks)
                if b.order is tile.Order.ALG3:
                    self._algorithm3(batch, m, size)
                else:
                    self._algorithms12(batch, m, size)

    def _algorithm3(self, batch: Index, m: Index, size: int) -> None:
        at, c, b = self.at, self.c, self.b
        with at.loop(0, size, self.step) as bm:
            for k, kblock in at.blocks(c.kblocks, b.kblock):
                inp = at.rotate(self.inp)
                self._load_inputs(inp, batch, k, at.sum(m, bm), (kblock, self.step))
                with at.loop(0, c.nblocks) as n:
                    wgt = at.rotate(self.wgt)
                    self._load_weights(wgt, n, k, (1, kblock))
                    with at.loop(0, kblock) as bk:
                        self._product((n, bm), (inp, bk, 0), (wgt, 0, bk))
        self.epilogue.finish(self.acc, 0, 0, c.nblocks)
        self._store(batch, 0, m, c.nblocks)

    def _algorithms12(self, batch: Index, m: Index, size: int) -> None:
        at, c, b = self.at, self.c, self.b
        last = (c.kblocks - 1) // b.kblock * b.kblock
        with at.loop(0, last, b.kblock) as k:
            if last:
                self._column(batch, m, size, k, b.kblock, is_last=False)
        self._column(batch, m, size, last, c.kblocks - last, is_last=True)

    def _column(
        self, batch: Index, m: Index, size: int, k: Index, kblock: int, *, is_last: bool
    ) -> None:
        at, c, b = self.at, self.c, self.b
        by_blocks = b.order is tile.Order.ALG2
        for n, nblock in at.blocks(c.nblocks, b.nblock):
            inp, wgt = at.rotate(self.inp), at.rotate(self.wgt)
            if by_blocks:
                self._load_inputs(inp, batch, k, m, (kblock, b.columns))
                self._load_weights(wgt, n, k, (nblock, kblock))
            with (
                at.loop(0, size, self.step) as bm,
                at.loop(0, kblock) as bk,
                at.loop(0, nblock) as bn,
            ):
                if by_blocks:
                    tiles = (inp, bk, bm), (wgt, 0, at.sum(at.product(bn, kblock), bk))
                else:
                    self._load_inputs(inp, batch, at.sum(k, bk), at.sum(m, bm), (1, self.step))
                    self._load_weights(wgt, at.sum(n, bn), at.sum(k, bk), (1, 1))
                    tiles = (inp, 0, 0), (wgt, 0, 0)
                self._product((at.sum(n, bn), bm), *tiles)
            if is_last:
                self.epilogue.finish(self.acc, n, n, nblock)
            if by_blocks or is_last:
                self._store(batch, n, m, nblock)

    def _load_inputs(
        self, buffer: SSAValue, batch: Index, k: Index, m: Index, box: tuple[int, int]
    ) -> None:
        start = [self.at.value(i) for i in (batch, k, m)]
        self.at.add(tile.LoadOp(self.input, start, buffer, [], box))

    def _load_weights(self, buffer: SSAValue, n: Index, k: Index, box: tuple[int, int]) -> None:
        start = [self.at.value(i) for i in (n, k)]
        self.at.add(tile.LoadOp(self.weights, start, buffer, [], box))

    def _product(
        self,
        acc: tuple[Index, Index],
        inp: tuple[SSAValue, Index, Index],
        wgt: tuple[SSAValue, Index, Index],
    ) -> None:
        """
        Emit a GEMM that multiplies a weight tile by the input vectors of `step` adjacent output
        positions. Each operand is given by its buffer and indices.
        """
        at = self.at
        self.at.add(
            tile.GemmOp(
                (self.acc, at.values(*acc)),
                (inp[0], at.values(*inp[1:])),
                (wgt[0], at.values(*wgt[1:])),
                [(self.step, 1, 1, 0)],
            )
        )

    def _store(self, batch: Index, n: Index, m: Index, count: int) -> None:
        at = self.at
        start = [at.value(i) for i in (batch, n, m)]
        box = (count, self.b.columns)
        at.add(tile.StoreOp(self.acc, at.values(n), self.output, start, box))
