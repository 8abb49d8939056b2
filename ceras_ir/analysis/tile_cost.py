"""
What a schedule costs: cycles of VTA's three modules from the measured rules of the hardware,
overlapping where there are two buffers of a kind. It ranks schedules, no more.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ceras_ir.analysis.blocks import MERGE_FROM, Schedules
from ceras_ir.backends.vta.board import ELEMENT_BYTES, VtaBoard
from ceras_ir.backends.vta.isa import MemoryType


@dataclass(frozen=True)
class Timing:
    """Cycles that VTA's configuration does not tell; measured on the Chisel RTL."""

    read_latency: int = 50
    write_latency: int = 31
    transfer: int = 5
    """Of a load, beside its beats and the latency."""
    instruction: int = 7
    """Of GEMM and ALU, beside their iterations."""
    store_vector: int = 3
    bus_bytes: int = 8
    """Where the board does not say."""


def cost(s: Schedules, board: VtaBoard, timing: Timing = Timing()) -> NDArray[np.float64]:
    """Cycles of each schedule, roughly."""
    c = s.shape
    bus = board.bus_bytes or timing.bus_bytes
    inp_beats = ELEMENT_BYTES[MemoryType.INP] / bus
    wgt_beats = ELEMENT_BYTES[MemoryType.WGT] / bus
    start = timing.read_latency + timing.transfer
    ih, iw = s.window
    m_tiles = c.batch * -(-c.rows // s.rows) * -(-c.columns // s.columns)
    n_tiles = -(-c.nblocks // s.nblock)
    k_tiles = -(-c.kblocks // s.kblock)
    tiles = m_tiles * n_tiles
    vectors = m_tiles * s.positions * c.nblocks

    # Clearing, adding the bias (two operands), shifting and clamping; the residual's GEMM.
    steps = np.where(s.nblock >= MERGE_FROM, k_tiles, c.kblocks * c.taps)
    compute = vectors * (c.kblocks * c.taps + 5 + c.shifts + c.residual)
    compute += tiles * timing.instruction * (steps + 4 + c.shifts + c.residual * s.nblock)

    inp_repeats = np.where((k_tiles == 1) & s.inputs_stay, 1, n_tiles)
    wgt_repeats = np.where((k_tiles == 1) & ~s.inputs_stay, 1, m_tiles)
    inp_blocks = m_tiles * inp_repeats * k_tiles
    wgt_blocks = n_tiles * wgt_repeats * k_tiles
    inp_loads = inp_blocks if c.height == 1 else m_tiles * inp_repeats * c.kblocks
    inp = m_tiles * inp_repeats * c.kblocks * ih * iw * inp_beats + inp_loads * start
    inp += c.residual * (vectors * inp_beats + tiles * s.nblock * start)
    wgt = c.nblocks * wgt_repeats * c.kblocks * c.taps * wgt_beats + wgt_blocks * start
    store = vectors * timing.store_vector
    store += tiles * s.nblock * (timing.write_latency + timing.store_vector)

    exposed = np.where((s.inp_stages == 1) & (inp_blocks > 1), inp, 0.0)
    exposed += np.where((s.wgt_stages == 1) & (wgt_blocks > 1), wgt, 0.0)
    exposed += np.where((s.acc_stages == 1) & (tiles > 1), store, 0)
    first = (inp + wgt) / (tiles * k_tiles)
    busiest = np.maximum(compute, np.maximum(inp + wgt, store))
    return busiest + exposed + first + store / tiles
