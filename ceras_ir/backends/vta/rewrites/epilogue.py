"""What is done with finished sums: bias, shift, clamp and swish, as ALU operations."""

from xdsl.ir import SSAValue

from ceras_ir.backends.vta.analysis.contraction import Contraction, bias_immediate
from ceras_ir.backends.vta.rewrites.index_builder import Index
from ceras_ir.backends.vta.rewrites.kernel_builder import KernelBuilder
from ceras_ir.backends.vta.rewrites.swish_program import SwishProgram
from ceras_ir.dialects import tile
from ceras_ir.dialects.tile.memory import ACC


class Epilogue:
    """Of one contraction whose blocks have `positions` output positions."""

    def __init__(self, op: tile.Conv2dOp, at: KernelBuilder, shape: Contraction, positions: int):
        self.op, self.at, self.positions = op, at, positions
        self.nblocks = shape.nblocks * shape.groups
        self.bias: SSAValue | None = None
        if (immediate := bias_immediate(op)) is None:
            self.bias = at.alloc(ACC, self.nblocks)
        self.immediate = immediate or 0
        self.swish = None if op.swish is None else SwishProgram(op, at, positions)

    def load_bias(self) -> None:
        """Bring the bias on chip, where it stays, and the constants of a swish."""
        if self.bias is not None:
            start = [self.at.value(0)]
            self.at.add(tile.LoadOp(self.op.bias, start, self.bias, [], (1, self.nblocks)))
        if self.swish is not None:
            self.swish.load()

    def finish(self, acc: SSAValue, i: Index, n: Index, count: int) -> None:
        """`count` output vectors from `i` of `acc` on, the first of which is vector `n` of all."""
        at, op, positions = self.at, self.op, self.positions
        if self.bias is not None:
            loops = [(count, positions, 1), (positions, 1, 0)]
            source = (self.bias, at.values(n))
            at.add(tile.AluOp(tile.Alu.ADD, (acc, at.values(i)), loops, source=source))
        elif self.immediate:
            self.apply(tile.Alu.ADD, acc, i, count, self.immediate)
        if shift := op.shift.value.data:
            self.apply(tile.Alu.SHR, acc, i, count, shift)
        self.apply(tile.Alu.MAX, acc, i, count, op.low.value.data)
        self.apply(tile.Alu.MIN, acc, i, count, op.high.value.data)
        if self.swish is not None:
            with at.loop(0, count) as j:
                self.swish.apply(acc, at.sum(i, j), at.sum(n, j))

    def apply(self, kind: tile.Alu, acc: SSAValue, i: Index, count: int, immediate: int) -> None:
        """One operation with a constant on `count` output vectors."""
        loops = [(count * self.positions, 1)]
        self.at.add(tile.AluOp(kind, (acc, self.at.values(i)), loops, immediate=immediate))
