"""
Exact placement of memory requests, by a search in C++ (`runtime/offset_search.cpp`).

The search decides whether there is a plan of at most so many bytes; the best plan is found
by asking for ever fewer. Limits count search nodes, not seconds, where results must be the
same on every machine.
"""

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from math import gcd
from pathlib import Path

from ceras_ir.support.native import Part, build_program, has_compiler
from ceras_ir.transforms.memory.analysis.offsets import first_fit, greedy_plans
from ceras_ir.transforms.memory.analysis.spans import Span, aligned, misplaced, most_alive

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
