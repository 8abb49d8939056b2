"""
The loop nest of one GEMM or ALU instruction, as the checker sees it.

Which elements it reaches, and whether iterations that the pipelines overlap are independent.
"""

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.vta.hardware import GEMM_PIPELINE
from ceras_ir.backends.vta.isa import Alu, Gemm

Elements = NDArray[np.int64]


class LoopChecks:
    """Answers about loop nests; remembered, because a stream repeats them."""

    def __init__(self):
        self._elements: dict[Hashable, Elements] = {}
        self._conflicts: dict[Hashable, str | None] = {}

    def elements(self, first: Elements, i: Gemm | Alu, outer: int, inner: int) -> Elements:
        """All elements that index `first` with factors `outer` and `inner` reaches, once each."""
        key = (first.tobytes(), i.iter_out, i.iter_in, outer, inner)
        if (found := self._elements.get(key)) is None:
            a = np.arange(i.iter_out if outer else 1, dtype=np.int64) * outer
            b = np.arange(i.iter_in if inner else 1, dtype=np.int64) * inner
            offsets = np.unique(np.add.outer(a, b))
            base = np.unique(first)
            reached = np.zeros(int(base[-1] + offsets[-1]) + 1, np.bool_)
            reached[np.add.outer(base, offsets)] = True
            found = self._elements[key] = np.flatnonzero(reached)
        return found

    def conflict(self, uops: NDArray[np.int64], i: Gemm | Alu) -> str | None:
        """
        Why iterations close to each other must not overlap, or None. GEMM: HLS pipelines
        `acc_mem` with `DEPENDENCE inter false`, so the two iterations before must write
        elsewhere. ALU: the result of the iteration before is not there yet.
        """
        if isinstance(i, Gemm) and i.reset:
            return None
        use_imm = isinstance(i, Alu) and i.use_imm
        loop = (i.iter_out, i.iter_in, i.dst_factor_out, i.dst_factor_in)
        src = (i.src_factor_out, i.src_factor_in)
        key = (type(i), use_imm, uops.tobytes(), loop, src)
        if key not in self._conflicts:
            self._conflicts[key] = self._find_conflict(uops, i, use_imm)
        return self._conflicts[key]

    def _find_conflict(self, uops: NDArray[np.int64], i: Gemm | Alu, use_imm: bool) -> str | None:
        if use_imm and (uops[:, 0] != uops[:, 1]).any():
            return "an immediate operation must have src index equal to dst index"
        same_steps = (i.dst_factor_out, i.dst_factor_in) == (i.src_factor_out, i.src_factor_in)
        # What later outer iterations do differs only in where sources are, seen from dst.
        sources_matter = isinstance(i, Alu) and not use_imm and not same_steps
        outer = i.iter_out if sources_matter else min(i.iter_out, 3)
        a = np.arange(outer, dtype=np.int64)[:, None]
        b = np.arange(i.iter_in, dtype=np.int64)
        dst_runs = _consecutive((a * i.dst_factor_out + b * i.dst_factor_in).reshape(-1))
        src_runs = _consecutive((a * i.src_factor_out + b * i.src_factor_in).reshape(-1))
        relative = np.concatenate([dst_runs, src_runs], axis=1) - dst_runs[:, :1]
        kept = relative if sources_matter else relative[:, : dst_runs.shape[1]]
        _, chosen = np.unique(kept, axis=0, return_index=True)
        dst = (dst_runs[chosen][:, :, None] + uops[:, 0]).reshape(len(chosen), -1)
        src = (src_runs[chosen][:, :, None] + uops[:, 1]).reshape(len(chosen), -1)
        for lag in range(1, 1 + GEMM_PIPELINE) if isinstance(i, Gemm) else (1,):
            if (dst[:, lag:] == dst[:, :-lag]).any():
                return f"writes the same accumulator {lag} iterations apart"
        if isinstance(i, Alu) and not use_imm and (src[:, 1:] == dst[:, :-1]).any():
            return "reads what the iteration before writes"
        return None


def _consecutive(steps: Elements) -> NDArray[np.int64]:
    """Every three consecutive of `steps` as a row; two iterations two apart are in one of them."""
    if len(steps) < 3:
        return steps[None, :]
    return np.stack([steps[:-2], steps[1:-1], steps[2:]], axis=1)
