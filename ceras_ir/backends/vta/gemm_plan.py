"""
One GEMM instruction as a few dense matrix products.

Sums of int32 are the same in any order, so the iterations are sorted by destination; rows
with equal weight tiles become one product.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.vta.interpreter import FLOAT32_PRODUCTS
from ceras_ir.backends.vta.isa import Alu, Gemm
from ceras_ir.backends.vta.micro_ops import MicroOps

Indices = NDArray[np.int64]


def iteration_indices(
    uops: NDArray[np.int64],
    i: Gemm | Alu,
    factor_out: int,
    factor_in: int,
    outer: range | None = None,
) -> Indices:
    """The index of every iteration, in order: `uops[k] + factor_out * a + factor_in * b`."""
    outer = range(i.iter_out) if outer is None else outer
    a = np.arange(outer.start, outer.stop, dtype=np.int64)[:, None, None] * factor_out
    b = np.arange(i.iter_in, dtype=np.int64)[None, :, None] * factor_in
    return (a + b + uops).reshape(-1)


@dataclass(frozen=True)
class _Product:
    """`g` products of `r` vectors by `k` tiles one below the other, to what nothing else writes."""

    dst: Indices
    """`[g, r]`"""
    src: Indices
    """`[g, r, k]`"""
    wgt: Indices
    """`[g, k]`"""


@dataclass(frozen=True)
class GemmPlan:
    """All products of an instruction; each destination belongs to one of them."""

    products: list[_Product]
    dst: Indices
    """Every destination once."""

    def run(
        self,
        inp: NDArray[np.float32],
        wgt: NDArray[np.float32],
        acc: NDArray[np.int32],
    ) -> None:
        """Add the products to `acc`; `wgt` holds tiles as `[in][out]`."""
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
    Numbers from 0 on, the same for equal rows, and where each number occurs first. As
    `np.unique` by rows, which makes a field of every column and so is slow for wide ones.
    """
    numbers: dict[bytes, int] = {}
    group = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in rows], np.int64)
    _, firsts = np.unique(group, return_index=True)
    return group, firsts


def plan_gemm(uops: MicroOps, i: Gemm, outer: range) -> GemmPlan:
    """Group the iterations of `i` with `outer` for its outer loop."""
    dst = iteration_indices(uops[:, 0], i, i.dst_factor_out, i.dst_factor_in, outer)
    src = iteration_indices(uops[:, 1], i, i.src_factor_out, i.src_factor_in, outer)
    wgt = iteration_indices(uops[:, 2], i, i.wgt_factor_out, i.wgt_factor_in, outer)
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
        ends = np.cumsum(sizes)
        for r in np.unique(sizes).tolist():
            same = np.flatnonzero(sizes == r)
            rows = by_group[(ends[same] - r)[:, None] + np.arange(r)]
            products.append(_Product(targets[chosen[rows]], src[at[rows]], tiles[firsts[same]]))
    return GemmPlan(products, targets)
