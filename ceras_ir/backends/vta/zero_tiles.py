"""
Leave out products with tiles of weights that are zero.

Exact: such a product adds zero to its accumulators, and int32 sums are the same in any order. A
GEMM that meets no such tile stays as it is, so that streams of dense networks are the same.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.boxes import unrolled
from ceras_ir.backends.vta.hardware import GEMM_PIPELINE
from ceras_ir.backends.vta.isa import MemoryType
from ceras_ir.backends.vta.machine.time import Timing
from ceras_ir.backends.vta.micro_ops import MicroOps
from ceras_ir.dialects import graph

Loop = tuple[int, ...]
"""Extent and strides of accumulators, inputs and weights."""
Nest = tuple[MicroOps, Sequence[Loop]]
"""One GEMM: micro-ops, and the hardware's loops around them."""
Flags = NDArray[np.bool_]

WEIGHT_DIMENSIONS = 6
"""Of packed weights: [O/B, C/B, KH, KW, B, B]. Other constants of tiles are dense."""


def tiles_with_values(array: NDArray[np.generic]) -> Flags | None:
    """Which tiles of packed weights are not all zero, in order; None if all or no weights."""
    if array.ndim != WEIGHT_DIMENSIONS:
        return None
    flags = array.any(axis=(-2, -1)).reshape(-1)
    return None if flags.all() else flags


def constant_tiles(value: SSAValue) -> Flags | None:
    """The same of what a launch reads, if that is constant."""
    owner = value.owner
    return tiles_with_values(owner.array()) if isinstance(owner, graph.ConstantOp) else None


class WeightTiles:
    """What the weight memory holds while a kernel is expanded, and how many products it takes."""

    def __init__(self, board: VtaBoard):
        self._live = np.ones(board.elements(MemoryType.WGT), np.bool_)
        self._most = board.portable_uops
        self._load_cycles = Timing.of(board).beats_of(MemoryType.UOP)
        self.products = self.skipped = 0
        """Of a vector by a tile: those that a dense layer takes, and those left out of them."""

    @property
    def skipped_share(self) -> float:
        """The share of products that are left out."""
        return self.skipped / self.products if self.products else 0.0

    def load(self, first: int, tiles: Flags | None, at: NDArray[np.int64]) -> None:
        """Elements from `first` on are now the tiles `at` of an operand; None is all dense."""
        self._live[first : first + at.size] = True if tiles is None else tiles[at.reshape(-1)]

    def nests(self, first: Sequence[int], loops: Sequence[Loop]) -> list[Nest]:
        """The loops of a GEMM operation, from elements `first` on, as instructions."""
        dense = [(unrolled(first, loops[2:]), loops[:2])]
        count = prod(extent for extent, *_ in loops)
        self.products += count
        moving = [loop for loop in loops if loop[3]]
        live = self._live[unrolled(first, moving)[:, 2]]
        # S3's nests stay as published, one loop of positions each: Algorithm 2 stores sums that
        # nothing but a product writes.
        if live.all() or len(loops) == 1:
            return dense
        # Positions share their tiles: the hardware's loops go over them, micro-ops over tiles.
        outer = [loop for loop in loops[:2] if not loop[3]]
        inner = [*(loop for loop in loops[:2] if loop[3]), *loops[2:]]
        table = unrolled(first, inner)
        kept = _spaced(table.tobytes(), self._live[table[:, 2]].tobytes())
        positions = prod(extent for extent, *_ in outer)
        saved = count - positions * len(kept)
        if saved <= len(kept) * self._load_cycles:
            return dense
        self.skipped += saved
        starts = range(0, len(kept), self._most)
        return [(kept[start : start + self._most], outer) for start in starts]


@lru_cache(maxsize=4096)
def _spaced(table_bytes: bytes, live_bytes: bytes) -> MicroOps:
    """
    The micro-ops of a table whose tiles have values, those of one accumulator as far apart as the
    pipeline needs. Where nothing else is left to put between two, a tile of zeros is.
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
    """Whether an accumulator is written again before the pipeline allows."""
    dst = table[:, 0]
    return any(bool((dst[lag:] == dst[:-lag]).any()) for lag in range(1, 1 + GEMM_PIPELINE))
