"""
Plan several memories of limited size, so that the first memories carry the most traffic.

A region is a memory of the board. The search assigns each intermediate value to a region, and to
an offset in it.
"""

import heapq
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import TypeAlias

from xdsl.dialects.func import FuncOp
from xdsl.utils.hints import isa

from ceras_ir.dialects.graph.attributes import viewed_operand
from ceras_ir.dialects.mem import regions_of
from ceras_ir.support.diagnostics import (
    MAX_NAME_LENGTH,
    InputError,
    UnsupportedError,
    UsageError,
    node_name,
    printable,
    with_remedy,
)
from ceras_ir.support.files import parse_toml
from ceras_ir.support.native import has_compiler
from ceras_ir.support.user_files import read_text
from ceras_ir.targets.board_files import board_field, read_fields
from ceras_ir.targets.registry import all_targets
from ceras_ir.transforms.memory import offsets
from ceras_ir.transforms.memory.liveness import Buffer, Liveness, byte_size, steps, value_name
from ceras_ir.transforms.memory.offsets import OffsetPlan, SearchOutcome, Span, aligned_spans

MAX_REGION_BYTES = 1 << 48


@dataclass(frozen=True)
class Region:
    """
    A memory of a board (a region of the arena) with `capacity` bytes. `bytes_per_us` is the
    bandwidth in bytes per microsecond, or `None` if it is unknown.
    """

    name: str
    capacity: int
    bytes_per_us: float | None = None


@dataclass(frozen=True)
class RegionFields:
    """A memory of a board file. The order of memories is the order of preference."""

    name: str = board_field(example='"sram"')
    """The name, which consists of letters, digits and `_`."""
    bytes: int = board_field(minimum=1, maximum=MAX_REGION_BYTES, example="262144")
    """The capacity."""
    bytes_per_us: float | None = board_field(None, is_positive=True)
    """The bandwidth, if it is known."""


@dataclass(frozen=True)
class Memory:
    """The memories of a board."""

    region: tuple[RegionFields, ...] = board_field()
    """A memory for `--allocate-blocks`. Repeat the table, the preferred memory first."""


def parse_regions(texts: Sequence[str]) -> list[Region]:
    """
    Parse memories given as `NAME:BYTES` or `NAME:BYTES:BYTES_PER_US`, the preferred memory first.
    Raise `UsageError` for other texts.
    """
    found: list[Region] = []
    for text in texts:
        name, *numbers = text.split(":")
        try:
            if not 1 <= len(numbers) <= 2:
                raise ValueError
            rate = float(numbers[1]) if len(numbers) == 2 else None
            found.append(Region(name, int(numbers[0]), rate))
        except ValueError:
            raise UsageError(
                f"regions must be NAME:BYTES or NAME:BYTES:BYTES_PER_US, got '{text}'"
            ) from None
    if (wrong := _problem(found)) is not None:
        raise UsageError(f"regions: {wrong}")
    return found


def refuse_regions(main: FuncOp, target: str) -> None:
    """
    Raise `UnsupportedError` if the memory plan of `main` has several memories. A target with a
    single memory, named `target` in the message, calls it.
    """
    if regions := regions_of(main):
        names = ", ".join(region.region.data for region in regions)
        raise UnsupportedError(
            f"unsupported: target {target} has a single arena, but the plan has the regions "
            f"{names}; run --allocate-blocks without regions"
        )


def board_regions(name: str) -> list[Region]:
    """
    Return the memories of the board `name`, in the order of preference. It is a board of this
    package, or a TOML file with `[[memory.region]]` tables.
    """
    try:
        text = read_text(name) if name.endswith(".toml") else _board_file(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = with_remedy(error, name) if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"cannot read the board: {reason}", name) from None
    memory = parse_toml(text, name).get("memory")
    if not isa(memory, dict[str, object]) or not memory.get("region"):
        raise InputError("the board has no tables [[memory.region]]", name)
    tables = read_fields(Memory, memory, name, "memory").region
    found = [Region(table.name, table.bytes, table.bytes_per_us) for table in tables]
    if (wrong := _problem(found)) is not None:
        raise InputError(wrong, name)
    return found


def _board_file(name: str) -> Traversable:
    for target in all_targets():
        if name in (boards := target.boards()):
            return boards[name]
    raise FileNotFoundError(2, "no such board", name)


def _problem(regions: Sequence[Region]) -> str | None:
    for i, region in enumerate(regions):
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", region.name):
            return f"a region needs a name of letters, digits and _, got '{region.name}'"
        # In C, names become macros in upper case.
        if any(region.name.lower() == earlier.name.lower() for earlier in regions[:i]):
            return f"two regions have the name '{region.name}'"
        if not 1 <= region.capacity <= MAX_REGION_BYTES:
            return f"region '{region.name}' must have 1 to 2^48 bytes, got {region.capacity}"
        if region.bytes_per_us is not None and not 0 < region.bytes_per_us < 1e12:
            return f"bytes_per_us of region '{region.name}' must be above 0"
    return None


MAX_STATES = 4096
"""
The maximum number of states that the dynamic program keeps in each step; the best states are kept.
"""
MAX_CHOICES = 200
"""The maximum number of choices that are tried in total."""
MAX_EXCLUDED = 24
"""
The maximum number of requests in a set that branching excludes; for a larger set, the limit is
reduced.
"""
MAX_REDUCTIONS = 32
"""The maximum number of reductions of the limits of regions."""

Traffic: TypeAlias = tuple[int, ...]
"""Bytes read and written in each region; the lexicographically larger traffic is better."""


@dataclass(frozen=True)
class RegionChoice:
    """
    The index of the memory (region) of each buffer, and the bytes of traffic of each memory.
    `proven` means that no other choice has more traffic in the preferred memories.
    """

    places: tuple[int, ...]
    traffic: Traffic
    proven: bool


@dataclass(frozen=True)
class RegionPlan:
    """
    A choice of the memory (region) of each buffer, and for each memory a plan with the offsets in
    bytes of the buffers in it, in their order.
    """

    choice: RegionChoice
    plans: tuple[OffsetPlan, ...]
    bound: Traffic | None
    """The traffic of the best choice by live bytes: an upper bound for the first region."""


_Link: TypeAlias = "tuple[_Link | None, int]"


def choose(
    spans: Sequence[Span],
    traffic: Sequence[int],
    capacities: Sequence[int],
    allowed: Sequence[Sequence[int]],
    states: int = MAX_STATES,
) -> RegionChoice | None:
    """
    Choose a memory (region) for each buffer, so that the first memories have the most traffic. The
    live bytes of a memory never exceed its capacity; offsets are not chosen. Return `None` if the
    search finds no choice.

    `traffic` has the bytes that each buffer transfers, and `allowed` the memories that each buffer
    may use. The search is a dynamic program over time, with at most `states` states, which are the
    memories of the live buffers.
    """
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
    return RegionChoice(tuple(places), value, proven)


def plan_regions(
    spans: Sequence[Span], traffic: Sequence[int], capacities: Sequence[int], alignment: int
) -> RegionPlan | None:
    """
    Return the plan of all memories (regions) in which the first memories have the most traffic, or
    `None` if the search finds no plan. `traffic` has the bytes that each buffer transfers.

    Each memory of the best choice by live bytes is planned separately. If a memory has no plan
    within its capacity, this set of buffers is excluded, and the next best choice follows. The
    first choice with a plan is therefore optimal, unless a limit was reached. Capacities are
    rounded down to multiples of `alignment`.
    """
    rounded = aligned_spans(spans, alignment)
    limits = [capacity // alignment * alignment for capacity in capacities]
    everywhere = tuple(range(len(limits)))
    first = choose(rounded, traffic, limits, [everywhere] * len(spans))
    if first is None:
        return None
    bound = first.traffic if first.proven else None
    proven, count = first.proven, 1
    queue = [(_worse(first), 0, first, [everywhere] * len(spans))]
    while queue and count < MAX_CHOICES:
        _, _, choice, allowed = heapq.heappop(queue)
        plans, bad = _place_all(rounded, choice, limits, alignment)
        if bad is None:
            return RegionPlan(RegionChoice(choice.places, choice.traffic, proven), plans, bound)
        # A search that reached the limit does not prove that the set has no plan.
        proven = proven and plans[bad].bound > limits[bad]
        members = [i for i, place in enumerate(choice.places) if place == bad]
        if len(members) > MAX_EXCLUDED:
            break
        for n, i in enumerate(members):
            fewer = list(allowed)
            for earlier in members[:n]:
                fewer[earlier] = (bad,)
            fewer[i] = tuple(r for r in allowed[i] if r != bad)
            count += 1
            if (more := choose(rounded, traffic, limits, fewer)) is not None:
                heapq.heappush(queue, (_worse(more), count, more, fewer))
    return _tightened(rounded, traffic, limits, alignment, first)


def _tightened(
    spans: Sequence[Span],
    traffic: Sequence[int],
    limits: Sequence[int],
    alignment: int,
    first: RegionChoice,
) -> RegionPlan | None:
    # Reduce the limits of regions that do not fit, without a proof of optimality.
    tight, choice = list(limits), first
    everywhere = tuple(range(len(limits)))
    bound = first.traffic if first.proven else None
    for _ in range(MAX_REDUCTIONS):
        plans, bad = _place_all(spans, choice, limits, alignment)
        if bad is None:
            return RegionPlan(RegionChoice(choice.places, choice.traffic, False), plans, bound)
        over = max(plans[bad].peak - limits[bad], limits[bad] // 100)
        tight[bad] = max(tight[bad] - offsets.aligned(over, alignment), 0)
        if (tighter := choose(spans, traffic, tight, [everywhere] * len(spans))) is None:
            return None
        choice = tighter
    return None


def min_capacity(
    spans: Sequence[Span], capacities: Sequence[int], region: int, alignment: int
) -> int:
    """
    Return the smallest capacity in bytes of the memory with index `region` for which all live
    buffers fit, if the other memories have the given `capacities`. Gaps between offsets are
    ignored, so it is a lower bound.
    """
    rounded = aligned_spans(spans, alignment)
    limits = [capacity // alignment * alignment for capacity in capacities]
    allowed = [tuple(range(len(limits)))] * len(spans)
    low, high = 0, offsets.max_live_bytes(rounded) // alignment
    while low < high:
        middle = (low + high) // 2
        limits[region] = middle * alignment
        if choose(rounded, [0] * len(spans), limits, allowed) is None:
            low = middle + 1
        else:
            high = middle
    return high * alignment


def _worse(choice: RegionChoice) -> Traffic:
    return tuple(-bytes_ for bytes_ in choice.traffic)


def _place_all(
    spans: Sequence[Span], choice: RegionChoice, limits: Sequence[int], alignment: int
) -> tuple[tuple[OffsetPlan, ...], int | None]:
    # A plan of each region, and the first region with a plan that does not fit.
    plans: list[OffsetPlan] = []
    for region, limit in enumerate(limits):
        members = [s for s, place in zip(spans, choice.places, strict=True) if place == region]
        plan = offsets.plan_offsets(members, alignment)
        if plan.bound <= limit < plan.peak and has_compiler():
            answer = offsets.place_within(members, limit, nodes=offsets.SEARCH_NODES)
            if answer.outcome is SearchOutcome.FOUND:
                upper_addresses = (o + s.size for o, s in zip(answer.offsets, members, strict=True))
                plan = OffsetPlan(answer.offsets, max(upper_addresses), plan.bound)
            elif answer.outcome is SearchOutcome.IMPOSSIBLE:
                plan = OffsetPlan(plan.offsets, plan.peak, limit + alignment)
        plans.append(plan)
    bad = next((r for r, plan in enumerate(plans) if plan.peak > limits[r]), None)
    return tuple(plans), bad


def traffic_of(main: FuncOp, liveness: Liveness) -> list[int]:
    """
    Return the bytes that an inference reads from and writes to each buffer. Each operation reads
    all operands and writes all results a single time; a reshape has no traffic.
    """
    moved = {id(buffer): 0 for buffer in liveness.buffers}
    for op in steps(main):
        if (source := viewed_operand(op)) is not None:
            buffer = liveness.by_value.get(source)
            if buffer is not None and buffer is liveness.by_value.get(op.results[0]):
                continue
        for value in (*dict.fromkeys(op.operands), *op.results):
            if (buffer := liveness.by_value.get(value)) is not None:
                moved[id(buffer)] += byte_size(value)
    return [moved[id(buffer)] for buffer in liveness.buffers]


def plan_in_regions(
    main: FuncOp, liveness: Liveness, regions: Sequence[Region], alignment: int
) -> RegionPlan:
    """
    Return a memory plan within the capacities of the memories (regions). Raise an `InputError` with
    the missing bytes if no plan is found.
    """
    capacities = [region.capacity for region in regions]
    plan = plan_regions(liveness.spans, traffic_of(main, liveness), capacities, alignment)
    if plan is None:
        raise InputError(_refusal(main, liveness, regions, alignment))
    return plan


def describe_regions(regions: Sequence[Region], plan: RegionPlan) -> list[str]:
    """
    Return lines that report the used bytes and the traffic of each memory (region), and an upper
    bound of the traffic of the first memory.
    """
    places, traffic = plan.choice.places, plan.choice.traffic
    total = max(sum(traffic), 1)
    lines: list[str] = []
    for i, (region, found) in enumerate(zip(regions, plan.plans, strict=True)):
        count = places.count(i)
        noun = "buffer" if count == 1 else "buffers"
        line = (
            f"region {region.name}: peak {found.peak:,} of {region.capacity:,} bytes, lower bound "
            f"{found.bound:,}, gap {offsets.gap(found.peak, found.bound):.2%}; {count} {noun}, "
            f"traffic {traffic[i]:,} bytes ({traffic[i] / total:.1%})"
        )
        if region.bytes_per_us is not None:
            line += f", {traffic[i] / region.bytes_per_us:,.1f} us"
        lines.append(line)
    if plan.choice.proven:
        lines.append(f"no plan has more traffic in {regions[0].name}")
    elif plan.bound is not None:
        lines.append(f"no plan has more than {plan.bound[0]:,} bytes of it in {regions[0].name}")
    return lines


def _refusal(main: FuncOp, liveness: Liveness, regions: Sequence[Region], alignment: int) -> str:
    capacities = [region.capacity for region in regions]
    largest = max(range(len(regions)), key=lambda i: (capacities[i], i))
    region = regions[largest]
    needed = min_capacity(liveness.spans, capacities, largest, alignment)
    text = f"region '{region.name}' of {region.capacity:,} bytes is too small: "
    if needed > capacities[largest] // alignment * alignment:
        text += f"it needs at least {needed:,} bytes"
    else:
        text += f"live values need {needed:,}, but no offsets were found that fit"
    if len(regions) > 1:
        text += ", if all other regions are full: " + ", ".join(
            f"'{each.name}' ({each.capacity:,})" for each in regions if each is not region
        )
    if not (order := steps(main)):
        return text

    def alive(step: int) -> list[Buffer]:
        return [b for b in liveness.buffers if b.lower <= step < b.upper]

    def name(buffer: Buffer) -> str:
        return printable(value_name(main, buffer.values[0]), MAX_NAME_LENGTH)

    busiest = max(range(len(order)), key=lambda step: sum(b.size for b in alive(step)))
    top = sorted(alive(busiest), key=lambda b: -b.size)[:3]
    values = ", ".join(f"'{name(b)}' ({b.size:,} bytes)" for b in top)
    where = printable(node_name(order[busiest]), MAX_NAME_LENGTH)
    return f"{text}; the largest values alive at '{where}': {values}"
