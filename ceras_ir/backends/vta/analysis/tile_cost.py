"""
What a schedule costs, roughly and for thousands of them at once: cycles of VTA's three modules
from the measured rules of the hardware, overlapping where there are two buffers of a kind.
It ranks schedules; `tile_timeline` then compares the best of them.
"""

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.vta.analysis.blocks import MERGE_FROM, Schedules
from ceras_ir.backends.vta.analysis.borders import borders_of
from ceras_ir.backends.vta.analysis.contraction import SWISH_PASSES
from ceras_ir.backends.vta.analysis.overlap import ModuleWork, overlapped
from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.hls_timing import timing_of
from ceras_ir.backends.vta.isa import MemoryType


def cost(s: Schedules, board: VtaBoard) -> NDArray[np.float64]:
    """Cycles of each schedule, roughly."""
    c, timing = s.shape, timing_of(board)
    inp_beats = timing.beats_of(MemoryType.INP)
    wgt_beats = timing.beats_of(MemoryType.WGT)
    start = timing.read_latency + timing.load
    ih, iw = s.window
    m_tiles = c.batch * -(-c.rows // s.rows) * -(-c.columns // s.columns)
    # Groups come one after the other, each with its own channels and weights.
    n_tiles = -(-c.nblocks // s.nblock)
    k_tiles = -(-c.kblocks // s.kblock)
    tiles = m_tiles * n_tiles
    vectors = m_tiles * s.positions * c.nblocks

    # Clearing, adding the bias, shifting and clamping; the residual's GEMM.
    steps = np.where(s.nblock >= MERGE_FROM, k_tiles, c.kblocks * c.taps)
    compute = (
        1.0
        * vectors
        * (
            c.kblocks * c.taps
            + 1
            + c.residual
            + (c.bias_cycles + c.shift_cycles + c.clamps + c.swish_cycles) / c.merged
        )
    )
    compute += 2 * vectors * sum(c.maxima(c.merged)) / c.merged
    passes = s.nblock * (c.residual + SWISH_PASSES * (c.swish > 0))
    compute += (
        1.0 * c.border_cycles * c.batch * c.nblocks * borders_of(c).additions(c.rows, c.columns)
    )
    compute += (
        tiles
        * timing.pipeline
        * (steps + 2 + c.shift_passes + c.clamps + passes + len(c.maxima(1)))
    )
    overflow = s.micro_ops > board.portable_uops
    reload = start + s.nblock * s.kblock * c.taps * timing.beats_of(MemoryType.UOP)
    compute += overflow * tiles * k_tiles * reload

    stays = s.resident | (k_tiles == 1)
    inp_repeats = np.where(stays & s.inputs_stay, 1, n_tiles)
    wgt_repeats = np.where(stays & ~s.inputs_stay, 1, m_tiles)
    inp_blocks = m_tiles * inp_repeats * k_tiles
    wgt_blocks = n_tiles * wgt_repeats * k_tiles * s.weight_loads
    inp_loads = inp_blocks if c.height == 1 else m_tiles * inp_repeats * c.kblocks
    inp = m_tiles * inp_repeats * c.kblocks * ih * iw * inp_beats + inp_loads * start
    inp += c.residual * (vectors * inp_beats + tiles * s.nblock * start)
    wgt = c.nblocks * wgt_repeats * c.kblocks * c.taps * wgt_beats + wgt_blocks * start
    store = vectors * timing.store_element / c.merged
    store += tiles * s.nblock * (timing.write_latency + timing.burst)

    work = ModuleWork(compute, inp, wgt, store, inp_blocks, wgt_blocks, tiles)
    return overlapped(s, work, last_store=store / (m_tiles * c.nblocks))
