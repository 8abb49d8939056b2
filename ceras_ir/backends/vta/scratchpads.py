"""
Where the buffers of a stream's kernels are on chip.

Each kernel could have all of every memory. What the one before it uses last is free last, so that
buffers are where the oldest values are, and a ring begins with its oldest stage: then loads for a
kernel need not wait for the end of the one before. Within a kernel no two buffers overlap.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects import memref
from xdsl.dialects.func import FuncOp

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.footprint import Footprints, Space
from ceras_ir.backends.vta.isa import Instruction, MemoryType
from ceras_ir.backends.vta.micro_ops import MicroOps
from ceras_ir.dialects import tile
from ceras_ir.support.diagnostics import UnsupportedError

MEMORIES = {"inp": MemoryType.INP, "wgt": MemoryType.WGT, "acc": MemoryType.ACC}
SPACES = {
    Space.INP: MemoryType.INP,
    Space.WGT: MemoryType.WGT,
    Space.OUT: MemoryType.ACC,
}


@dataclass(frozen=True)
class Place:
    """Of one buffer: its first element, and which stage it begins with if it is a ring."""

    base: int
    stage: int = 0


class Scratchpads:
    """The memories of a board over a stream: which operation touched each element last."""

    def __init__(self, board: VtaBoard):
        self._board = board
        self._footprints = Footprints(board)
        self._last = {
            memory: np.zeros(board.elements(memory), np.int64) for memory in MEMORIES.values()
        }
        self._count = 0

    def record(self, operations: Iterable[tuple[Instruction, MicroOps | None]]) -> None:
        """These operations come next in the stream."""
        for i, uops in operations:
            self._count += 1
            footprint = self._footprints.of(i, uops)
            for space, region in (*footprint.reads, *footprint.writes):
                if (memory := SPACES.get(space)) is not None:
                    self._last[memory][region] = self._count

    def places(self, kernel: FuncOp) -> dict[memref.AllocOp, Place]:
        """Of all buffers of `kernel`, which comes next."""
        found: dict[memref.AllocOp, Place] = {}
        buffers = [op for op in kernel.walk() if isinstance(op, memref.AllocOp)]
        for name, memory in MEMORIES.items():
            here = [op for op in buffers if tile.space_of(op.memref) == name]
            found |= zip(here, self._place(memory, here), strict=True)
        return found

    def _place(self, memory: MemoryType, buffers: Sequence[memref.AllocOp]) -> list[Place]:
        """All buffers of one memory: the layout whose stages that come first are oldest."""
        capacity = self._board.elements(memory)
        sizes = [prod(tile.vectors_in(op.memref)) for op in buffers]
        if (needed := sum(sizes)) > capacity:
            raise UnsupportedError(
                f"unsupported schedule: a kernel needs {needed} vectors of "
                f"{memory.name.lower()}, the board has {capacity}"
            )
        last = self._last[memory]
        stages = [_stages(op) for op in buffers]
        best: tuple[tuple[int, int], list[Place]] | None = None
        # Only where the age changes can another beginning be better.
        for start in (0, *(np.flatnonzero(np.diff(last)) + 1).tolist()):
            bases = _in_turn(sizes, start, capacity)
            if bases is None:
                continue
            ages = [
                [int(part.max()) for part in np.split(last[base : base + size], count)]
                for base, size, count in zip(bases, sizes, stages, strict=True)
            ]
            firsts = [min(age) for age in ages]
            cost = max(firsts, default=0), sum(firsts)
            if best is None or cost < best[0]:
                turns = [age.index(first) for age, first in zip(ages, firsts, strict=True)]
                best = cost, [Place(*place) for place in zip(bases, turns, strict=True)]
        assert best is not None, "all buffers from element 0 on always fit"
        return best[1]


def _stages(buffer: memref.AllocOp) -> int:
    """How many buffers a ring has, 1 for what is no ring."""
    is_ring = any(isinstance(use.operation, tile.RotateOp) for use in buffer.memref.uses)
    return tile.vectors_in(buffer.memref)[0] if is_ring else 1


def _in_turn(sizes: Sequence[int], start: int, capacity: int) -> list[int] | None:
    """One after the other from `start` on and then from 0 on; None if they do not fit so."""
    bases: list[int] = []
    at, end = start, capacity
    for size in sizes:
        if at + size > end and end == capacity:
            at, end = 0, start
        if at + size > end:
            return None
        bases.append(at)
        at += size
    return bases
