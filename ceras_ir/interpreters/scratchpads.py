"""Scratchpads as numpy arrays, and the matrix intrinsic over boxes in them as matrix products."""

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ceras_ir.dialects import tile
from ceras_ir.interpreters.bounds import check

Array: TypeAlias = NDArray[np.generic]

Loop: TypeAlias = tuple[int, int, int, int]
"""Extent, and strides in accumulators, inputs and weights."""

FLOAT32_PRODUCTS = 1 << 10
"""Sums of so many products of int8 are exact in float32: 2^10 * 2^14 = 2^24."""


@dataclass(eq=False)
class Scratchpad:
    """A buffer on chip: `shape` vectors, row-major in `vectors`."""

    vectors: Array
    shape: tuple[int, ...]
    turns: int = 0
    """How often the next buffer of this ring has been asked for."""

    def position(self, indices: tuple[int, ...]) -> int:
        """Which vector leading indices mean; those left out are zero."""
        position = 0
        for extent, index in zip(self.shape, (*indices, *(0,) * len(self.shape)), strict=False):
            position = position * extent + index
        check("vector", position, position, len(self.vectors))
        return position

    def run(self, indices: tuple[int, ...], count: int) -> Array:
        """A view of `count` vectors, one after the other."""
        start = self.position(indices)
        check("vector", start, start + count - 1, len(self.vectors))
        return self.vectors[start : start + count]

    def box(self, start: int, extents: tuple[int, ...], strides: tuple[int, ...]) -> Array:
        """A view of the vectors that loops reach."""
        reach = [(e - 1) * s for e, s in zip(extents, strides, strict=True)]
        low, high = (sum(step(0, r) for r in reach) for step in (min, max))
        check("vector", start + low, start + high, len(self.vectors))
        base = self.vectors[start:]
        steps = [s * base.strides[0] for s in strides]
        return as_strided(base, (*extents, *base.shape[1:]), (*steps, *base.strides[1:]))


def accumulate(
    op: tile.GemmOp,
    acc: tuple[Scratchpad, int],
    inp: tuple[Scratchpad, int],
    wgt: tuple[Scratchpad, int],
) -> None:
    """
    `tile.gemm` as matrix products. Loops that move only input and accumulator are rows, those
    that move only weights and accumulator columns, those that leave the accumulator alone are
    summed over; any other loop is run one iteration after the other.
    """
    strides = zip(
        op.acc_strides.get_values(),
        op.inp_strides.get_values(),
        op.wgt_strides.get_values(),
        strict=True,
    )
    rows, columns, sums, outer = (list[Loop]() for _ in range(4))
    for extent, (a, i, w) in zip(op.loops, strides, strict=True):
        kind = sums if not a else rows if not w else columns if not i else outer
        kind.append((extent, a, i, w))
    if not _distinct(rows + columns):
        outer, rows, columns = outer + rows + columns, [], []
    for steps in product(*(range(extent) for extent, *_ in outer)):
        at = [
            start + sum(k * loop[1 + j] for k, loop in zip(steps, outer, strict=True))
            for j, (_, start) in enumerate((acc, inp, wgt))
        ]
        left = _box(inp[0], at[1], rows + sums, 2)
        right = _box(wgt[0], at[2], columns + sums, 3)
        count = prod(extent for extent, *_ in sums)
        outputs, inputs = wgt[0].vectors.shape[1:]
        lines = inp[0].vectors.shape[1]
        k = count * inputs
        real = np.float32 if k <= FLOAT32_PRODUCTS else np.float64
        # [positions, sums, line, in] and [columns, sums, out, in]
        a = left.astype(real).reshape(-1, count, lines, inputs)
        a = a.swapaxes(1, 2).reshape(-1, k)
        b = right.astype(real).reshape(-1, count, outputs, inputs)
        b = b.transpose(1, 3, 0, 2).reshape(k, -1)
        total = (a @ b).astype(np.int64).astype(np.int32)
        # [positions, line, columns, out] to [positions, columns, line, out]
        total = total.reshape(-1, lines, b.shape[1] // outputs, outputs).swapaxes(1, 2)
        target = _box(acc[0], at[0], rows + columns, 1)
        target[...] = target.astype(np.int32) + total.reshape(target.shape)


def _box(pad: Scratchpad, start: int, loops: list[Loop], which: int) -> Array:
    extents = tuple(loop[0] for loop in loops)
    return pad.box(start, extents, tuple(loop[which] for loop in loops))


def _distinct(loops: list[Loop]) -> bool:
    """Whether every iteration has an accumulator of its own."""
    reached = np.zeros(1, np.int64)
    for extent, stride, _, _ in loops:
        reached = (reached[:, None] + stride * np.arange(extent)).reshape(-1)
    return len(np.unique(reached)) == len(reached)
