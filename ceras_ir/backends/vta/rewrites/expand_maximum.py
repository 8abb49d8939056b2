"""Loops of a contraction whose sums are pooled before they are rescaled."""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ceras_ir.backends.vta.rewrites.expand_convolution import ConvolutionExpansion
from ceras_ir.backends.vta.rewrites.index_builder import Index
from ceras_ir.backends.vta.rewrites.positions import Planes
from ceras_ir.dialects import tile


class MaximumExpansion(ConvolutionExpansion):
    """
    Blocks of whole rows, one output vector each, from the top down. Maxima are taken along rows,
    then down columns, all in place. The first maxima of a block need sums of the block before it,
    which are still in the other accumulators.

    Exact: bias, shift and clamp never make the greater of two sums the lesser result.
    """

    @property
    def maximum(self) -> tile.WindowMaximum:
        assert self.c.maximum is not None
        return self.c.maximum

    def positions(self) -> Planes:
        return Planes(self.b, self.maximum)

    def results(self) -> tuple[int, int]:
        return self.maximum.results(self.c.rows, self.c.columns)

    def blocks_of_positions(self):
        at, c, (rows, _) = self.at, self.c, self.layout.shape[1:]
        with (
            at.loop(0, c.batch) as batch,
            at.loop(0, self.results()[0], rows) as self._first,
        ):
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
        # With two buffers, the next one is the one before. A third turn leaves this block's last.
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
        """Sums from plane, row and column `target` on become the greater of two."""
        at = self.at
        vectors = (other, at.values(0, *source))
        where = (acc, at.values(0, *target))
        at.add(tile.AluOp(tile.Alu.MAX, where, loops, source=vectors))

    def store(
        self, acc: SSAValue, i: Index, batch: Index, y: Index, x: Index, n: Index, count: int
    ) -> None:
        _, rows, columns = self.layout.shape
        start = [self.at.value(v) for v in (*self.image(batch), n, self._first, 0)]
        self.at.add(tile.StoreOp(acc, self.at.values(i), self.output, start, (rows, columns)))
