"""
Plans for several memories with hard limits of size, which a network may use together.

A request goes to a region by a search, so that the first regions carry the most traffic. The last
part describes the plan, or the reason why there is none.
"""

import heapq
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TypeAlias

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.utils.hints import isa

from ceras_ir.dialects.graph.attributes import viewed_operand
from ceras_ir.dialects.mem import regions_of
from ceras_ir.network.function import input_names
from ceras_ir.support.diagnostics import (
    InputError,
    UnsupportedError,
    UsageError,
    node_name,
    printable,
    with_remedy,
)
from ceras_ir.support.files import parse_toml
from ceras_ir.support.native import has_compiler
from ceras_ir.targets.registry import all_targets
from ceras_ir.transforms.memory.liveness import Buffer, Liveness, byte_size, steps
from ceras_ir.transforms.memory.offsets import (
    SEARCH_NODES,
    Outcome,
    Plan,
    Span,
    aligned,
    gap,
    most_alive,
    place_within,
    plan_offsets,
)

# Memories with hard caps that a network may use together, in the order of preference.
#
# Given as text (`bram:1048576,ddr:4194304`) or by the `[[memory.region]]` tables of a board.

FIELDS = ("name", "bytes", "bytes_per_us")
MOST_BYTES = 1 << 48


@dataclass(frozen=True)
class Region:
    """A memory of `capacity` bytes; `bytes_per_us` is its bandwidth, if that is known."""

    name: str
    capacity: int
    bytes_per_us: float | None = None


def parse_regions(texts: Sequence[str]) -> list[Region]:
    """Regions spelled `NAME:BYTES` or `NAME:BYTES:BYTES_PER_US`, the preferred one first."""
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
                f"regions: one is NAME:BYTES or NAME:BYTES:BYTES_PER_US, got '{text}'"
            ) from None
    if (wrong := _problem(found)) is not None:
        raise UsageError(f"regions: {wrong}")
    return found


def refuse_regions(main: FuncOp, target: str) -> None:
    """Refuse a plan of several regions, for a target whose memory is one."""
    if regions := regions_of(main):
        names = ", ".join(region.region.data for region in regions)
        raise UnsupportedError(
            f"unsupported: target {target} has one arena, but the plan is for the regions {names}; "
            "run --allocate-blocks without regions"
        )


def board_regions(name: str) -> list[Region]:
    """The regions of a board of this package by name, or of one described in a TOML file."""
    try:
        if name.endswith(".toml"):
            text = Path(name).read_text(encoding="utf-8")
        else:
            text = _board_file(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = with_remedy(error, name) if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"cannot read the board: {reason}", name) from None
    memory = parse_toml(text, name).get("memory")
    tables = memory.get("region") if isa(memory, dict[str, object]) else None
    if not isa(tables, list[dict[str, object]]) or not tables:
        raise InputError("the board has no tables [[memory.region]]", name)
    found = [_region(table, name) for table in tables]
    if (wrong := _problem(found)) is not None:
        raise InputError(wrong, name)
    return found


def _board_file(name: str) -> Traversable:
    """The description of a board that some target has."""
    for target in all_targets():
        if name in (boards := target.boards()):
            return boards[name]
    raise FileNotFoundError(2, "no such board", name)


def _region(table: dict[str, object], file: str) -> Region:
    for field in table:
        if field not in FIELDS:
            known = ", ".join(FIELDS)
            raise InputError(f"memory.region has no field '{field}' (fields: {known})", file)
    name, capacity, rate = (table.get(field) for field in FIELDS)
    if not isinstance(name, str):
        raise InputError(f"name of a memory.region must be text, got {name!r}", file)
    if not isinstance(capacity, int) or isinstance(capacity, bool):
        raise InputError(f"bytes of region '{name}' must be an integer, got {capacity!r}", file)
    match rate:
        case None:
            return Region(name, capacity)
        case int() | float() if not isinstance(rate, bool):
            return Region(name, capacity, float(rate))
        case _:
            raise InputError(f"bytes_per_us of '{name}' must be a number, got {rate!r}", file)


def _problem(regions: Sequence[Region]) -> str | None:
    """What is wrong with the values, wherever they came from."""
    for i, region in enumerate(regions):
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", region.name):
            return f"a region needs a name of letters, digits and _, got '{region.name}'"
        # In C they are macros, which are upper case.
        if any(region.name.lower() == other.name.lower() for other in regions[:i]):
            return f"two regions are called '{region.name}'"
        if not 1 <= region.capacity <= MOST_BYTES:
            return f"region '{region.name}' must have 1 to 2^48 bytes, got {region.capacity}"
        if region.bytes_per_us is not None and not 0 < region.bytes_per_us < 1e12:
            return f"bytes_per_us of region '{region.name}' must be above 0"
    return None


# Which memory request goes to which region, so that the first regions carry the most traffic.
#
# Capacities are first held against the bytes alive in a region, without offsets: a dynamic
# program over the time line, whose state is where each living request is, finds the best such
# choice. Then every region is placed by itself; if one does not fit, the set of requests in it is
# excluded by branching, the best choice that is left first. So the first choice that fits is the
# best, as long as no limit was met.

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


# The values of a network in several memories: bytes moved, what is said of a plan, and why there
# is none.
#
# Traffic is what operations read and write: each operand once per operation that reads it and
# each result once. A reshape moves nothing.


def traffic_of(main: FuncOp, liveness: Liveness) -> list[int]:
    """Bytes that one inference reads from and writes to each buffer."""
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
    """A plan in which no region holds more than it has; an error says what is missing."""
    capacities = [region.capacity for region in regions]
    traffic = traffic_of(main, liveness)
    plan = plan_regions(liveness.spans, traffic, capacities, alignment)
    if plan is None:
        raise InputError(_why_not(main, liveness, regions, alignment))
    return plan


def describe_regions(regions: Sequence[Region], plan: RegionPlan) -> list[str]:
    """A line for each region, and one on how much more the first could carry."""
    places, traffic = plan.choice.places, plan.choice.traffic
    total = max(sum(traffic), 1)
    lines: list[str] = []
    for i, (region, own) in enumerate(zip(regions, plan.plans, strict=True)):
        count = places.count(i)
        noun = "buffer" if count == 1 else "buffers"
        line = (
            f"region {region.name}: peak {own.peak:,} of {region.capacity:,} bytes, lower bound "
            f"{own.bound:,}, gap {gap(own.peak, own.bound):.2%}; {count} {noun}, "
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


def _why_not(main: FuncOp, liveness: Liveness, regions: Sequence[Region], alignment: int) -> str:
    """The largest region, what it would have to hold, and what is so large."""
    capacities = [region.capacity for region in regions]
    largest = max(range(len(regions)), key=lambda i: (capacities[i], i))
    region = regions[largest]
    needed = least_capacity(liveness.spans, capacities, largest, alignment)
    text = f"region '{region.name}' of {region.capacity:,} bytes is too small: "
    if needed > capacities[largest] // alignment * alignment:
        text += f"it needs at least {needed:,} bytes"
    else:
        text += f"bytes alive need {needed:,}, but no offsets were found with which they fit"
    if len(regions) > 1:
        text += ", with as much as fits in " + ", ".join(
            f"'{other.name}' ({other.capacity:,})" for other in regions if other is not region
        )
    if not (order := steps(main)):
        return text

    def alive(step: int) -> list[Buffer]:
        return [b for b in liveness.buffers if b.lower <= step < b.upper]

    busiest = max(range(len(order)), key=lambda step: sum(b.size for b in alive(step)))
    top = sorted(alive(busiest), key=lambda b: -b.size)[:3]
    values = ", ".join(f"'{_name(main, b)}' ({b.size:,} bytes)" for b in top)
    where = printable(node_name(order[busiest]), 200)
    return f"{text}; the largest values alive at '{where}': {values}"


def _name(main: FuncOp, buffer: Buffer) -> str:
    owner = buffer.values[0].owner
    if isinstance(owner, Operation):
        return printable(node_name(owner), 200)
    return printable(input_names(main)[main.body.block.args.index(buffer.values[0])], 200)
