"""
Byte offsets for requests of different sizes, so that live ones never overlap.

Greedy placement in several orders, each buffer at the lowest gap that fits; the best plan
wins. Not exact: `exact_offsets` searches on where `most_alive` leaves a gap.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ceras_ir.transforms.memory.analysis.spans import Span, aligned

LARGEST = 1 << 62
"""Above every capacity and every address."""

_ORDERS: tuple[Callable[[Span], tuple[int, ...]], ...] = (
    lambda b: (-b.size, b.lower),
    lambda b: (-b.size * (b.upper - b.lower), b.lower),
    lambda b: (b.lower - b.upper, -b.size, b.lower),
    lambda b: (b.lower, -b.size),
)
"""Largest first, largest area first, longest first, earliest first."""


def first_fit(spans: Sequence[Span], alignment: int) -> tuple[list[int], int]:
    """An offset for each buffer, and the peak in bytes; the best over a few orders."""
    return min(greedy_plans(spans, alignment), key=lambda plan: plan[1])


def greedy_plans(spans: Sequence[Span], alignment: int) -> Iterator[tuple[list[int], int]]:
    """The plan of each order, one after the other."""
    for order in _ORDERS:
        indices = sorted(range(len(spans)), key=lambda i: (*order(spans[i]), i))
        yield _place(spans, indices, alignment)


def _place(spans: Sequence[Span], order: Sequence[int], alignment: int) -> tuple[list[int], int]:
    offsets = [0] * len(spans)
    # In the order of placing: first and last step, first byte, and the next that is free.
    placed = np.zeros((4, len(spans)), np.int64)
    count = peak = 0
    for i in order:
        span = spans[i]
        if not span.needs_memory:
            continue
        lower, upper, begin, end = placed[:, :count]
        meet = np.flatnonzero((lower < span.upper) & (upper > span.lower))
        meet = meet[np.lexsort((end[meet], begin[meet]))]
        # Before each of them, and behind all, what is free begins where the highest yet ends.
        free_from = np.maximum.accumulate(np.append(0, end[meet]))
        fits = begin[meet] - min(span.size, LARGEST + 1) >= free_from[:-1]
        offset = int(free_from[int(fits.argmax()) if fits.any() else -1])
        # What is beyond all capacities stays there, so that no sum leaves 64 bits.
        offsets[i] = min(offset, LARGEST)
        free = min(aligned(offset + span.size, alignment), LARGEST)
        placed[:, count] = span.lower, span.upper, offsets[i], free
        count += 1
        peak = max(peak, free)
    return offsets, peak
