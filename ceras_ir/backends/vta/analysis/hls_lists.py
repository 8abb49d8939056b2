"""
How long the lists of micro-ops of a schedule can be, for VTA's HLS source: all lists of a kernel
share the micro-op memory. `long_lists` makes them; this says before what it will find.
"""

import numpy as np

from ceras_ir.backends.vta.analysis.blocks import MERGE_FROM, Counts, Schedules
from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.long_lists import LENGTHS


def list_lengths(s: Schedules, board: VtaBoard) -> tuple[Counts, Counts]:
    """Micro-ops of an entry of a block's GEMM, and of its ALU operations."""
    c, merged = s.shape, s.nblock >= MERGE_FROM
    reductions = s.kblock * c.taps
    own = c.merged * s.nblock * np.where(merged & (not c.is_flat), reductions, 1)
    sequences = s.micro_ops // (c.merged * s.nblock * (1 if c.is_flat else reductions))
    sequences = sequences * np.where(merged, 1, reductions)
    vectors = s.acc_stages * (2 + s.nblock * c.by_channel)
    room = np.maximum(1, board.portable_uops // np.maximum(1, sequences + vectors))
    longest = np.minimum(LENGTHS[0], 1 << np.log2(room).astype(np.int64))
    products = own * np.clip(longest // own, 1, s.positions // c.merged)
    return products, np.minimum(longest, s.nblock * s.positions // c.merged)
