"""
Byte offsets for buffers of different sizes, so that live ones never overlap.

Greedy placement in several orders, each buffer at the lowest gap that fits; the best plan
wins. Not exact: `Liveness.lower_bound` says how far from optimal a plan can be.
"""

from collections.abc import Callable, Sequence

from ceras_ir.analysis.liveness import Buffer

_ORDERS: tuple[Callable[[Buffer], tuple[int, ...]], ...] = (
    lambda b: (-b.size, b.lower),
    lambda b: (-b.size * (b.upper - b.lower), b.lower),
    lambda b: (b.lower - b.upper, -b.size, b.lower),
    lambda b: (b.lower, -b.size),
)
"""Largest first, largest area first, longest first, earliest first."""


def first_fit(buffers: Sequence[Buffer], alignment: int) -> tuple[list[int], int]:
    """An offset for each buffer, and the peak in bytes; the best over a few orders."""
    best: tuple[list[int], int] | None = None
    for order in _ORDERS:
        indices = sorted(range(len(buffers)), key=lambda i: (*order(buffers[i]), i))
        plan = _place(buffers, indices, alignment)
        if best is None or plan[1] < best[1]:
            best = plan
    assert best is not None
    return best


def _place(
    buffers: Sequence[Buffer], order: Sequence[int], alignment: int
) -> tuple[list[int], int]:
    offsets = [0] * len(buffers)
    placed: list[int] = []
    peak = 0
    for i in order:
        size = buffers[i].size
        busy = sorted(
            (offsets[j], offsets[j] + buffers[j].size)
            for j in placed
            if buffers[i].overlaps(buffers[j])
        )
        offset = 0
        for start, stop in busy:
            if offset + size <= start:
                break
            offset = max(offset, -(-stop // alignment) * alignment)
        offsets[i] = offset
        placed.append(i)
        peak = max(peak, offset + size)
    return offsets, -(-peak // alignment) * alignment
