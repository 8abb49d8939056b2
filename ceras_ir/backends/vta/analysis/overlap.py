"""How long VTA's three modules take together, for thousands of schedules at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.vta.analysis.blocks import Schedules

Cycles = NDArray[np.number]
Counts = NDArray[np.integer]


@dataclass(frozen=True)
class ModuleWork:
    """Cycles of each module alone, for one group of channels, and in how many pieces they come."""

    compute: Cycles
    inp: Cycles
    wgt: Cycles
    store: Cycles
    inp_blocks: Counts
    wgt_blocks: Counts
    tiles: Counts


def overlapped(s: Schedules, work: ModuleWork, last_store: Cycles) -> NDArray[np.float64]:
    """Cycles of each schedule: modules overlap where there are two buffers of a kind."""
    inp, wgt, store = work.inp, work.wgt, work.store
    # One buffer whose K-blocks come one after the other still overlaps.
    inp_alone = (s.inp_stages == 1) & (work.inp_blocks > 1) & ~(s.resident & s.inputs_stay)
    wgt_alone = (s.wgt_stages == 1) & (work.wgt_blocks > 1) & ~(s.resident & ~s.inputs_stay)
    exposed = np.where(inp_alone, inp, 0.0) + np.where(wgt_alone, wgt, 0.0)
    exposed += np.where((s.acc_stages == 1) & (work.tiles > 1), store, 0)
    first = (inp + wgt) / np.maximum(work.inp_blocks, work.wgt_blocks)
    busiest = np.maximum(work.compute, np.maximum(inp + wgt, store))
    cycles = s.shape.groups * (busiest + exposed) + first + last_store
    return np.asarray(cycles, np.float64)
