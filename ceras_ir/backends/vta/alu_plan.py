"""
One ALU instruction as a few vector operations.

The iterations are sequential: a later one sees what an earlier one wrote. They are put in
stages so that no iteration of a stage reads or writes what another of it writes, except that
it may overwrite what another reads; a stage reads all its operands first.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.vta.gemm_plan import Indices, iteration_indices
from ceras_ir.backends.vta.isa import Alu, AluOpcode
from ceras_ir.backends.vta.micro_ops import MicroOps

Int32 = NDArray[np.int32]


@dataclass(frozen=True)
class AluPlan:
    """Destination and source indices of every stage; sources are unused with an immediate."""

    stages: list[tuple[Indices, Indices]]


def plan_alu(uops: MicroOps, i: Alu, outer: range) -> AluPlan:
    """Stages of `i` with `outer` for its outer loop."""
    dst = iteration_indices(uops[:, 0], i, i.dst_factor_out, i.dst_factor_in, outer)
    src = iteration_indices(uops[:, 1], i, i.src_factor_out, i.src_factor_in, outer)
    if i.use_imm or not np.isin(src, dst).any():
        stage = _occurrence(dst)
    elif _independent(dst, src):
        stage = np.zeros_like(dst)
    else:
        stage = _schedule(dst.tolist(), src.tolist())
    order = np.argsort(stage, kind="stable")
    cuts = np.flatnonzero(np.diff(stage[order])) + 1
    parts = np.split(order, cuts)
    return AluPlan([(dst[part], src[part]) for part in parts])


def _occurrence(values: Indices) -> Indices:
    """How often each value has occurred before its position."""
    order = np.argsort(values, kind="stable")
    _, starts, counts = np.unique(values[order], return_index=True, return_counts=True)
    rank = np.empty_like(values)
    rank[order] = np.arange(len(values)) - np.repeat(starts, counts)
    return rank


def _independent(dst: Indices, src: Indices) -> bool:
    """Whether no iteration writes what another has written or a later one reads."""
    written_at = np.full(int(max(dst.max(), src.max())) + 1, len(dst))
    position = np.arange(len(dst))
    written_at[dst] = position
    distinct = np.array_equal(written_at[dst], position) and len(np.unique(dst)) == len(dst)
    return distinct and bool((written_at[src] >= position).all())


def _schedule(dst: list[int], src: list[int]) -> Indices:
    """The earliest stage of each iteration under RAW, WAW and WAR order."""
    after_write: dict[int, int] = {}
    last_read: dict[int, int] = {}
    stages: list[int] = []
    for d, s in zip(dst, src, strict=True):
        stage = max(after_write.get(s, 0), after_write.get(d, 0), last_read.get(d, 0))
        stages.append(stage)
        last_read[s] = max(stage, last_read.get(s, 0))
        after_write[d] = stage + 1
    return np.array(stages, np.int64)


def compute(opcode: AluOpcode, x: Int32, y: Int32) -> Int32:
    """`opcode` on int32 vectors, wrapping; shift amounts are taken modulo 32."""
    match opcode:
        case AluOpcode.MIN:
            return np.minimum(x, y)
        case AluOpcode.MAX:
            return np.maximum(x, y)
        case AluOpcode.ADD:
            return x + y
        case AluOpcode.MUL:
            return x * y
        case AluOpcode.SHR:
            return np.where(y >= 0, x >> (y & 31), x << (-y & 31))
