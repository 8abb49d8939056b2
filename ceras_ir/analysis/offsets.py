"""
Byte offsets for requests of different sizes, so that live ones never overlap.

Greedy placement in several orders, each buffer at the lowest gap that fits; the best plan
wins. Not exact: `exact_offsets` searches on where `most_alive` leaves a gap.
"""

from collections.abc import Callable, Sequence

from ceras_ir.analysis.spans import Span, aligned

_ORDERS: tuple[Callable[[Span], tuple[int, ...]], ...] = (
    lambda b: (-b.size, b.lower),
    lambda b: (-b.size * (b.upper - b.lower), b.lower),
    lambda b: (b.lower - b.upper, -b.size, b.lower),
    lambda b: (b.lower, -b.size),
)
"""Largest first, largest area first, longest first, earliest first."""


def first_fit(spans: Sequence[Span], alignment: int) -> tuple[list[int], int]:
    """An offset for each buffer, and the peak in bytes; the best over a few orders."""
    best: tuple[list[int], int] | None = None
    for order in _ORDERS:
        indices = sorted(range(len(spans)), key=lambda i: (*order(spans[i]), i))
        plan = _place(spans, indices, alignment)
        if best is None or plan[1] < best[1]:
            best = plan
    assert best is not None
    return best


def by_size(spans: Sequence[Span], alignment: int) -> tuple[list[int], int]:
    """The first of those orders alone: what TensorFlow Lite Micro does."""
    order = sorted(range(len(spans)), key=lambda i: (-spans[i].size, spans[i].lower, i))
    return _place(spans, order, alignment)


def _place(spans: Sequence[Span], order: Sequence[int], alignment: int) -> tuple[list[int], int]:
    offsets = [0] * len(spans)
    placed: list[int] = []
    peak = 0
    for i in order:
        size = spans[i].size
        busy = sorted(
            (offsets[j], offsets[j] + spans[j].size) for j in placed if spans[i].overlaps(spans[j])
        )
        offset = 0
        for start, stop in busy:
            if offset + size <= start:
                break
            offset = max(offset, aligned(stop, alignment))
        offsets[i] = offset
        placed.append(i)
        peak = max(peak, offset + size)
    return offsets, aligned(peak, alignment)
