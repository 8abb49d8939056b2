"""Turn scheduled contractions into loops over blocks in scratchpads."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ceras_ir.analysis.blocks import MERGE_FROM, Blocks, longest_row, misfit
from ceras_ir.analysis.contraction import Contraction, contraction_of
from ceras_ir.backends.vta.board import load_board
from ceras_ir.diagnostics import UnsupportedError
from ceras_ir.dialects import tile
from ceras_ir.dialects.tile.memory import ACC, INP, WGT, buffer_type
from ceras_ir.transforms.index_builder import Index, IndexBuilder


@dataclass(frozen=True)
class ExpandTilesPass(ModulePass):
    """
    Every `tile.conv2d` with a schedule becomes `scf.for` loops around loads, 16x16 GEMMs, ALU
    operations and stores; those without are left.

    Exact: every output position is computed by one block, from a cleared accumulator to which
    the same products are added in another order; positions and channels that a last block has
    beyond the tensor are computed from zeros and never stored.
    """

    name = "expand-tiles"

    board: str = "zcu102"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        board = load_board(self.board)
        for contraction in list(op.walk()):
            if not isinstance(contraction, tile.Conv2dOp) or contraction.schedule is None:
                continue
            blocks = Blocks.of(contraction.schedule)
            shape = contraction_of(contraction).flattened(longest_row(board))
            if reason := misfit(shape, blocks, board):
                raise UnsupportedError(
                    f"unsupported schedule {contraction.schedule} on '{self.board}': {reason}"
                )
            _Expansion(contraction, shape, blocks).build()
            contraction.detach()
            contraction.erase()


class _Expansion:
    """Builds the loops of one contraction."""

    def __init__(self, op: tile.Conv2dOp, shape: Contraction, blocks: Blocks):
        self.op, self.c, self.b = op, shape, blocks
        self.at = IndexBuilder(op)
        self.window = shape.window(blocks.rows, blocks.columns)
        c = shape
        images = (c.batch, c.kblocks, c.height, c.width, tile.LANES)
        results = (c.batch, c.nblocks, c.rows, c.columns, tile.LANES)
        if self.flat:
            images, results = (*images[:2], *images[3:]), (*results[:2], *results[3:])
        self.input = self._view(op.input, images)
        self.output = self._view(op.output, results)
        self.residual = None if op.residual is None else self._view(op.residual, results)
        tiles = (c.nblocks, c.kblocks * c.taps, tile.LANES, tile.LANES)
        self.weights = self._view(op.weights, tiles)
        self._allocate()

    @property
    def flat(self) -> bool:
        """Whether positions are one row, so that a K-block is one two-dimensional transfer."""
        return self.c.is_pointwise and self.c.height == 1

    def _view(self, value: SSAValue, shape: tuple[int, ...]) -> SSAValue:
        if tile.memref_type(value).get_shape() == shape:
            return value
        view = tile.ViewOp(value, shape)
        self.at.add(view)
        return view.result

    def _alloc(self, space: str, *shape: int) -> SSAValue:
        alloc = memref.AllocOp([], [], buffer_type(space, shape))
        self.at.add(alloc)
        return alloc.memref

    def _allocate(self) -> None:
        b = self.b
        inp_stages, wgt_stages, acc_stages = b.stages
        inp_shape = (self.window[1],) if self.flat else self.window
        acc_shape = (b.columns,) if self.flat else (b.rows, b.columns)
        self.bias = self._alloc(ACC, self.c.nblocks)
        self.inp_ring = self._alloc(INP, inp_stages, b.kblock, *inp_shape)
        self.wgt_ring = self._alloc(WGT, wgt_stages, b.nblock * b.kblock * self.c.taps)
        self.acc_ring = self._alloc(ACC, acc_stages, b.nblock, *acc_shape)
        if self.residual is not None:
            self.residual_ring = self._alloc(INP, inp_stages, *acc_shape)
            self.residual_tile = self._alloc(WGT, 1)

    def build(self) -> None:
        """The kernel: what stays on chip throughout, then the loops over blocks."""
        at, c, b = self.at, self.c, self.b
        zero = at.value(0)
        at.add(tile.LoadOp(self.op.bias, [zero], self.bias, [], (1, c.nblocks)))
        if self.op.residual_weights is not None:
            one = self._view(self.op.residual_weights, (1, tile.LANES, tile.LANES))
            at.add(tile.LoadOp(one, [zero], self.residual_tile, [], (1, 1)))
        whole = b.kblock >= c.kblocks
        if b.order is tile.Order.NMK:
            for n, size in at.blocks(c.nblocks, b.nblock):
                weights = self._load_weights(n, size, 0, c.kblocks) if whole else None
                for batch, y, x in self._positions():
                    self._block(batch, y, x, n, size, None, weights)
            return
        for batch, y, x in self._positions():
            inputs = self._load_inputs(batch, y, x, 0, c.kblocks) if whole else None
            for n, size in at.blocks(c.nblocks, b.nblock):
                self._block(batch, y, x, n, size, inputs, None)

    def _positions(self):
        """Loops over M-blocks: batch, first row and first column."""
        at, c, b = self.at, self.c, self.b
        with (
            at.loop(0, c.batch) as batch,
            at.loop(0, c.rows, b.rows) as y,
            at.loop(0, c.columns, b.columns) as x,
        ):
            yield batch, y, x

    def _rotate(self, ring: SSAValue) -> SSAValue:
        rotate = tile.RotateOp(ring)
        self.at.add(rotate)
        return rotate.buffer

    def _load_weights(self, n: Index, nblock: int, k: Index, kblock: int) -> SSAValue:
        at, taps = self.at, self.c.taps
        buffer = self._rotate(self.wgt_ring)
        start = [at.value(n), at.value(at.product(k, taps))]
        at.add(tile.LoadOp(self.weights, start, buffer, [], (nblock, kblock * taps)))
        return buffer

    def _load_inputs(self, batch: Index, y: Index, x: Index, k: Index, kblock: int) -> SSAValue:
        at, c = self.at, self.c
        buffer = self._rotate(self.inp_ring)
        column = at.sum(at.product(x, c.strides[1]), -c.padding[1])
        if self.flat:
            start = [at.value(i) for i in (batch, k, column)]
            at.add(tile.LoadOp(self.input, start, buffer, [], (kblock, self.window[1])))
            return buffer
        row = at.sum(at.product(y, c.strides[0]), -c.padding[0])
        with at.loop(0, kblock) as i:
            start = [at.value(j) for j in (batch, at.sum(k, i), row, column)]
            target = at.values(i)
            at.add(tile.LoadOp(self.input, start, buffer, target, self.window, c.row_step))
        return buffer

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
        """One M-block and N-block: all of K, then the epilogue."""
        at, c, b = self.at, self.c, self.b
        acc = self._rotate(self.acc_ring)
        at.add(tile.ClearOp(acc, [], nblock * b.positions))
        if self.residual is not None:
            self._add_residual(self.residual, acc, batch, y, x, n, nblock)
        for k, kblock in at.blocks(c.kblocks, b.kblock):
            inp = inputs or self._load_inputs(batch, y, x, k, kblock)
            wgt = weights or self._load_weights(n, nblock, k, kblock)
            self._gemm(acc, inp, wgt, nblock, kblock)
        self._finish(acc, n, nblock)
        if self.flat:
            start = [at.value(i) for i in (batch, n, x)]
            at.add(tile.StoreOp(acc, [], self.output, start, (nblock, b.columns)))
            return
        with at.loop(0, nblock) as i:
            start = [at.value(j) for j in (batch, at.sum(n, i), y, x)]
            at.add(tile.StoreOp(acc, at.values(i), self.output, start, (b.rows, b.columns)))

    def _gemm(self, acc: SSAValue, inp: SSAValue, wgt: SSAValue, nblock: int, kblock: int) -> None:
        at, c, b = self.at, self.c, self.b
        ih, iw = self.window
        (kh, kw), (dh, dw) = c.kernel, c.dilations
        positions = [(b.rows, b.columns, c.row_stride * iw, 0), (b.columns, 1, c.strides[1], 0)]
        channels = (nblock, b.positions, 0, kblock * c.taps)
        if nblock >= MERGE_FROM:
            sums = [(kblock, 0, ih * iw, c.taps), (kh, 0, dh * iw, kw), (kw, 0, dw, 1)]
            inner = [loop for loop in sums if loop[0] > 1]
            at.add(tile.GemmOp((acc, []), (inp, []), (wgt, []), [*positions, *inner, channels]))
            return
        with at.loop(0, kblock) as k, at.loop(0, kh) as i, at.loop(0, kw) as j:
            rows, columns = at.product(i, dh), at.product(j, dw)
            source = at.values(k, columns) if self.flat else at.values(k, rows, columns)
            position = at.sum(at.product(k, c.taps), at.sum(at.product(i, kw), j))
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
        """Bring the residual in by one diagonal tile of weights, then move it left."""
        at, b = self.at, self.b
        loops = [(b.rows, b.columns, b.columns, 0), (b.columns, 1, 1, 0)]
        with at.loop(0, nblock) as i:
            buffer = self._rotate(self.residual_ring)
            block = at.sum(n, i)
            start = (batch, block, x) if self.flat else (batch, block, y, x)
            box = (1, b.columns) if self.flat else (b.rows, b.columns)
            at.add(tile.LoadOp(residual, [at.value(j) for j in start], buffer, [], box))
            at.add(tile.GemmOp((acc, at.values(i)), (buffer, []), (self.residual_tile, []), loops))
        if shift := self.op.residual_shift.value.data:
            self._alu(tile.Alu.SHR, acc, nblock, -shift)

    def _finish(self, acc: SSAValue, n: Index, nblock: int) -> None:
        """Bias, shift and clamp."""
        at, positions = self.at, self.b.positions
        at.add(
            tile.AluOp(
                tile.Alu.ADD,
                (acc, []),
                [(nblock, positions, 1), (positions, 1, 0)],
                source=(self.bias, at.values(n)),
            )
        )
        if shift := self.op.shift.value.data:
            self._alu(tile.Alu.SHR, acc, nblock, shift)
        self._alu(tile.Alu.MAX, acc, nblock, self.op.low.value.data)
        self._alu(tile.Alu.MIN, acc, nblock, self.op.high.value.data)

    def _alu(self, kind: tile.Alu, acc: SSAValue, nblock: int, immediate: int) -> None:
        loops = [(nblock * self.b.positions, 1)]
        self.at.add(tile.AluOp(kind, (acc, []), loops, immediate=immediate))
