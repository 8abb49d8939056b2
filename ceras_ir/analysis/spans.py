"""
Memory requests on a line of time: how many bytes, from when until when.

The problem of placing them knows nothing of networks; see `analysis/liveness.py` for where
they come from, `analysis/offsets.py` and `analysis/exact_offsets.py` for their placement.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """`size` bytes that must stay untouched during `[lower, upper)`."""

    size: int
    lower: int
    upper: int

    def overlaps(self, other: "Span") -> bool:
        """Whether both are alive at some time."""
        return self.lower < other.upper and other.lower < self.upper


def aligned(size: int, alignment: int) -> int:
    """The next multiple of `alignment`."""
    return -(-size // alignment) * alignment


def most_alive(spans: Iterable[Span], alignment: int = 1) -> int:
    """The most bytes alive at one time: no plan needs fewer."""
    change: dict[int, int] = {}
    for span in spans:
        size = aligned(span.size, alignment)
        change[span.lower] = change.get(span.lower, 0) + size
        change[span.upper] = change.get(span.upper, 0) - size
    alive = peak = 0
    for time in sorted(change):
        alive += change[time]
        peak = max(peak, alive)
    return peak


def gap(peak: int, bound: int) -> float:
    """By how much `peak` is above `bound`, as a share of it."""
    return (peak - bound) / bound if bound else 0.0


def misplaced(
    names: Sequence[object], spans: Sequence[Span], offsets: Sequence[int], capacity: int
) -> list[str]:
    """
    What is wrong with a placement, in words: every pair is compared and every end, the slow
    way, sharing no code with what placed them.
    """
    found: list[str] = []
    for i, (a, start) in enumerate(zip(spans, offsets, strict=True)):
        end = start + a.size
        if start < 0 or end > capacity:
            found.append(f"id {names[i]}: bytes [{start}, {end}) are not inside [0, {capacity})")
        for j in range(i):
            b, other = spans[j], offsets[j]
            together = max(a.lower, b.lower) < min(a.upper, b.upper)
            if together and max(start, other) < min(end, other + b.size):
                found.append(f"ids {names[j]} and {names[i]} share bytes while both are alive")
    return found
