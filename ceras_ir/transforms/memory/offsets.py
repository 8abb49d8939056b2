"""
Place memory requests of different sizes, so that requests which are alive together never overlap.

A request says how many bytes it needs, from when until when. The problem knows nothing of networks;
`liveness.py` says where requests come from. The greedy placement is not exact; the exact placement
is a search in C++ (`runtime/offset_search.cpp`), used where `most_alive` leaves a gap.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from math import gcd
from pathlib import Path

import numpy as np

from ceras_ir.support.native import Part, build_program, has_compiler

# Memory requests on a line of time: how many bytes, from when until when.
#
# The problem of placing them knows nothing of networks; see `liveness.py` for where
# they come from, the next parts for their placement.


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
    for step in sorted(change):
        alive += change[step]
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


# Byte offsets for requests of different sizes, so that live ones never overlap.
#
# Greedy placement in several orders, each buffer at the lowest gap that fits; the best plan
# wins. Not exact: the exact placement searches on where `most_alive` leaves a gap.

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


# Exact placement of memory requests, by a search in C++ (`runtime/offset_search.cpp`).
#
# The search decides whether there is a plan of at most so many bytes; the best plan is found
# by asking for ever fewer. Limits count search nodes, not seconds, where results must be the
# same on every machine.

SOURCE = Path(__file__).parent / "runtime" / "offset_search.cpp"
FLAGS = ("-std=c++17", "-O3", "-pthread", "-Wall", "-Wextra", "-Werror")
SEARCHES = 2
"""Side by side, where the answer may depend on time."""
UNLIMITED = (1 << 62, 1e9)
MAX_SEARCHED = 2000
"""Requests beyond which the search is not tried: its memory is quadratic in their number."""
SEARCH_NODES = 300_000
"""Nodes of each search for a network's plan: about a second on hundreds of values."""


class Outcome(StrEnum):
    """How a search ended."""

    FOUND = "found"
    IMPOSSIBLE = "impossible"
    STOPPED = "stopped"


@dataclass(frozen=True)
class Answer:
    """The end of a search, with an offset for each span if it found a plan."""

    outcome: Outcome
    offsets: tuple[int, ...] = ()


def place_within(
    spans: Sequence[Span],
    capacity: int,
    *,
    seconds: float = UNLIMITED[1],
    nodes: int = UNLIMITED[0],
    searches: int = 1,
) -> Answer:
    """
    Offsets below `capacity` for `spans`, or that there are none, or neither in time. Of several
    `searches` side by side, whose restarts differ, the first to end answers.
    """
    if most_alive(spans) > capacity:
        return Answer(Outcome.IMPOSSIBLE)
    real = [span for span in spans if span.needs_memory]
    if not real:
        return Answer(Outcome.FOUND, (0,) * len(spans))
    if len(real) > MAX_SEARCHED:
        return Answer(Outcome.STOPPED)
    # Everything is a multiple of the common divisor: the search sees small numbers.
    unit = gcd(*(span.size for span in real))
    lines = [f"{len(real)} {capacity // unit} {seconds} {nodes} {searches}"]
    lines += [f"{span.lower} {span.upper} {span.size // unit}" for span in real]
    parts = [Part([SOURCE], (), FLAGS)]
    program = build_program("offset_search", "the search for memory plans", parts)
    done = subprocess.run(
        [str(program)], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    word, *numbers = done.stdout.split()
    outcome = Outcome(word)
    if outcome is not Outcome.FOUND:
        return Answer(outcome)
    found = iter(numbers)
    offsets = tuple(int(next(found)) * unit if span.needs_memory else 0 for span in spans)
    wrong = misplaced(range(len(spans)), spans, offsets, capacity)
    if wrong:
        raise AssertionError(wrong)
    return Answer(outcome, offsets)


def place_quickly(spans: Sequence[Span], capacity: int, *, seconds: float) -> Answer:
    """
    As `place_within`, but greedy first, which needs no C++ compiler, and then a search on each of
    two processors.
    """
    end = time.monotonic() + seconds
    if most_alive(spans) > capacity:
        return Answer(Outcome.IMPOSSIBLE)
    for offsets, peak in greedy_plans(spans, 1):
        if peak <= capacity:
            return Answer(Outcome.FOUND, tuple(offsets))
        if time.monotonic() > end:
            return Answer(Outcome.STOPPED)
    if not has_compiler():
        return Answer(Outcome.STOPPED)
    left = max(end - time.monotonic(), 0.01)
    return place_within(spans, capacity, seconds=left, searches=SEARCHES)


@dataclass(frozen=True)
class Plan:
    """Offsets, the bytes they need, and a number of bytes that no plan can be below."""

    offsets: tuple[int, ...]
    peak: int
    bound: int


def improve(spans: Sequence[Span], plan: Plan, alignment: int, nodes: int) -> Plan:
    """
    The best plan that a search of at most `nodes` nodes finds, and the best bound it proves:
    first at the bound, where most instances have a plan, then by halving what is between.
    """
    rounded = [Span(aligned(s.size, alignment), s.lower, s.upper) for s in spans]
    unit = gcd(*(span.size for span in rounded if span.needs_memory))
    low, best = plan.bound, plan
    target = low
    while low < best.peak:
        answer = place_within(rounded, target, nodes=nodes)
        if answer.outcome is Outcome.FOUND:
            placed = zip(answer.offsets, rounded, strict=True)
            ends = (o + s.size for o, s in placed if s.needs_memory)
            best = Plan(answer.offsets, max(ends), low)
        elif answer.outcome is Outcome.IMPOSSIBLE:
            low = target + unit
        else:
            break
        target = low + (best.peak - low) // 2 // unit * unit
    return Plan(best.offsets, best.peak, low)


def plan_offsets(spans: Sequence[Span], alignment: int, nodes: int = SEARCH_NODES) -> Plan:
    """First fit, and the search where that leaves a gap; a note where no compiler can build it."""
    offsets, peak = first_fit(spans, alignment)
    plan = Plan(tuple(offsets), peak, most_alive(spans, alignment))
    if peak > plan.bound:
        if has_compiler():
            return improve(spans, plan, alignment, nodes)
        say_unsearched()
    return plan


@lru_cache
def say_unsearched() -> None:
    """Say once that plans are as good as first fit makes them."""
    print(
        "allocate-blocks: note: no C++ compiler for the exact search, so that plans may be larger "
        "than on a machine with one; install g++, or set CXX",
        file=sys.stderr,
    )
