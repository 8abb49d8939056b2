"""Loops of a maximum pooling: into the accumulators, along rows in place, down columns, out."""

from xdsl.dialects import memref
from xdsl.ir import SSAValue

from ceras_ir.analysis.pooling_blocks import Pooling
from ceras_ir.dialects import tile
from ceras_ir.dialects.tile.memory import ACC, INP, WGT, buffer_type
from ceras_ir.transforms.index_builder import IndexBuilder


def pooling_of(op: tile.MaxPoolOp) -> Pooling:
    """The shape of `op`."""
    n, c, h, w, _ = tile.memref_type(op.input).get_shape()
    _, _, rows, columns, _ = tile.memref_type(op.output).get_shape()
    (kh, kw), (sh, sw) = op.kernel.get_values(), op.strides.get_values()
    top, left, bottom, right = op.padding.get_values()
    padding = (top, left, bottom, right)
    return Pooling(n * c, h, w, rows, columns, (kh, kw), (sh, sw), padding)


class PoolExpansion:
    """Builds the loops of one pooling, a plane of vectors after the other."""

    def __init__(self, op: tile.MaxPoolOp, shape: Pooling, rows: int, columns: int):
        self.op, self.p, self.rows, self.columns = op, shape, rows, columns
        self.at = IndexBuilder(op)
        self.window = shape.window(rows, columns)

    def build(self) -> None:
        at, p = self.at, self.p
        source = self._view(self.op.input, p.planes, p.height, p.width, tile.LANES)
        target = self._view(self.op.output, p.planes, p.rows, p.columns, tile.LANES)
        one = self._view(self.op.identity, 1, tile.LANES, tile.LANES)
        inp_ring = self._alloc(INP, 2, *self.window)
        identity = self._alloc(WGT, 1)
        inputs = self._alloc(ACC, *self.window)
        results = self._alloc(ACC, 2, self.rows, self.columns)
        at.add(tile.LoadOp(one, [at.value(0)], identity, [], (1, 1)))
        with (
            at.loop(0, p.planes) as plane,
            at.loop(0, p.rows, self.rows) as y,
            at.loop(0, p.columns, self.columns) as x,
        ):
            vectors = self._rotate(inp_ring)
            row = at.sum(at.product(y, p.strides[0]), -p.padding[0])
            column = at.sum(at.product(x, p.strides[1]), -p.padding[1])
            start = [at.value(i) for i in (plane, row, column)]
            at.add(tile.LoadOp(source, start, vectors, [], self.window))
            at.add(tile.ClearOp(inputs, [], self.window[0] * self.window[1]))
            ih, iw = self.window
            loops = [(ih, iw, iw, 0), (iw, 1, 1, 0)]
            at.add(tile.GemmOp((inputs, []), (vectors, []), (identity, []), loops))
            self._along_rows(inputs)
            result = self._rotate(results)
            self._down_columns(inputs, result)
            start = [at.value(i) for i in (plane, y, x)]
            at.add(tile.StoreOp(result, [], target, start, (self.rows, self.columns)))

    def _along_rows(self, inputs: SSAValue) -> None:
        """
        Every `strides[1]`-th element becomes the maximum from there on. Elements that are
        written and still to be read come first, and an iteration reads what a later one writes.
        """
        (_, kw), (_, sw), (ih, iw) = self.p.kernel, self.p.strides, self.window
        if sw == 1:
            for step in range(1, kw):
                self._combine(inputs, 0, inputs, 1, (ih, iw - step), (iw, 1), (iw, 1))
            return
        offsets = sorted(range(1, kw), key=lambda j: j != sw)
        for j in offsets:
            self._combine(inputs, 0, inputs, j, (ih, self.columns), (iw, sw), (iw, sw))

    def _down_columns(self, inputs: SSAValue, result: SSAValue) -> None:
        (kh, _), (sh, sw), (_, iw) = self.p.kernel, self.p.strides, self.window
        self.at.add(tile.ClearOp(result, [], self.rows * self.columns))
        loops, source = (self.rows, self.columns), (sh * iw, sw)
        for i in range(kh):
            kind = tile.Alu.ADD if i == 0 else tile.Alu.MAX
            self._combine(result, 0, inputs, i * iw, loops, (self.columns, 1), source, kind)

    def _combine(
        self,
        target: SSAValue,
        target_at: int,
        source: SSAValue,
        source_at: int,
        extents: tuple[int, int],
        target_steps: tuple[int, int],
        source_steps: tuple[int, int],
        kind: tile.Alu = tile.Alu.MAX,
    ) -> None:
        at = self.at
        row, column = divmod(source_at, self.window[1])
        loops = list(zip(extents, target_steps, source_steps, strict=True))
        where = (source, at.values(row, column))
        at.add(tile.AluOp(kind, (target, at.values(target_at)), loops, source=where))

    def _view(self, value: SSAValue, *shape: int) -> SSAValue:
        view = tile.ViewOp(value, shape)
        self.at.add(view)
        return view.result

    def _alloc(self, space: str, *shape: int) -> SSAValue:
        alloc = memref.AllocOp([], [], buffer_type(space, shape))
        self.at.add(alloc)
        return alloc.memref

    def _rotate(self, ring: SSAValue) -> SSAValue:
        rotate = tile.RotateOp(ring)
        self.at.add(rotate)
        return rotate.buffer
