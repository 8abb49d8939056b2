"""What is done with finished sums: bias, shifts, clamp and swish, as ALU operations."""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ceras_ir.backends.vta.rewrites.channel_products import ChannelProducts
from ceras_ir.backends.vta.rewrites.index_builder import Index
from ceras_ir.backends.vta.rewrites.kernel_builder import KernelBuilder
from ceras_ir.backends.vta.rewrites.swish_program import SwishProgram
from ceras_ir.backends.vta.schedule.contraction import Contraction, bias_immediate
from ceras_ir.dialects import tile
from ceras_ir.dialects.tile.memory import ACC


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
