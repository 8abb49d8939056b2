"""
Place the buffers of kernels on chip, and cut boxes and loops to the limits of an instruction.

`Clip`, `unrolled` and `shift_steps` cut boxes, loops and shifts to the limits of an instruction.
`WeightTiles` omits products with weight tiles that are zero. `Scratchpads` places buffers. Each
kernel can use all memories. To let loads of a kernel begin before the end of the previous kernel,
buffers are placed on the elements with the oldest accesses, and a ring begins with the oldest
stage.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import memref
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.dependence import Footprints, Space
from ceras_ir.backends.vta.machine.encoding import MicroOps
from ceras_ir.backends.vta.machine.isa import GEMM_PIPELINE, SHR_RANGE, Instruction, MemoryType
from ceras_ir.backends.vta.machine.time import Timing
from ceras_ir.dialects import graph, tile
from ceras_ir.interpreters.located import index_values
from ceras_ir.support.diagnostics import UnsupportedError


@dataclass(frozen=True)
class Clip:
    """
    The numbers of positions before, inside and after the range `[0, size)`, of `count` positions
    from `start` on at distances of `step`: the padding and the content of a box.
    """

    before: int
    inside: int
    after: int

    @classmethod
    def of(cls, start: int, count: int, size: int, step: int = 1) -> "Clip":
        before = min(count, -(-max(0, -start) // step))
        inside = min(count, max(0, -(-(size - start) // step))) - before
        return cls(before, max(0, inside), count - before - max(0, inside))


def shift_steps(amount: int) -> list[int]:
    """
    Return the shortest list of portable shift amounts with the sum `amount`: [15, 2] for 17.
    Several right shifts, which round down, have the result of a single shift by the sum.
    """
    low, high = SHR_RANGE
    steps: list[int] = []
    while amount:
        steps.append(min(max(amount, low), high))
        amount -= steps[-1]
    return steps


def matrix_at(
    dram: SSAValue, indices: tuple[int, ...]
) -> tuple[int, tuple[int, int], tuple[int, int]]:
    """
    Return the number of the matrix in the DRAM buffer `dram` that `indices` select, the row and the
    column in this matrix, and its extents, in vectors. The last two indices are row and column; the
    leading indices select the matrix in row-major order. A single index is a column of a matrix of
    a single row.
    """
    indices = index_values(indices)
    shape = tile.memref_type(dram).get_shape()[: len(indices)]
    outer = 0
    for extent, index in zip(shape[:-2], indices[:-2], strict=True):
        outer = outer * extent + index
    if len(indices) == 1:
        return outer, (0, indices[0]), (1, shape[0])
    return outer, (indices[-2], indices[-1]), (shape[-2], shape[-1])


def unrolled(first: Sequence[int], loops: Sequence[tuple[int, ...]]) -> MicroOps:
    """
    Return a micro-op for each iteration of `loops`, in order. `first` has the indices of the first
    iteration; a loop is the extent and the increment of each index.
    """
    rows = np.array([(*first, 0, 0)[:3]], np.int64)
    for extent, *steps in loops:
        offsets = np.arange(extent)[:, None] * np.array((*steps, 0, 0)[:3], np.int64)
        rows = (rows[:, None] + offsets).reshape(-1, 3)
    return rows


def row_major(shape: Sequence[int], indices: tuple[int, ...]) -> int:
    """
    Return the row-major position in `shape` of the element at `indices`; missing indices at the end
    are zero: 5 for shape (2, 5) and indices (1,).
    """
    position, known = 0, index_values(indices)
    for extent, index in zip(shape, (*known, *(0,) * len(shape)), strict=False):
        position = position * extent + index
    return position


Loop = tuple[int, ...]
"""A loop: extent, and increments of the indices of accumulators, inputs and weights."""
Nest = tuple[MicroOps, Sequence[Loop]]
"""A GEMM instruction: micro-ops, and the loops of the hardware around them."""
Flags = NDArray[np.bool_]

WEIGHT_DIMENSIONS = 6
"""
The rank of packed weights: [O/B, C/B, KH, KW, B, B]. Other constants of tiles are treated as dense.
"""


def tiles_with_values(array: NDArray[np.generic]) -> Flags | None:
    """
    Return a flag for each tile of packed weights, in order: true if the tile has a nonzero element.
    The result is `None` if no tile is zero, or if `array` has no packed weights.
    """
    if array.ndim != WEIGHT_DIMENSIONS:
        return None
    flags = array.any(axis=(-2, -1)).reshape(-1)
    return None if flags.all() else flags


def constant_tiles(value: SSAValue) -> Flags | None:
    """
    Return a flag for each weight tile of `value`, an operand of a launch: true if it has a nonzero
    element. The result is `None` if `value` is not constant packed weights, or if no tile is zero.
    """
    owner = value.owner
    return tiles_with_values(owner.array()) if isinstance(owner, graph.ConstantOp) else None


class WeightTiles:
    """
    Tracks which tiles in the weight memory are zero while a kernel is expanded, in order to omit
    their products, and counts products.

    The omission is exact: such a product adds zero, and int32 sums are the same in any order. A
    GEMM without zero tiles is unchanged, and so are dense networks.
    """

    def __init__(self, board: VtaBoard):
        self._live = np.ones(board.elements(MemoryType.WGT), np.bool_)
        self._max_uops = board.portable_uops
        self._load_cycles = Timing.of(board).beats_of(MemoryType.UOP)
        self.products = self.skipped = 0
        """Products of a vector by a tile: in a dense layer, and omitted."""

    @property
    def skipped_share(self) -> float:
        return self.skipped / self.products if self.products else 0.0

    def load(self, first: int, tiles: Flags | None, at: NDArray[np.int64]) -> None:
        """
        Record that the elements of the weight memory from `first` on hold the tiles with indices
        `at`. `tiles` are the flags of nonzero tiles, `None` if all are.
        """
        self._live[first : first + at.size] = True if tiles is None else tiles[at.reshape(-1)]

    def nests(self, first: Sequence[int], loops: Sequence[Loop]) -> list[Nest]:
        """
        Return the instructions, as loop nests, that execute a GEMM operation with `loops`. `first`
        has the indices of the first iteration. Products with zero tiles are omitted if this saves
        cycles.
        """
        dense = [(unrolled(first, loops[2:]), loops[:2])]
        count = prod(extent for extent, *_ in loops)
        self.products += count
        moving = [loop for loop in loops if loop[3]]
        live = self._live[unrolled(first, moving)[:, 2]]
        # The nests of S3 remain as published, with a single loop of positions: Algorithm 2 stores
        # sums that only a product writes.
        if live.all() or len(loops) == 1:
            return dense
        # Positions share their tiles: the loops of the hardware iterate over positions, micro-ops
        # over tiles.
        outer = [loop for loop in loops[:2] if not loop[3]]
        inner = [*(loop for loop in loops[:2] if loop[3]), *loops[2:]]
        table = unrolled(first, inner)
        kept = _spaced(table.tobytes(), self._live[table[:, 2]].tobytes())
        positions = prod(extent for extent, *_ in outer)
        saved = count - positions * len(kept)
        if saved <= len(kept) * self._load_cycles:
            return dense
        self.skipped += saved
        starts = range(0, len(kept), self._max_uops)
        return [(kept[start : start + self._max_uops], outer) for start in starts]


@lru_cache(maxsize=4096)
def _spaced(table_bytes: bytes, live_bytes: bytes) -> MicroOps:
    """
    Return the micro-ops of a table whose tiles are not zero, in an order with the distance that the
    pipeline needs between two writes of an accumulator. If no other micro-op can fill the distance,
    a product with a zero tile does.
    """
    table = np.frombuffer(table_bytes, np.int64).reshape(-1, 3)
    live = np.frombuffer(live_bytes, np.bool_)
    kept = table[live]
    if not _conflicts(kept):
        return kept
    if _conflicts(table):
        return table
    targets = np.unique(table[:, 0]).tolist()
    waiting = {t: np.flatnonzero(live & (table[:, 0] == t)).tolist()[::-1] for t in targets}
    zeros = {t: np.flatnonzero(~live & (table[:, 0] == t)) for t in targets}
    order: list[int] = []
    recent: list[int] = []
    while any(waiting.values()):
        free = [t for t in targets if t not in recent]
        target = max(free, key=lambda t: len(waiting[t]))
        if waiting[target]:
            order.append(waiting[target].pop())
        elif fillers := [t for t in free if zeros[t].size]:
            target = fillers[0]
            order.append(int(zeros[target][0]))
        else:
            return table
        recent = [*recent, target][-GEMM_PIPELINE:]
    return table[order] if len(order) < len(table) else table


def _conflicts(table: MicroOps) -> bool:
    dst = table[:, 0]
    return any(bool((dst[lag:] == dst[:-lag]).any()) for lag in range(1, 1 + GEMM_PIPELINE))


MEMORIES = {"inp": MemoryType.INP, "wgt": MemoryType.WGT, "acc": MemoryType.ACC}
SPACES = {Space.INP: MemoryType.INP, Space.WGT: MemoryType.WGT, Space.OUT: MemoryType.ACC}


@dataclass(frozen=True)
class Place:
    """
    The on-chip index of the first element of a buffer; of a ring of buffers, also the number of the
    buffer (stage) that is used first.
    """

    base: int
    stage: int = 0


class Scratchpads:
    """
    Places the buffers of kernels in on-chip memories. It stores the last instruction of the stream
    that accessed each element, so that buffers are placed where no module is busy. Buffers of a
    kernel do not overlap.
    """

    def __init__(self, board: VtaBoard):
        self._board = board
        self._footprints = Footprints(board)
        self._last = {
            memory: np.zeros(board.elements(memory), np.int64) for memory in MEMORIES.values()
        }
        self._count = 0

    def record(self, operations: Iterable[tuple[Instruction, MicroOps | None]]) -> None:
        """Record the elements that `operations` access, which are appended to the stream."""
        for i, uops in operations:
            self._count += 1
            footprint = self._footprints.of(i, uops)
            for space, region in (*footprint.reads, *footprint.writes):
                if (memory := SPACES.get(space)) is not None:
                    self._last[memory][region] = self._count

    def places(self, kernel: FuncOp) -> dict[memref.AllocOp, Place]:
        """
        Return the on-chip place of each buffer of `kernel`, which follows the recorded
        instructions. An `UnsupportedError` is raised if the buffers do not fit.
        """
        found: dict[memref.AllocOp, Place] = {}
        buffers = [op for op in kernel.walk() if isinstance(op, memref.AllocOp)]
        for name, memory in MEMORIES.items():
            here = [op for op in buffers if tile.space_of(op.memref) == name]
            found |= zip(here, self._place(memory, here), strict=True)
        return found

    def _place(self, memory: MemoryType, buffers: Sequence[memref.AllocOp]) -> list[Place]:
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
        # A different start can be better only where the age changes.
        for start in (0, *(np.flatnonzero(np.diff(last)) + 1).tolist()):
            bases = _consecutive_bases(sizes, start, capacity)
            if bases is None:
                continue
            ages = [
                [int(part.max()) for part in np.split(last[base : base + size], count)]
                for base, size, count in zip(bases, sizes, stages, strict=True)
            ]
            firsts = [min(age) for age in ages]
            cost = max(firsts, default=0), sum(firsts)
            if best is None or cost < best[0]:
                stages_of_rings = [
                    age.index(first) for age, first in zip(ages, firsts, strict=True)
                ]
                best = cost, [Place(*place) for place in zip(bases, stages_of_rings, strict=True)]
        assert best is not None, "all buffers from element 0 on always fit"
        return best[1]


def _stages(buffer: memref.AllocOp) -> int:
    is_ring = any(isinstance(use.operation, tile.RotateOp) for use in buffer.memref.uses)
    return tile.vectors_in(buffer.memref)[0] if is_ring else 1


def _consecutive_bases(sizes: Sequence[int], start: int, capacity: int) -> list[int] | None:
    """
    Return the start of each buffer: buffers are placed one after the other from `start` to
    `capacity`, and then from 0 on; `None` if they do not fit.
    """
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
