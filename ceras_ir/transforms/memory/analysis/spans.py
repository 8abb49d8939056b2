"""
Memory requests on a line of time: how many bytes, from when until when.

The problem of placing them knows nothing of networks; see `liveness.py` for where
they come from, `offsets.py` and `exact_offsets.py` for their placement.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Span:
    """`size` bytes that must stay untouched during `[lower, upper)`."""

    size: int
    lower: int
    upper: int

    @property
    def needs_memory(self) -> bool:
        """Whether there are bytes, at some time."""
        return self.size > 0 and self.lower < self.upper

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
    table = np.array([(s.lower, s.upper) for s in spans], np.int64).reshape(-1, 2)
    starts = np.array(offsets, np.int64)
    ends = starts + np.array([s.size for s in spans], np.int64)
    for i, name in enumerate(names):
        (lower, upper), start, end = table[i], starts[i], ends[i]
        if start < 0 or end > capacity:
            found.append(f"id {name}: bytes [{start}, {end}) are not inside [0, {capacity})")
        together = np.maximum(table[:i, 0], lower) < np.minimum(table[:i, 1], upper)
        common = np.maximum(starts[:i], start) < np.minimum(ends[:i], end)
        for j in np.flatnonzero(together & common).tolist():
            found.append(f"ids {names[j]} and {name} share bytes while both are alive")
    return found
