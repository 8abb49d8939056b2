"""What of a box, a loop nest or a shift one VTA instruction can take: plain arithmetic."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from ceras_ir.backends.vta.hardware import SHR_RANGE
from ceras_ir.backends.vta.micro_ops import MicroOps
from ceras_ir.dialects import tile
from ceras_ir.interpreters.bounds import index_values


@dataclass(frozen=True)
class Clip:
    """The part of a row of `count` elements, `step` apart, that lies inside `[0, size)`."""

    before: int
    inside: int
    after: int

    @classmethod
    def of(cls, start: int, count: int, size: int, step: int = 1) -> "Clip":
        before = min(count, -(-max(0, -start) // step))
        inside = min(count, max(0, -(-(size - start) // step))) - before
        return cls(before, max(0, inside), count - before - max(0, inside))


def shift_steps(amount: int) -> list[int]:
    """`amount` in as few portable steps as possible; floors compose, so the sum is the same."""
    low, high = SHR_RANGE
    steps: list[int] = []
    while amount:
        steps.append(min(max(amount, low), high))
        amount -= steps[-1]
    return steps


def matrix_at(
    dram: SSAValue, indices: tuple[int, ...]
) -> tuple[int, tuple[int, int], tuple[int, int]]:
    """
    Row-major position of the matrix that the last two indices are in, these indices, and its
    extents, in vectors; a single index is that of a column.
    """
    indices = index_values(indices)
    shape = tile.memref_type(dram).get_shape()[: len(indices)]
    outer = 0
    for extent, index in zip(shape[:-2], indices[:-2], strict=True):
        outer = outer * extent + index
    if len(indices) == 1:
        return outer, (0, indices[0]), (1, shape[0])
    return outer, (indices[-2], indices[-1]), (shape[-2], shape[-1])


def unrolled(first: Sequence[int], loops: Sequence[tuple[int, ...]]) -> MicroOps:
    """Rows of three indices, from `first` on, in the order of `loops`; missing ones are zero."""
    rows = np.array([(*first, 0, 0)[:3]], np.int64)
    for extent, *steps in loops:
        offsets = np.arange(extent)[:, None] * np.array((*steps, 0, 0)[:3], np.int64)
        rows = (rows[:, None] + offsets).reshape(-1, 3)
    return rows
