"""
When the blocks of one schedule are loaded, computed and stored: the loops of `expand-tiles`
walked block by block, each module at its own time, with the cycles of the hardware.

More exact than `tile_cost` and thousands of times slower; the stream's own time is
`timed_simulator`'s. Long walks stop early and are extrapolated.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ceras_ir.backends.vta.analysis.blocks import MERGE_FROM, Blocks, Schedules
from ceras_ir.backends.vta.analysis.borders import borders_of
from ceras_ir.backends.vta.analysis.contraction import SWISH_PASSES, Contraction
from ceras_ir.backends.vta.isa import MemoryType
from ceras_ir.backends.vta.timing import Timing
from ceras_ir.dialects.tile import Order

MOST_STEPS = 300
"""Blocks of K that are walked before extrapolation."""


@dataclass
class Walk:
    """The timeline of one schedule with the cycles of the Chisel source."""

    c: Contraction
    b: Blocks
    timing: Timing
    most_uops: int
    load: float = 0
    """When the load module is free; likewise `compute` and `store`."""
    compute: float = 0
    store: float = 0
    inp_free: dict[tuple[int, int], float] = field(default_factory=dict[tuple[int, int], float])
    """When the last GEMM has read a K-block of a buffer; weights likewise."""
    wgt_free: dict[tuple[int, int], float] = field(default_factory=dict[tuple[int, int], float])
    inp_ready: dict[tuple[int, int], float] = field(default_factory=dict[tuple[int, int], float])
    wgt_ready: dict[tuple[int, int], float] = field(default_factory=dict[tuple[int, int], float])
    acc_free: dict[int, float] = field(default_factory=dict[int, float])
    residual_free: dict[int, float] = field(default_factory=dict[int, float])
    turns: list[int] = field(default_factory=lambda: [0, 0, 0])

    def run(self) -> float:
        c, b, timing = self.c, self.b, self.timing
        self.start = timing.read_latency + timing.load
        self.inp_beats = timing.beats_of(MemoryType.INP)
        self.wgt_beats = timing.beats_of(MemoryType.WGT)
        self.k_sizes = _sizes(c.kblocks, b.kblock)
        n_sizes = _sizes(c.nblocks, b.nblock)
        m_tiles = c.batch * len(_sizes(c.rows, b.rows)) * len(_sizes(c.columns, b.columns))
        self.stays = b.resident or len(self.k_sizes) == 1
        single = Schedules.single(c, b)
        self.weight_loads = int(single.weight_loads[0])
        uops = int(single.micro_ops[0]) + 2 * b.nblock
        self.border = self._border(m_tiles // c.batch)
        self.load = self.compute = timing.read_latency + 2 * timing.fetch_batch
        self.compute += self.start + min(uops, self.most_uops) / 2
        self.reload = self.start + self.most_uops / 2 if uops > self.most_uops else 0
        tiles, marks = c.groups * m_tiles * len(n_sizes), list[tuple[int, float]]()
        total = tiles * len(self.k_sizes)
        walk = (tile for _ in range(c.groups) for tile in self._tiles(m_tiles, n_sizes))
        for walked, (size, first) in enumerate(walk, 1):
            self._tile(size, first)
            if total > MOST_STEPS and walked * len(self.k_sizes) * 2 >= MOST_STEPS:
                marks.append((walked, self.compute))
                if walked * len(self.k_sizes) >= MOST_STEPS and len(marks) > 1:
                    (a, then), (z, now) = marks[0], marks[-1]
                    return max(self.store, now) + (tiles - walked) * (now - then) / (z - a)
        return max(self.store, self.compute)

    def _tiles(self, m_tiles: int, n_sizes: list[int]) -> Iterator[tuple[int, bool]]:
        """The size of each N-block, and whether the operand that stays must be loaded."""
        if self.b.order is Order.NMK:
            for size in n_sizes:
                self.turns[1] += self.stays
                for m in range(m_tiles):
                    yield size, m == 0
        else:
            for _ in range(m_tiles):
                self.turns[0] += self.stays
                for n, size in enumerate(n_sizes):
                    yield size, n == 0

    def _tile(self, nblock: int, first: bool) -> None:
        c, b = self.c, self.b
        self.turns[2] += 1
        acc = self.turns[2] % b.stages[2]
        vectors = nblock * b.positions
        self.compute = max(self.compute, self.acc_free.get(acc, 0)) + self.products(vectors, 1)
        self.compute += self.reload
        if c.residual:
            self._residual(nblock)
        if c.outside:
            self.compute += nblock * self.border[0] + self.border[1]
        for k, kblock in enumerate(self.k_sizes):
            self._step(k, kblock, nblock, first)
        drain = b.drain or nblock
        self.compute += sum(map(self.combined, c.maxima(vectors)))
        if c.bias_tiles:
            self.compute += self.products(c.bias_tiles * vectors // c.merged, c.bias_tiles)
        for i in range(0, nblock, drain):
            count = min(drain, nblock - i)
            self.compute += self.epilogue(count)
            self.store = max(self.store, self.compute) + self.stored(count)
        self.acc_free[acc] = self.store

    def _border(self, m_tiles: int) -> tuple[float, float]:
        """Cycles of an output vector and of instructions, on average over the blocks of a map."""
        c, borders = self.c, borders_of(self.c)
        down, across = len(borders.rows), len(borders.columns)
        row_tiles, column_tiles = (
            len(_sizes(*pair)) for pair in ((c.rows, self.b.rows), (c.columns, self.b.columns))
        )
        passes = down * column_tiles + across * row_tiles + down * across
        vectors = c.border_cycles * borders.additions(c.rows, c.columns)
        return vectors / m_tiles, passes * self.timing.pipeline / m_tiles

    def _residual(self, nblock: int) -> None:
        b = self.b
        for i in range(nblock):
            at = max(self.load, self.residual_free.get(i, 0))
            self.load = at + self.start + b.positions * self.inp_beats
            self.compute = max(self.compute, self.load) + self.products(b.positions, 1)
            self.residual_free[i] = self.compute

    def _step(self, k: int, kblock: int, nblock: int, first: bool) -> None:
        c, b = self.c, self.b
        keeps_inp = self.stays and b.order is Order.MNK
        keeps_wgt = self.stays and b.order is Order.NMK
        if not keeps_inp:
            self.turns[0] += 1
        if not keeps_wgt:
            self.turns[1] += 1
        inp = (self.turns[0] % b.stages[0], k if keeps_inp else 0)
        wgt = (self.turns[1] % b.stages[1], k if keeps_wgt else 0)
        if first or not keeps_inp:
            at = max(self.load, self.inp_free.get(inp, 0))
            self.load = self.inp_ready[inp] = at + self.inputs(kblock)
        if first or not keeps_wgt:
            at = max(self.load, self.wgt_free.get(wgt, 0))
            self.load = self.wgt_ready[wgt] = at + self.weights(nblock, kblock)
        ready = max(self.compute, self.inp_ready[inp], self.wgt_ready[wgt])
        products = nblock * b.positions * kblock * c.taps
        instructions = 1 if nblock >= MERGE_FROM else kblock * c.taps
        self.compute = ready + self.products(products, instructions)
        self.inp_free[inp] = self.wgt_free[wgt] = self.compute

    def products(self, count: int, instructions: int) -> float:
        """Of GEMMs with so many products, or vectors to clear, together."""
        return count + instructions * self.timing.pipeline

    def epilogue(self, count: int) -> float:
        """Of the ALU operations on `count` output vectors."""
        c, b, pipeline = self.c, self.b, self.timing.pipeline
        bias = 0 if c.bias_tiles else c.bias_cycles
        passes = (
            1
            - (c.bias_tiles > 0)
            + c.clamps
            + c.shift_passes
            + SWISH_PASSES * count * (c.swish > 0)
        )
        vectors = count * b.positions // c.merged
        return passes * pipeline + vectors * (c.clamps + bias + c.shift_cycles + c.swish_cycles)

    def combined(self, count: int) -> float:
        """Of an ALU operation with other vectors."""
        return 2 * count + self.timing.pipeline

    def weights(self, nblock: int, kblock: int) -> float:
        """Of loading a K-block of weights."""
        beats = nblock * kblock * self.c.taps * self.wgt_beats
        return self.start * self.weight_loads + beats

    def inputs(self, kblock: int) -> float:
        """Of loading a K-block of inputs."""
        c, b, timing = self.c, self.b, self.timing
        rows, columns = c.window(b.rows, b.columns)
        if c.is_flat:
            return self.start + kblock * max(columns * self.inp_beats, timing.command)
        row = max(columns * self.inp_beats, timing.command, self.start / timing.outstanding)
        return kblock * (self.start + rows * row)

    def stored(self, count: int) -> float:
        """Of storing `count` output vectors."""
        c, b, timing = self.c, self.b, self.timing
        whole, positions = b.columns == c.columns, b.positions // c.merged
        runs, row = (1, positions) if whole else (b.rows, b.columns)
        bursts = count * runs * -(-row // timing.store_burst)
        return count * positions * timing.store_element + bursts * (
            timing.write_latency + timing.burst
        )


def _sizes(extent: int, block: int) -> list[int]:
    """Sizes of the blocks that cut `extent`."""
    whole, rest = divmod(extent, block)
    return [block] * whole + [rest] * (rest > 0)
