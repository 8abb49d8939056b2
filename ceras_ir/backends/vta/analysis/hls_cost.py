"""
What a schedule costs on VTA's HLS source, roughly and for thousands of them at once, for one model;
`tile_cost` for the Chisel source.
"""

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.vta.analysis.blocks import MERGE_FROM, Schedules
from ceras_ir.backends.vta.analysis.borders import borders_of
from ceras_ir.backends.vta.analysis.contraction import SWISH_PASSES, Contraction
from ceras_ir.backends.vta.analysis.hls_lists import list_lengths
from ceras_ir.backends.vta.analysis.overlap import ModuleWork, overlapped
from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.hls_model import HlsModel
from ceras_ir.backends.vta.hls_timing import ALU_INTERVAL
from ceras_ir.backends.vta.isa import MemoryType


def hls_cost(s: Schedules, board: VtaBoard, model: HlsModel) -> NDArray[np.floating]:
    """Cycles of each schedule, roughly."""
    c, each, refill = s.shape, model.instruction, model.refill
    m_tiles = c.batch * -(-c.rows // s.rows) * -(-c.columns // s.columns)
    n_tiles, k_tiles = -(-c.nblocks // s.nblock), -(-c.kblocks // s.kblock)
    tiles, vectors = m_tiles * n_tiles, m_tiles * s.positions * c.nblocks
    products, alu = list_lengths(s, board)

    iterations = 1.0 * vectors * c.kblocks * c.taps
    instructions = tiles * np.where(s.nblock >= MERGE_FROM, k_tiles, c.kblocks * c.taps)
    compute = iterations * (1 + refill / products) + instructions * each
    added = vectors * (1 + c.residual + c.bias_tiles / c.merged)
    compute += added * (1 + refill / alu)
    edges = borders_of(c).additions(c.rows, c.columns) / (c.rows * c.columns)
    work = alu_passes(c) / c.merged + edges + sum(c.maxima(c.merged)) / c.merged
    passes = alu_passes(c) + edges + len(c.maxima(1))
    compute += vectors * work * (ALU_INTERVAL + refill / alu)
    compute += tiles * each * (2 + passes + s.nblock * (c.residual + SWISH_PASSES * (c.swish > 0)))

    def transfer(memory: MemoryType, count: NDArray[np.floating]) -> NDArray[np.floating]:
        return count * (board.element_bytes(memory) / model.bytes_per_cycle)

    stays = s.resident | (k_tiles == 1)
    inp_repeats = np.where(stays & s.inputs_stay, 1, n_tiles)
    wgt_repeats = np.where(stays & ~s.inputs_stay, 1, m_tiles)
    ih, iw = s.window
    inp_blocks, wgt_blocks = m_tiles * inp_repeats * k_tiles, n_tiles * wgt_repeats * k_tiles
    whole = (s.columns == c.columns) & (c.padding == (0, 0, 0, 0))
    rows = np.where(whole, 1, ih)
    depth = 1.0 * m_tiles * inp_repeats * c.kblocks
    inp_bytes = transfer(MemoryType.INP, depth * ih * iw)
    inp = inp_bytes + depth * rows * model.latency + depth * each
    if c.is_flat:
        inp = inp_bytes + np.where(whole, inp_blocks, depth) * model.latency + inp_blocks * each
    wgt_rows = np.where(s.kblock >= c.kblocks, 1, s.nblock) * s.weight_loads
    wgt = transfer(MemoryType.WGT, 1.0 * c.nblocks * wgt_repeats * c.kblocks * c.taps)
    wgt += wgt_blocks * (wgt_rows * model.latency + s.weight_loads * each)
    if c.residual:
        inp = inp + transfer(MemoryType.INP, 1.0 * vectors)
        inp += tiles * s.nblock * (each + np.where(whole, 1, s.rows) * model.latency)
    store_rows = np.where(s.columns == c.columns, 1, s.rows)
    store_bytes = transfer(MemoryType.OUT, 1.0 * vectors / c.merged)
    store = store_bytes + tiles * s.nblock * (each + store_rows * model.latency)

    modules = ModuleWork(compute, inp, wgt, store, inp_blocks, wgt_blocks, tiles)
    return overlapped(s, modules, last_store=store / tiles)


def alu_passes(c: Contraction) -> int:
    """ALU operations on each vector: bias, shifts, clamp and swish."""
    bias = int(c.bias_cycles > 0 and not c.bias_tiles)
    return bias + c.shift_passes + c.clamps + c.swish_cycles
