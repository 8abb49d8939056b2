"""
Assign byte offsets to memory requests, so that requests that are live together do not overlap.

A request has a size and a live range. `liveness.py` derives requests from a network. The greedy
placement is not optimal; if it does not reach `max_live_bytes`, an exact search in C++
(`runtime/offset_search.cpp`) follows.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import accumulate
from math import gcd
from pathlib import Path

import numpy as np

from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.native import Part, build_program, has_compiler
from ceras_ir.support.programs import run_program


@dataclass(frozen=True)
class Span:
    """
    A buffer: `size` bytes that must not change from step `lower` on, until before step `upper`. A
    step is the execution of an operation.
    """

    size: int
    lower: int
    upper: int

    @property
    def needs_memory(self) -> bool:
        """Whether the size of the buffer is not 0 and the live range is not empty."""
        return self.size > 0 and self.lower < self.upper

    def overlaps(self, other: "Span") -> bool:
        """
        Return whether both buffers are live at a common step, so that they must not share bytes.
        """
        return self.lower < other.upper and other.lower < self.upper


def aligned(size: int, alignment: int) -> int:
    """Return `size`, rounded up to a multiple of `alignment`."""
    return -(-size // alignment) * alignment


def aligned_spans(spans: Iterable[Span], alignment: int) -> list[Span]:
    """Return copies of the buffers with sizes rounded up to multiples of `alignment` bytes."""
    return [Span(aligned(s.size, alignment), s.lower, s.upper) for s in spans]


def max_live_bytes(spans: Iterable[Span], alignment: int = 1) -> int:
    """
    Return the maximum of bytes that are live at the same step, with sizes rounded up to multiples
    of `alignment`. No memory plan needs less.
    """
    change = Counter[int]()
    for span in aligned_spans(spans, alignment):
        change[span.lower] += span.size
        change[span.upper] -= span.size
    return max(accumulate((change[step] for step in sorted(change)), initial=0))


def gap(peak: int, bound: int) -> float:
    """
    Return the excess of `peak` over the lower bound `bound`, as a fraction of the bound: (110, 100)
    -> 0.1.
    """
    return (peak - bound) / bound if bound else 0.0


def misplaced(
    names: Sequence[object], spans: Sequence[Span], offsets: Sequence[int], capacity: int
) -> list[str]:
    """
    Return the errors of a memory plan: buffers that share bytes while both are live, or that exceed
    `capacity` bytes. `names` identify the buffers in messages. The check compares all pairs and
    shares no code with the planner.
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


MAX_ADDRESS = 1 << 62
"""A number above each capacity and each address."""

_ORDERS: tuple[Callable[[Span], tuple[int, ...]], ...] = (
    lambda b: (-b.size, b.lower),
    lambda b: (-b.size * (b.upper - b.lower), b.lower),
    lambda b: (b.lower - b.upper, -b.size, b.lower),
    lambda b: (b.lower, -b.size),
)
"""
The sort keys by which spans are placed: by decreasing size, decreasing product of size and
duration, decreasing duration, or increasing start.
"""


def first_fit(spans: Sequence[Span], alignment: int) -> tuple[list[int], int]:
    """
    Return the offset in bytes of each buffer, and the bytes that the plan needs, for the best of
    several greedy plans.
    """
    return min(greedy_plans(spans, alignment), key=lambda plan: plan[1])


def greedy_plans(spans: Sequence[Span], alignment: int) -> Iterator[tuple[list[int], int]]:
    """
    Yield several plans: the offset of each buffer, and the bytes that the plan needs. Each plan
    places the buffers in another order, each buffer in the lowest gap that is large enough.
    """
    for order in _ORDERS:
        indices = sorted(range(len(spans)), key=lambda i: (*order(spans[i]), i))
        yield _place(spans, indices, alignment)


def _place(spans: Sequence[Span], order: Sequence[int], alignment: int) -> tuple[list[int], int]:
    offsets = [0] * len(spans)
    # For each placed span: first and last step, first byte, and the next free byte.
    placed = np.zeros((4, len(spans)), np.int64)
    count = peak = 0
    for i in order:
        span = spans[i]
        if not span.needs_memory:
            continue
        lower, upper, begin, end = placed[:, :count]
        meet = np.flatnonzero((lower < span.upper) & (upper > span.lower))
        meet = meet[np.lexsort((end[meet], begin[meet]))]
        # The free bytes before each span, and after all spans, begin at the highest end so far.
        free_from = np.maximum.accumulate(np.append(0, end[meet]))
        fits = begin[meet] - min(span.size, MAX_ADDRESS + 1) >= free_from[:-1]
        offset = int(free_from[int(fits.argmax()) if fits.any() else -1])
        # Offsets beyond each capacity are clamped, so that no sum exceeds 64 bits.
        offsets[i] = min(offset, MAX_ADDRESS)
        free = min(aligned(offset + span.size, alignment), MAX_ADDRESS)
        placed[:, count] = span.lower, span.upper, offsets[i], free
        count += 1
        peak = max(peak, free)
    return offsets, peak


SEARCH_SOURCE = Path(__file__).parent / "runtime" / "offset_search.cpp"
SEARCH_FLAGS = ("-std=c++17", "-O3", "-pthread", "-Wall", "-Wextra", "-Werror")
PARALLEL_SEARCHES = 2
"""Searches in parallel, if the answer can depend on time."""
UNLIMITED = (1 << 62, 1e9)
"""The numbers of nodes and of seconds without a limit."""
MAX_SEARCHED = 2000
"""The largest number of requests for the search, which needs quadratic memory."""
SEARCH_NODES = 300_000
"""Nodes of each search for the plan of a network: about a second for hundreds of values."""


class SearchOutcome(StrEnum):
    """The result of a search for a memory plan."""

    FOUND = "found"
    IMPOSSIBLE = "impossible"
    STOPPED = "stopped"


@dataclass(frozen=True)
class Answer:
    """
    The outcome of a search for a memory plan, and the offset of each buffer if it found a plan.
    """

    outcome: SearchOutcome
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
    Search for offsets at which all buffers fit `capacity` bytes. The search stops after `seconds`
    or after `nodes` nodes of the search tree; a limit of nodes gives equal results on all machines.

    With several `searches`, they run in parallel with different random restarts, and the first to
    finish gives the answer.
    """
    if max_live_bytes(spans) > capacity:
        return Answer(SearchOutcome.IMPOSSIBLE)
    real = [span for span in spans if span.needs_memory]
    if not real:
        return Answer(SearchOutcome.FOUND, (0,) * len(spans))
    if len(real) > MAX_SEARCHED:
        return Answer(SearchOutcome.STOPPED)
    # Sizes and capacity are divided by the common divisor of the sizes.
    unit = gcd(*(span.size for span in real))
    lines = [f"{len(real)} {capacity // unit} {seconds} {nodes} {searches}"]
    lines += [f"{span.lower} {span.upper} {span.size // unit}" for span in real]
    parts = [Part([SEARCH_SOURCE], (), SEARCH_FLAGS)]
    program = build_program("offset_search", "the search for memory plans", parts)
    done = run_program([str(program)], text="\n".join(lines))
    if done.returncode:
        raise InputError(f"the search for memory plans ended with status {done.returncode}")
    word, *numbers = done.stdout.split()
    outcome = SearchOutcome(word)
    if outcome is not SearchOutcome.FOUND:
        return Answer(outcome)
    found = iter(numbers)
    offsets = tuple(int(next(found)) * unit if span.needs_memory else 0 for span in spans)
    if errors := misplaced(range(len(spans)), spans, offsets, capacity):
        raise AssertionError(errors)
    return Answer(outcome, offsets)


def place_quickly(spans: Sequence[Span], capacity: int, *, seconds: float) -> Answer:
    """
    Search for a plan within `capacity` bytes, for at most `seconds`: first greedy plans, then the
    exact search on two processors.
    """
    end = time.monotonic() + seconds
    if max_live_bytes(spans) > capacity:
        return Answer(SearchOutcome.IMPOSSIBLE)
    for offsets, peak in greedy_plans(spans, 1):
        if peak <= capacity:
            return Answer(SearchOutcome.FOUND, tuple(offsets))
        if time.monotonic() > end:
            return Answer(SearchOutcome.STOPPED)
    if not has_compiler():
        return Answer(SearchOutcome.STOPPED)
    left = max(end - time.monotonic(), 0.01)
    return place_within(spans, capacity, seconds=left, searches=PARALLEL_SEARCHES)


@dataclass(frozen=True)
class OffsetPlan:
    """
    The offset in bytes of each buffer, the bytes that the plan needs (`peak`), and a lower bound of
    the bytes of all plans.
    """

    offsets: tuple[int, ...]
    peak: int
    bound: int


def improve(spans: Sequence[Span], plan: OffsetPlan, alignment: int, nodes: int) -> OffsetPlan:
    """
    Return a plan that needs fewer bytes than `plan`, if the exact search finds one, with the best
    proven lower bound. Each search visits at most `nodes` nodes.

    The first search is for a plan at the lower bound, which exists for most networks. The next
    searches bisect between the bound and the best plan.
    """
    rounded = aligned_spans(spans, alignment)
    unit = gcd(*(span.size for span in rounded if span.needs_memory))
    low, best = plan.bound, plan
    target = low
    while low < best.peak:
        answer = place_within(rounded, target, nodes=nodes)
        if answer.outcome is SearchOutcome.FOUND:
            placed = zip(answer.offsets, rounded, strict=True)
            upper_addresses = (o + s.size for o, s in placed if s.needs_memory)
            best = OffsetPlan(answer.offsets, max(upper_addresses), low)
        elif answer.outcome is SearchOutcome.IMPOSSIBLE:
            low = target + unit
        else:
            break
        target = low + (best.peak - low) // 2 // unit * unit
    return OffsetPlan(best.offsets, best.peak, low)


def plan_offsets(spans: Sequence[Span], alignment: int, nodes: int = SEARCH_NODES) -> OffsetPlan:
    """
    Return the best greedy plan of offsets. If it exceeds the lower bound and a C++ compiler is
    installed, an exact search of at most `nodes` nodes tries to improve it.
    """
    offsets, peak = first_fit(spans, alignment)
    plan = OffsetPlan(tuple(offsets), peak, max_live_bytes(spans, alignment))
    if peak > plan.bound:
        if has_compiler():
            return improve(spans, plan, alignment, nodes)
        warn_missing_search()
    return plan


@lru_cache
def warn_missing_search() -> None:
    """
    Warn, a single time, that memory plans can be larger because no C++ compiler is installed for
    the search.
    """
    print(
        "allocate-blocks: warning: no C++ compiler for the exact search, so that plans may be "
        "larger than on a machine with one; install g++, or set CXX",
        file=sys.stderr,
    )
