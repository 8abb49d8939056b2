"""
Which memory request goes to which region, so that the first regions carry the most traffic.

Capacities are first held against the bytes alive in a region, without offsets: a dynamic
program over the time line, whose state is where each living request is, finds the best such
choice. Then every region is placed by itself; if one does not fit, the set of requests in it is
excluded by branching, the best choice that is left first. So the first choice that fits is the
best, as long as no limit was met.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ceras_ir.support.native import has_compiler
from ceras_ir.transforms.memory.analysis.exact_offsets import (
    SEARCH_NODES,
    Outcome,
    Plan,
    place_within,
    plan_offsets,
)
from ceras_ir.transforms.memory.analysis.spans import Span, aligned, most_alive

STATES = 4096
"""States of one step that the dynamic program keeps; the best where there are more."""
BRANCHES = 200
"""Choices that are looked at in all."""
MOST_MEMBERS = 24
"""Requests of a region whose set is excluded by branching; of larger ones, all is made tighter."""
TIGHTER = 32
"""How often a region is made tighter."""

Traffic: TypeAlias = tuple[int, ...]
"""Bytes read and written in each region: of two choices the lexicographically larger is better."""


@dataclass(frozen=True)
class Choice:
    """A region for each request; `proven` says that no other choice has more traffic."""

    places: tuple[int, ...]
    traffic: Traffic
    proven: bool


@dataclass(frozen=True)
class RegionPlan:
    """A choice with a plan of each region, whose offsets are those of its requests in order."""

    choice: Choice
    plans: tuple[Plan, ...]
    bound: Traffic | None
    """The traffic of the best choice by bytes alive: the first region carries no more."""


_Link: TypeAlias = "tuple[_Link | None, int]"


def choose(
    spans: Sequence[Span],
    traffic: Sequence[int],
    capacities: Sequence[int],
    allowed: Sequence[Sequence[int]],
    states: int = STATES,
) -> Choice | None:
    """The best regions by bytes alive alone; None if there are none (or none was found)."""
    order = sorted(range(len(spans)), key=lambda i: (spans[i].lower, -spans[i].size, i))
    front: dict[tuple[int, ...], tuple[Traffic, _Link | None]]
    front = {(): ((0,) * len(capacities), None)}
    alive: list[int] = []
    proven = True
    for i in order:
        kept = [p for p, j in enumerate(alive) if spans[j].upper > spans[i].lower]
        alive = [alive[p] for p in kept]
        after: dict[tuple[int, ...], tuple[Traffic, _Link | None]] = {}
        for state, (value, link) in front.items():
            rest = tuple(state[p] for p in kept)
            free = list(capacities)
            for region, j in zip(rest, alive, strict=True):
                free[region] -= spans[j].size
            for region in allowed[i]:
                if spans[i].size > free[region]:
                    continue
                gained = (*value[:region], value[region] + traffic[i], *value[region + 1 :])
                known = after.get((*rest, region))
                if known is None or gained > known[0]:
                    after[(*rest, region)] = gained, (link, region)
        if len(after) > states:
            proven = False
            after = dict(heapq.nlargest(states, after.items(), key=lambda entry: entry[1][0]))
        alive.append(i)
        front = after
    if not front:
        return None
    value, link = max(front.values(), key=lambda entry: entry[0])
    places = [0] * len(spans)
    for i in reversed(order):
        assert link is not None
        link, places[i] = link
    return Choice(tuple(places), value, proven)


def plan_regions(
    spans: Sequence[Span], traffic: Sequence[int], capacities: Sequence[int], alignment: int
) -> RegionPlan | None:
    """
    The plan whose first regions carry the most traffic, or None if there is none or none was
    found. Capacities are rounded down to `alignment`.
    """
    rounded = [Span(aligned(s.size, alignment), s.lower, s.upper) for s in spans]
    limits = [capacity // alignment * alignment for capacity in capacities]
    everywhere = tuple(range(len(limits)))
    first = choose(rounded, traffic, limits, [everywhere] * len(spans))
    if first is None:
        return None
    bound = first.traffic if first.proven else None
    proven, count = first.proven, 1
    queue = [(_worse(first), 0, first, [everywhere] * len(spans))]
    while queue and count < BRANCHES:
        _, _, choice, allowed = heapq.heappop(queue)
        plans, bad = _place_all(rounded, choice, limits, alignment)
        if bad is None:
            return RegionPlan(Choice(choice.places, choice.traffic, proven), plans, bound)
        # A search that met its limit has not shown that the set has no plan.
        proven = proven and plans[bad].bound > limits[bad]
        members = [i for i, place in enumerate(choice.places) if place == bad]
        if len(members) > MOST_MEMBERS:
            break
        for n, i in enumerate(members):
            fewer = list(allowed)
            for earlier in members[:n]:
                fewer[earlier] = (bad,)
            fewer[i] = tuple(r for r in allowed[i] if r != bad)
            count += 1
            if (other := choose(rounded, traffic, limits, fewer)) is not None:
                heapq.heappush(queue, (_worse(other), count, other, fewer))
    return _tightened(rounded, traffic, limits, alignment, first)


def _tightened(
    spans: Sequence[Span],
    traffic: Sequence[int],
    limits: Sequence[int],
    alignment: int,
    first: Choice,
) -> RegionPlan | None:
    """A plan found by pretending that regions which do not fit are smaller; no proof."""
    tight, choice = list(limits), first
    everywhere = tuple(range(len(limits)))
    bound = first.traffic if first.proven else None
    for _ in range(TIGHTER):
        plans, bad = _place_all(spans, choice, limits, alignment)
        if bad is None:
            return RegionPlan(Choice(choice.places, choice.traffic, False), plans, bound)
        over = max(plans[bad].peak - limits[bad], limits[bad] // 100)
        tight[bad] = max(tight[bad] - aligned(over, alignment), 0)
        tighter = choose(spans, traffic, tight, [everywhere] * len(spans))
        if tighter is None:
            return None
        choice = tighter
    return None


def least_capacity(
    spans: Sequence[Span], capacities: Sequence[int], region: int, alignment: int
) -> int:
    """Bytes below which `region` cannot hold what the others cannot, offsets not considered."""
    rounded = [Span(aligned(s.size, alignment), s.lower, s.upper) for s in spans]
    limits = [capacity // alignment * alignment for capacity in capacities]
    allowed = [tuple(range(len(limits)))] * len(spans)
    low, high = 0, most_alive(rounded) // alignment
    while low < high:
        limits[region] = (low + high) // 2 * alignment
        if choose(rounded, [0] * len(spans), limits, allowed) is None:
            low = (low + high) // 2 + 1
        else:
            high = (low + high) // 2
    return high * alignment


def _worse(choice: Choice) -> Traffic:
    return tuple(-bytes_ for bytes_ in choice.traffic)


def _place_all(
    spans: Sequence[Span], choice: Choice, limits: Sequence[int], alignment: int
) -> tuple[tuple[Plan, ...], int | None]:
    """A plan of each region, and the first region that it does not fit."""
    plans: list[Plan] = []
    for region, limit in enumerate(limits):
        own = [s for s, place in zip(spans, choice.places, strict=True) if place == region]
        plan = plan_offsets(own, alignment)
        if plan.bound <= limit < plan.peak and has_compiler():
            answer = place_within(own, limit, nodes=SEARCH_NODES)
            if answer.outcome is Outcome.FOUND:
                ends = (o + s.size for o, s in zip(answer.offsets, own, strict=True))
                plan = Plan(answer.offsets, max(ends), plan.bound)
            elif answer.outcome is Outcome.IMPOSSIBLE:
                plan = Plan(plan.offsets, plan.peak, limit + alignment)
        plans.append(plan)
    bad = next((r for r, plan in enumerate(plans) if plan.peak > limits[r]), None)
    return tuple(plans), bad
