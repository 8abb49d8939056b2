"""
Estimate the costs of schedules of a contraction (convolution or matrix product), in cycles of
`machine.time`.

`cost` estimates thousands of schedules together. `BlockTimeline` simulates the loops of a schedule
block by block, which is more exact and thousands of times slower; the exact time is that of the
stream. Schedules for the Chisel source are compared by cycles. For the HLS source, several models
agree with the measurements: schedules are compared by their loss, the time over that of the best
schedule, in the model with the largest loss.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.vta.machine.board import HlsModel, VtaBoard
from ceras_ir.backends.vta.machine.isa import MemoryType
from ceras_ir.backends.vta.machine.micro_op_lists import LIST_LENGTHS
from ceras_ir.backends.vta.machine.time import ALU_INTERVAL_CYCLES, Timing, models_of
from ceras_ir.backends.vta.schedule.blocks import MIN_MERGED_NBLOCK, Blocks, Counts, Schedules
from ceras_ir.backends.vta.schedule.contraction import SWISH_PASSES, Contraction, borders_of
from ceras_ir.dialects.tile import Order

Cycles = NDArray[np.floating]

MAX_TIMELINE_MODELS = 6
"""
The number of models of the HLS source for which blocks are simulated: the first, which differ most
from each other.
"""
MAX_TIMELINE_STEPS = 300
"""The number of blocks of the reduction that are simulated before the time is extrapolated."""


def estimate(shape: Contraction, blocks: Blocks, board: VtaBoard) -> float:
    """
    Return the modelled cycles of a contraction with the schedule `blocks`, from a simulation of its
    blocks. For a board with VTA's HLS source, the model is the one that agrees best with
    measurements.
    """
    return BlockTimeline(blocks.view(shape), blocks, Timing.of(board)).run()


def scores(shape: Contraction, found: Sequence[Blocks], board: VtaBoard) -> list[float]:
    """
    Return a score for each schedule in `found` from a simulation of its blocks; lower is better.
    Scores are cycles, or for the HLS source the loss in the worst model.
    """
    if not board.is_hls:
        return [estimate(shape, blocks, board) for blocks in found]
    timings = [Timing.hls(model, board) for model in models_of(board)[:MAX_TIMELINE_MODELS]]
    times = [[BlockTimeline(b.view(shape), b, timing).run() for b in found] for timing in timings]
    return worst_losses(np.array(times)).tolist()


def rough_scores(tables: Sequence[Schedules], board: VtaBoard) -> Cycles:
    """
    Return an approximate score for each schedule of all `tables`, in order; lower is better, and
    infinite if the schedule does not fit.
    """
    fits = np.concatenate([table.fitting(board) for table in tables])

    def costs(timing: Timing) -> Cycles:
        return np.concatenate([_cost(table, timing) for table in tables])

    if not board.is_hls:
        found = costs(Timing.of(board))
    elif not fits.any():
        found = np.zeros(len(fits))
    else:
        times = [costs(Timing.hls(model, board)) for model in models_of(board)]
        found = worst_losses(np.where(fits, np.array(times), np.inf))
    return np.where(fits, found, np.inf)


def worst_losses(times: Cycles) -> Cycles:
    """
    Return, for each schedule, its time divided by that of the best schedule, in the model in which
    this is largest. `times` is [models, schedules].
    """
    return (times / times.min(axis=1, keepdims=True)).max(axis=0)


def cost(s: Schedules, board: VtaBoard, model: HlsModel | None = None) -> Cycles:
    """
    Return the approximate cycles of each schedule, for the timing of the HLS source with the
    parameters `model`, or by default for the timing of `board`.
    """
    return _cost(s, Timing.of(board) if model is None else Timing.hls(model, board))


def _cost(s: Schedules, timing: Timing) -> Cycles:
    """
    Return the approximate cycles of each schedule. Load, compute and store overlap if there are two
    buffers of a kind.
    """
    c, latency, load, is_hls = s.shape, timing.read_latency, timing.load, timing.is_hls
    m_tiles = c.batch * -(-c.rows // s.rows) * -(-c.columns // s.columns)
    # Groups run in sequence, with separate channels and weights.
    n_tiles, k_tiles = -(-c.nblocks // s.nblock), -(-c.kblocks // s.kblock)
    tiles, vectors = m_tiles * n_tiles, m_tiles * s.positions * c.nblocks
    computing = _hls_compute if is_hls else _chisel_compute
    compute = computing(s, timing, tiles, vectors)

    # Transfers: their beats, `load` for each instruction, and the latency of rows. The Chisel
    # source requests rows ahead and waits only for the first row.
    is_kept = s.resident | (k_tiles == 1)
    inp_repeats = np.where(is_kept & s.keeps_inputs, 1, n_tiles)
    wgt_repeats = np.where(is_kept & ~s.keeps_inputs, 1, m_tiles)
    inp_beats, wgt_beats = timing.beats_of(MemoryType.INP), timing.beats_of(MemoryType.WGT)
    ih, iw = s.window
    inp_blocks, depth = m_tiles * inp_repeats * k_tiles, 1.0 * m_tiles * inp_repeats * c.kblocks
    full_rows = (s.columns == c.columns) & (c.padding == (0, 0, 0, 0))
    loads = inp_blocks if (c.is_flat if is_hls else c.height == 1) else depth
    waits = loads
    if is_hls:
        rows = np.where(full_rows, 1, ih)
        waits = np.where(full_rows, inp_blocks, depth) if c.is_flat else depth * rows
    inp = depth * ih * iw * inp_beats + waits * latency + loads * load
    if c.residual:
        rows = np.where(full_rows, 1, s.rows) if is_hls else 1
        inp = inp + vectors * inp_beats + tiles * s.nblock * (load + rows * latency)
    wgt_blocks = n_tiles * wgt_repeats * k_tiles
    rows = np.where(s.kblock >= c.kblocks, 1, s.nblock) if is_hls else 1
    wgt = 1.0 * c.nblocks * wgt_repeats * c.kblocks * c.taps * wgt_beats
    wgt += wgt_blocks * s.weight_loads * (rows * latency + load)
    if not is_hls:
        wgt_blocks = wgt_blocks * s.weight_loads
    if is_hls:
        rows = np.where(s.columns == c.columns, 1, s.rows)
        store = 1.0 * vectors / c.merged * timing.beats_of(MemoryType.OUT)
        store += tiles * s.nblock * (load + rows * latency)
        last_store = store / tiles
    else:
        store = vectors * timing.store_element / c.merged
        store += tiles * s.nblock * (timing.write_latency + timing.burst)
        last_store = store / (m_tiles * c.nblocks)

    # A single buffer with K-blocks in sequence still overlaps.
    inp_exposed = (s.inp_stages == 1) & (inp_blocks > 1) & ~(s.resident & s.keeps_inputs)
    wgt_exposed = (s.wgt_stages == 1) & (wgt_blocks > 1) & ~(s.resident & ~s.keeps_inputs)
    exposed = np.where(inp_exposed, inp, 0.0) + np.where(wgt_exposed, wgt, 0.0)
    exposed += np.where((s.acc_stages == 1) & (tiles > 1), store, 0)
    first = (inp + wgt) / np.maximum(inp_blocks, wgt_blocks)
    busiest = np.maximum(compute, np.maximum(inp + wgt, store))
    return np.asarray(c.groups * (busiest + exposed) + first + last_store, np.float64)


def _chisel_compute(s: Schedules, timing: Timing, tiles: Counts, vectors: Counts) -> Cycles:
    """
    Return the modelled cycles of the compute module in VTA's Chisel design: products and output
    stages of all `tiles` blocks with `vectors` output vectors together.
    """
    c, board, k_tiles = s.shape, timing.board, -(-s.shape.kblocks // s.kblock)
    steps = np.where(s.nblock >= MIN_MERGED_NBLOCK, k_tiles, c.kblocks * c.taps)
    rescaling = c.bias_cycles + c.shift_cycles + c.clamps + c.swish_cycles
    compute = 1.0 * vectors * (c.kblocks * c.taps + 1 + c.residual + rescaling / c.merged)
    compute += ALU_INTERVAL_CYCLES * vectors * sum(c.maxima(c.merged)) / c.merged
    passes = s.nblock * (c.residual + SWISH_PASSES * (c.swish > 0))
    border = 1.0 * c.border_cycles * c.batch * c.nblocks
    compute += border * borders_of(c).additions(c.rows, c.columns)
    instructions = steps + 2 + c.shift_passes + c.clamps + passes + len(c.maxima(1))
    compute += tiles * timing.pipeline * instructions
    micro_ops = s.nblock * s.kblock * c.taps * timing.beats_of(MemoryType.UOP)
    reload = timing.read_latency + timing.load + micro_ops
    overflow = s.micro_ops > board.portable_uops
    return compute + overflow * tiles * k_tiles * reload


def _hls_compute(s: Schedules, timing: Timing, tiles: Counts, vectors: Counts) -> Cycles:
    c, each, refill = s.shape, timing.instruction, timing.refill
    products, alu = list_lengths(s, timing.board)
    k_tiles = -(-c.kblocks // s.kblock)
    iterations = 1.0 * vectors * c.kblocks * c.taps
    by_block = s.nblock >= MIN_MERGED_NBLOCK
    instructions = tiles * np.where(by_block, k_tiles, c.kblocks * c.taps)
    compute = iterations * (1 + refill / products) + instructions * each
    added = vectors * (1 + c.residual + c.bias_tiles / c.merged)
    compute += added * (1 + refill / alu)
    edges = borders_of(c).additions(c.rows, c.columns) / (c.rows * c.columns)
    work = alu_passes(c) / c.merged + edges + sum(c.maxima(c.merged)) / c.merged
    passes = alu_passes(c) + edges + len(c.maxima(1))
    compute += vectors * work * (ALU_INTERVAL_CYCLES + refill / alu)
    swish = SWISH_PASSES * (c.swish > 0)
    return compute + tiles * each * (2 + passes + s.nblock * (c.residual + swish))


def alu_passes(c: Contraction) -> int:
    """Return the number of ALU operations per output vector: bias, shifts, clamp and swish."""
    bias = int(c.bias_cycles > 0 and not c.bias_tiles)
    return bias + c.shift_passes + c.clamps + c.swish_cycles


def list_lengths(s: Schedules, board: VtaBoard) -> tuple[Counts, Counts]:
    """
    Predict the lengths of micro-op lists of the GEMMs and of the ALU operations of a block, for the
    HLS source. All lists of a kernel share the micro-op memory; `lengthen_lists` creates them.
    """
    c, merged = s.shape, s.nblock >= MIN_MERGED_NBLOCK
    reductions = s.kblock * c.taps
    per_block = c.merged * s.nblock * np.where(merged & (not c.is_flat), reductions, 1)
    sequences = s.micro_ops // (c.merged * s.nblock * (1 if c.is_flat else reductions))
    sequences = sequences * np.where(merged, 1, reductions)
    longest = np.ones_like(s.nblock)
    for length in sorted(LIST_LENGTHS):
        # A list of constants of a channel vector has only the positions of this vector.
        shared = np.minimum(length, s.nblock * s.positions // c.merged)
        of_vector = np.minimum(length, s.positions // c.merged)
        alu = s.acc_stages * (2 * shared + s.nblock * c.by_channel * of_vector)
        longest = np.where(sequences * length + alu <= board.portable_uops, length, longest)
    products = per_block * np.clip(longest // per_block, 1, s.positions // c.merged)
    return products, np.minimum(longest, s.nblock * s.positions // c.merged)


@dataclass
class BlockTimeline:
    """
    Simulates the times at which the blocks of a schedule are loaded, computed and stored: the loops
    of `expand-tiles`, with a clock in cycles for each module. Long simulations stop early and are
    extrapolated.
    """

    c: Contraction
    b: Blocks
    timing: Timing
    load: float = 0
    """The cycle from which the load module is free; likewise `compute` and `store`."""
    compute: float = 0
    store: float = 0
    inp_free: dict[tuple[int, int], float] = field(default_factory=dict[tuple[int, int], float])
    """
    The cycle in which the last GEMM that uses a block of an input buffer ends; likewise for
    weights.
    """
    wgt_free: dict[tuple[int, int], float] = field(default_factory=dict[tuple[int, int], float])
    inp_ready: dict[tuple[int, int], float] = field(default_factory=dict[tuple[int, int], float])
    wgt_ready: dict[tuple[int, int], float] = field(default_factory=dict[tuple[int, int], float])
    acc_free: dict[int, float] = field(default_factory=dict[int, float])
    residual_free: dict[int, float] = field(default_factory=dict[int, float])
    rotations: list[int] = field(default_factory=lambda: [0, 0, 0])

    def run(self) -> float:
        c, b, timing = self.c, self.b, self.timing
        self.start = timing.read_latency + timing.load
        self.inp_beats = timing.beats_of(MemoryType.INP)
        self.wgt_beats = timing.beats_of(MemoryType.WGT)
        self.k_sizes = _sizes(c.kblocks, b.kblock)
        n_sizes = _sizes(c.nblocks, b.nblock)
        m_tiles = c.batch * len(_sizes(c.rows, b.rows)) * len(_sizes(c.columns, b.columns))
        self.is_kept = b.resident or len(self.k_sizes) == 1
        single = Schedules.single(c, b)
        self.weight_loads = int(single.weight_loads[0])
        # Without refills, the length of lists has no effect.
        lengths = list_lengths(single, timing.board) if timing.is_hls else ([1], [1])
        self.product_list, self.alu_list = (int(length[0]) for length in lengths)
        uops, limit = int(single.micro_ops[0]) + 2 * b.nblock, timing.board.portable_uops
        self.border = self._border(m_tiles // c.batch)
        self.load = self.compute = timing.read_latency + 2 * timing.fetch_batch
        self.compute += self.start + min(uops, limit) / 2
        self.reload = self.start + limit / 2 if uops > limit else 0
        tiles, marks = c.groups * m_tiles * len(n_sizes), list[tuple[int, float]]()
        total = tiles * len(self.k_sizes)
        walk = (tile for _ in range(c.groups) for tile in self._tiles(m_tiles, n_sizes))
        for walked, (size, first) in enumerate(walk, 1):
            self._tile(size, first)
            if total > MAX_TIMELINE_STEPS and walked * len(self.k_sizes) * 2 >= MAX_TIMELINE_STEPS:
                marks.append((walked, self.compute))
                if walked * len(self.k_sizes) >= MAX_TIMELINE_STEPS and len(marks) > 1:
                    (a, then), (z, now) = marks[0], marks[-1]
                    return max(self.store, now) + (tiles - walked) * (now - then) / (z - a)
        return max(self.store, self.compute)

    def _tiles(self, m_tiles: int, n_sizes: list[int]) -> Iterator[tuple[int, bool]]:
        """
        Yield for each output block, in loop order, the number of its output vectors, and whether it
        must load the operand that the following blocks reuse.
        """
        if self.b.order is Order.NMK:
            for size in n_sizes:
                self.rotations[1] += self.is_kept
                for m in range(m_tiles):
                    yield size, m == 0
        else:
            for _ in range(m_tiles):
                self.rotations[0] += self.is_kept
                for n, size in enumerate(n_sizes):
                    yield size, n == 0

    def _tile(self, nblock: int, first: bool) -> None:
        c, b = self.c, self.b
        self.rotations[2] += 1
        acc = self.rotations[2] % b.stages[2]
        vectors = nblock * b.positions
        self.compute = max(self.compute, self.acc_free.get(acc, 0)) + self._products(vectors, 1)
        self.compute += self.reload
        if c.residual:
            self._residual(nblock)
        if c.outside:
            self.compute += nblock * self.border[0] + self.border[1]
        for k, kblock in enumerate(self.k_sizes):
            self._step(k, kblock, nblock, first)
        drain = b.drain or nblock
        self.compute += sum(map(self._combined, c.maxima(vectors)))
        if c.bias_tiles:
            self.compute += self._products(c.bias_tiles * vectors // c.merged, c.bias_tiles)
        for i in range(0, nblock, drain):
            count = min(drain, nblock - i)
            self.compute += self._epilogue(count)
            self.store = max(self.store, self.compute) + self._stored(count)
        self.acc_free[acc] = self.store

    def _border(self, m_tiles: int) -> tuple[float, float]:
        """
        Return the cycles of border constants, averaged over the `m_tiles` blocks of an image: the
        cycles per output vector, and the cycles of the instructions per block.
        """
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
            self.compute = max(self.compute, self.load) + self._products(b.positions, 1)
            self.residual_free[i] = self.compute

    def _step(self, k: int, kblock: int, nblock: int, first: bool) -> None:
        c, b = self.c, self.b
        keeps_inp = self.is_kept and b.order is Order.MNK
        keeps_wgt = self.is_kept and b.order is Order.NMK
        if not keeps_inp:
            self.rotations[0] += 1
        if not keeps_wgt:
            self.rotations[1] += 1
        inp = (self.rotations[0] % b.stages[0], k if keeps_inp else 0)
        wgt = (self.rotations[1] % b.stages[1], k if keeps_wgt else 0)
        if first or not keeps_inp:
            at = max(self.load, self.inp_free.get(inp, 0))
            self.load = self.inp_ready[inp] = at + self._inputs(kblock)
        if first or not keeps_wgt:
            at = max(self.load, self.wgt_free.get(wgt, 0))
            self.load = self.wgt_ready[wgt] = at + self._weights(nblock, kblock)
        ready = max(self.compute, self.inp_ready[inp], self.wgt_ready[wgt])
        products = nblock * b.positions * kblock * c.taps
        instructions = 1 if nblock >= MIN_MERGED_NBLOCK else kblock * c.taps
        self.compute = ready + self._products(products, instructions)
        self.inp_free[inp] = self.wgt_free[wgt] = self.compute

    def _products(self, count: int, instructions: int) -> float:
        """
        Return the cycles of `instructions` GEMMs that together compute `count` products, or clear
        `count` vectors.
        """
        timing = self.timing
        length = self.product_list if count > self.b.nblock * self.b.positions else self.alu_list
        entries = instructions * -(-count // (length * instructions))
        return count + entries * timing.refill + instructions * timing.instruction

    def _combined(self, count: int) -> float:
        entries = -(-count // max(1, min(self.alu_list, count)))
        cycles = ALU_INTERVAL_CYCLES * count + self.timing.instruction
        return cycles + entries * self.timing.refill

    def _epilogue(self, count: int) -> float:
        c, vectors = self.c, count * self.b.positions // self.c.merged
        if self.timing.is_hls:
            return alu_passes(c) * self._combined(vectors)
        bias = 0 if c.bias_tiles else c.bias_cycles
        swish = SWISH_PASSES * count * (c.swish > 0)
        passes = 1 - (c.bias_tiles > 0) + c.clamps + c.shift_passes + swish
        each = c.clamps + bias + c.shift_cycles + c.swish_cycles
        return passes * self.timing.pipeline + vectors * each

    def _weights(self, nblock: int, kblock: int) -> float:
        timing, loads = self.timing, self.weight_loads
        by_rows = timing.is_hls and kblock < self.c.kblocks
        rows = nblock // loads if by_rows else 1
        beats = nblock * kblock * self.c.taps * self.wgt_beats
        return loads * (timing.load + rows * timing.read_latency) + beats

    def _inputs(self, kblock: int) -> float:
        c, b, timing = self.c, self.b, self.timing
        rows, columns = c.window(b.rows, b.columns)
        # The Chisel source requests rows ahead: the interval between requests is the limit.
        row, loads = timing.command, 1 if c.is_flat else kblock
        if not (c.is_flat or timing.is_hls):
            row = max(row, self.start / timing.outstanding)
        by_rows = timing.is_hls and (b.columns != c.columns or any(c.padding))
        waits = (kblock if c.is_flat else kblock * rows) if by_rows else loads
        beats = max(kblock * rows * columns * self.inp_beats, kblock * rows * row)
        return loads * timing.load + waits * timing.read_latency + beats

    def _stored(self, count: int) -> float:
        c, b, timing = self.c, self.b, self.timing
        full_rows, positions = b.columns == c.columns, b.positions // c.merged
        if timing.is_hls:
            stores = 1 if c.is_flat else count
            rows = stores if full_rows or c.is_flat else count * b.rows
            beats = count * b.positions // c.merged * self.inp_beats
            return stores * timing.instruction + rows * timing.write_latency + beats
        runs, row = (1, positions) if full_rows else (b.rows, b.columns)
        bursts = count * runs * -(-row // timing.store_burst)
        return count * positions * timing.store_element + bursts * (
            timing.write_latency + timing.burst
        )


def _sizes(extent: int, block: int) -> list[int]:
    full_blocks, rest = divmod(extent, block)
    return [block] * full_blocks + [rest] * (rest > 0)
