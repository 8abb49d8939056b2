"""
Swish of accumulators by MIN, MAX, ADD and shifts, as `graph.shift_swish` defines it.

VTA's ALU has two addresses and no difference. A number is negated by a product with 2^18 - 1
modulo 2^32, after a shift to the left that leaves room for 17 bits: what is added are copies
moved by 1, 2, 3, 6 and 9 bits. A copy is a sum with what was cleared.
"""

from xdsl.ir import SSAValue

from ceras_ir.backends.vta.rewrites.index_builder import Index
from ceras_ir.backends.vta.rewrites.kernel_builder import KernelBuilder
from ceras_ir.backends.vta.schedule.contraction import SWISH_TEMPORARIES
from ceras_ir.dialects import tile
from ceras_ir.dialects.tile import Alu
from ceras_ir.dialects.tile.memory import ACC

NEGATED_BITS = 17
"""A number of 16 bits and its negative."""

Place = tuple[SSAValue, Index]
"""A buffer of accumulators, and the output vector of it."""


class SwishProgram:
    """Of one contraction whose blocks have `positions` output positions."""

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
        a: Place = (acc, i)
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

    def _negate(self, a: Place, b: Place, c: Place) -> None:
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

    def _constant(self, kind: Alu, target: Place, row: int, n: Index) -> None:
        """`target = kind(target, constant of this row)`"""
        if self.constants is None:
            assert self.uniform is not None
            self._by(kind, target, self.uniform[row])
            return
        loops = [(self.positions, 1, 0)]
        source = (self.constants, self.at.values(row, n))
        self.at.add(tile.AluOp(kind, self._start(target), loops, source=source))

    def _start(self, place: Place) -> tuple[SSAValue, list[SSAValue]]:
        return place[0], self.at.values(place[1])

    def _by(self, kind: Alu, target: Place, immediate: int) -> None:
        loops = [(self.positions, 1)]
        self.at.add(tile.AluOp(kind, self._start(target), loops, immediate=immediate))

    def _with(self, kind: Alu, target: Place, source: Place) -> None:
        loops = [(self.positions, 1, 1)]
        op = tile.AluOp(kind, self._start(target), loops, source=self._start(source))
        self.at.add(op)

    def _clear(self, target: Place) -> None:
        self.at.add(tile.ClearOp(*self._start(target), self.positions))

    def _copy(self, target: Place, source: Place) -> None:
        self._clear(target)
        self._with(Alu.ADD, target, source)
