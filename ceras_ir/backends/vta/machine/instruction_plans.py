"""
Plan the simulation of an instruction: a GEMM as matrix products, an ALU operation as stages.

Sums of int32 are the same in any order, so the iterations of a GEMM are sorted by destination; rows
with equal weight tiles become a single product. ALU iterations are sequential and are grouped in
stages. An iteration of a stage does not access the destination of another, except that it may
overwrite the source of another; all operands of a stage are loaded first.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.vta.machine.encoding import MicroOps
from ceras_ir.backends.vta.machine.isa import Alu, AluOpcode, Gemm

Indices = NDArray[np.int64]

FLOAT32_PRODUCTS = 1 << 10
"""The maximum number of int8 products whose sum is exact in float32: 2^10 * 2^14 = 2^24."""


def iteration_indices(
    uops: NDArray[np.int64],
    i: Gemm | Alu,
    factors: tuple[int, int],
    outer: range | None = None,
) -> Indices:
    """
    Return the index of an operand in each iteration of the loops, in order: `uops[k] + factors[0] *
    a + factors[1] * b` for outer iteration a, inner iteration b and micro-op k. `outer` is a range
    of outer iterations; `None` means all.
    """
    outer = range(i.iter_out) if outer is None else outer
    a = np.arange(outer.start, outer.stop, dtype=np.int64)[:, None, None] * factors[0]
    b = np.arange(i.iter_in, dtype=np.int64)[None, :, None] * factors[1]
    return (a + b + uops).reshape(-1)


@dataclass(frozen=True)
class _Product:
    """
    A part of a GEMM as a stack of matrix products: `g` products of `r` vectors by `k` tiles. No
    other part has the same destinations.
    """

    dst: Indices
    """The indices of the accumulators, with axes `[g, r]`."""
    src: Indices
    """The indices of the input vectors, with axes `[g, r, k]`."""
    wgt: Indices
    """The indices of the weight tiles, with axes `[g, k]`."""


@dataclass(frozen=True)
class GemmPlan:
    """
    A GEMM instruction as matrix products. Each destination (accumulator) belongs to a single
    product.
    """

    products: list[_Product]
    dst: Indices
    """The indices of all accumulators that change, each a single time."""

    def run(
        self, inp: NDArray[np.float32], wgt: NDArray[np.float32], acc: NDArray[np.int32]
    ) -> None:
        """
        Add the products of the inputs and weights of on-chip memory to `acc`, in place. The tiles
        of `wgt` are stored as [in][out].
        """
        for p in self.products:
            (g, r, k), (_, lanes, outputs) = p.src.shape, wgt.shape
            left = inp[p.src].swapaxes(2, 3).reshape(g, -1, k * lanes)
            right = wgt[p.wgt.reshape(-1)].reshape(g, k * lanes, outputs)
            if k * lanes > FLOAT32_PRODUCTS:
                exact = left.astype(np.float64) @ right.astype(np.float64)
                total = exact.astype(np.int64).astype(np.int32)
            else:
                total = (left @ right).astype(np.int32)
            acc[p.dst.reshape(-1)] += total.reshape(g * r, -1, outputs)


def _equal_rows(rows: Indices) -> tuple[Indices, Indices]:
    """
    Return a number for each row, which is equal for equal rows, and for each number the index of
    the first such row.

    This is `np.unique` by rows, which is slow for wide rows because each column becomes a field.
    """
    numbers: dict[bytes, int] = {}
    group = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in rows], np.int64)
    _, firsts = np.unique(group, return_index=True)
    return group, firsts


def plan_gemm(uops: MicroOps, i: Gemm, outer: range) -> GemmPlan:
    dst = iteration_indices(uops[:, 0], i, i.dst_factors, outer)
    src = iteration_indices(uops[:, 1], i, i.src_factors, outer)
    wgt = iteration_indices(uops[:, 2], i, i.wgt_factors, outer)
    order = np.argsort((dst << 32) | wgt, kind="stable")
    dst, src, wgt = dst[order], src[order], wgt[order]
    targets, starts, counts = np.unique(dst, return_index=True, return_counts=True)

    products: list[_Product] = []
    for k in np.unique(counts).tolist():
        chosen = np.flatnonzero(counts == k)
        at: Indices = np.add.outer(starts[chosen], np.arange(k, dtype=np.int64))
        group, firsts = _equal_rows(tiles := wgt[at])
        sizes = np.bincount(group)
        by_group = np.argsort(group, kind="stable")
        group_ends = np.cumsum(sizes)
        for r in np.unique(sizes).tolist():
            same = np.flatnonzero(sizes == r)
            rows = by_group[(group_ends[same] - r)[:, None] + np.arange(r)]
            products.append(_Product(targets[chosen[rows]], src[at[rows]], tiles[firsts[same]]))
    return GemmPlan(products, targets)


Int32 = NDArray[np.int32]


@dataclass(frozen=True)
class AluPlan:
    """
    An ALU instruction as stages, which are executed in sequence; the iterations of a stage are
    independent. A stage is the indices of destinations and of sources, which are not used with an
    immediate.
    """

    stages: list[tuple[Indices, Indices]]


def plan_alu(uops: MicroOps, i: Alu, outer: range) -> AluPlan:
    dst = iteration_indices(uops[:, 0], i, i.dst_factors, outer)
    src = iteration_indices(uops[:, 1], i, i.src_factors, outer)
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
    order = np.argsort(values, kind="stable")
    _, starts, counts = np.unique(values[order], return_index=True, return_counts=True)
    rank = np.empty_like(values)
    rank[order] = np.arange(len(values)) - np.repeat(starts, counts)
    return rank


def _independent(dst: Indices, src: Indices) -> bool:
    """
    Return whether all iterations can be executed at the same time: no two have the same
    destination, and none reads what an earlier iteration writes.
    """
    written_at = np.full(int(max(dst.max(), src.max())) + 1, len(dst))
    position = np.arange(len(dst))
    written_at[dst] = position
    distinct = np.array_equal(written_at[dst], position) and len(np.unique(dst)) == len(dst)
    return distinct and bool((written_at[src] >= position).all())


def _schedule(dst: list[int], src: list[int]) -> Indices:
    """
    Return the stage of each iteration: the earliest that keeps the order of reads and writes of
    equal elements.
    """
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
    """
    Return the ALU function `opcode` of int32 vectors, elementwise. Results wrap to 32 bits. SHR
    shifts to the left if `y` is negative; amounts are modulo 32.
    """
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
