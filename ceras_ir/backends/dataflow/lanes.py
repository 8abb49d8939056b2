"""
Choose lanes, the parallel multipliers of each layer, for the shortest time per frame that fits the
chip.

All layers work in parallel, so the slowest layer sets the time. For a given time, each layer uses
the cheapest lanes that reach it. Bisection over the possible times of the layers finds the time.
The cost of lanes depends on the scarce resource, so several prices are tried.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import NoReturn

from ceras_ir.backends.dataflow.blocks import Block, Convolution, Pipeline
from ceras_ir.backends.dataflow.board import DataflowBoard, Family, Objective
from ceras_ir.backends.dataflow.convolution_cycles import lane_cycles
from ceras_ir.backends.dataflow.cycles import model, port_cycles
from ceras_ir.backends.dataflow.latency import Planned, fastest
from ceras_ir.backends.dataflow.plan import (
    BlockLanes,
    PipelinePlan,
    PlannedConvolution,
    batches,
    good_slots,
)
from ceras_ir.backends.dataflow.resources import Resources, convolution, estimate, total
from ceras_ir.backends.dataflow.rings import with_rings
from ceras_ir.backends.dataflow.storage import ceiling
from ceras_ir.backends.dataflow.weights import WeightEncoding, encodings_of
from ceras_ir.dialects.quant import BYTE_BITS
from ceras_ir.support.diagnostics import Finding, UnsupportedError

MAX_LUT_SHARE = 0.75
"""The share of the lookup tables of a chip that circuits may use, so that a router finds wires."""
MAX_LANE_ROWS = 16
MAX_LANE_PARTS = 32
"""The limit of parts: the words of a memory of lookup tables, which stores a sum per part."""
MAX_LANE_FILTERS = 1024
MAX_LANE_TERMS = 64
MAX_PLACES = 64
"""The maximum number of sums that a lane adds in turn, with weights in the order of rows."""
MAX_BANK_WORDS = 1 << 16
"""Addresses of rows have 16 bits."""
MIN_PRODUCT_BITS = 9
"""The bits of a product from which `yosys` uses a multiplier of the FPGA."""
PRICES = (
    (1.0, 1.0, 1.0), (4.0, 1.0, 1.0), (1.0, 4.0, 1.0), (1.0, 1.0, 4.0),
    (64.0, 1.0, 1.0), (1.0, 64.0, 1.0), (1.0, 1.0, 64.0),
)  # fmt: skip
"""
The tried prices of multipliers, memories and lookup tables; each is the price of all that the
budget has.
"""


LATENCY_STEP = 1.15
"""The ratio of the cycles of two choices of lanes that a search for the latency distinguishes."""
LATENCY_STARTS = (1.1, 1.3)
"""
The starts of this search: the time of the slowest layer, over that of the plan for throughput. The
resources that remain make those layers faster for which the result waits.
"""
MAX_LATENCY_ROWS = 4
"""The maximum number of rows in parallel in this search: layers wait for all rows of a group."""


@dataclass(frozen=True)
class LaneChoice:
    """
    A possible choice of lanes for a layer, with the cycles per frame and the resources that it
    needs.
    """

    cycles: int
    resources: Resources
    planned: PlannedConvolution


@dataclass(frozen=True)
class Budget:
    """The numbers of multipliers, memories of 18 kbit and lookup tables that a circuit may use."""

    dsp: int
    ram18: int
    lut: int

    @classmethod
    def of(cls, board: DataflowBoard, dsp: int = 0, ram18: int = 0) -> "Budget":
        """
        Return the resources of a board, or less: `dsp` and `ram18` are limits of the user unless
        they are 0.
        """
        return cls(
            min(board.dsp, dsp or board.dsp),
            min(board.ram18, ram18 or board.ram18),
            int(board.lut * MAX_LUT_SHARE),
        )

    def holds(self, r: Resources) -> bool:
        return r.dsp <= self.dsp and r.ram18 <= self.ram18 and r.lut <= self.lut

    def price(self, r: Resources, prices: Sequence[float]) -> float:
        """
        Return the cost of `r`, to compare choices: the sum of the shares of the budget that it
        uses, each multiplied by the price of multipliers, memories or lookup tables.
        """
        shares = (r.dsp / self.dsp, r.ram18 / self.ram18, r.lut / self.lut)
        return sum(price * share for price, share in zip(prices, shares, strict=True))


def choices(layer: Convolution, family: Family, *, for_latency: bool = False) -> list[LaneChoice]:
    """
    Return possible lanes of a layer, the fastest first. A choice is omitted if another is at least
    as good in all of cycles, DSPs, block RAMs and LUTs. With `for_latency`, there are also choices
    with weights in the order of rows, and a choice is only omitted if another has no more rows and
    channels in parallel, for which the first result waits, and the same order.
    """
    found: list[LaneChoice] = []
    pairs = family.paired
    # The batches of the producer are not known yet.
    single = [range(row, row + 1) for row in range(layer.input.rows)]
    slots: dict[int, int] = {}
    for lanes in _candidates(layer, for_latency=for_latency):
        if lanes.rows not in slots:
            buffer = PlannedConvolution(layer, lanes, pairs).buffer
            slots[lanes.rows] = good_slots(buffer, single)
        planned = PlannedConvolution(layer, replace(lanes, slots=slots[lanes.rows]), pairs)
        if planned.buffer.depth > MAX_BANK_WORDS or planned.places > MAX_PLACES:
            continue
        resources = convolution(planned, family).resources()
        found.append(LaneChoice(lane_cycles(planned), resources, planned))
    found.sort(key=lambda c: (c.cycles, c.resources.dsp, c.resources.ram18, c.resources.lut))
    kept: list[LaneChoice] = []
    for choice in found:
        planned = choice.planned
        if not any(
            _uses_no_more(other.resources, choice.resources)
            and (not for_latency or _waits_no_longer(other.planned.lanes, planned.lanes))
            and other.planned.is_by_row >= planned.is_by_row
            for other in kept
        ):
            kept.append(choice)
    return kept


def _uses_no_more(a: Resources, b: Resources) -> bool:
    return a.dsp <= b.dsp and a.ram18 <= b.ram18 and a.lut <= b.lut


def _waits_no_longer(a: BlockLanes, b: BlockLanes) -> bool:
    return a.rows <= b.rows and a.terms <= b.terms


def _distinct_sizes(extent: int, start: int, limit: int) -> list[int]:
    # For each number of groups, only the smallest size that needs no more groups.
    sizes = range(start, min(extent, limit) + 1)
    return sorted({ceiling(extent, ceiling(extent, size)) for size in sizes})


def _candidates(layer: Convolution, *, for_latency: bool) -> list[BlockLanes]:
    filters = len(layer.weights)
    per_group = filters // layer.groups
    counts = _distinct_sizes(filters, 1, MAX_LANE_FILTERS)
    if layer.groups > 1:
        counts = [n for n in range(1, min(per_group, MAX_LANE_FILTERS) + 1) if per_group % n == 0]
    rows = _distinct_sizes(layer.feature.rows, 1, MAX_LANE_ROWS)
    parts = _distinct_sizes(layer.feature.columns, 2, MAX_LANE_PARTS)
    shapes = [*((r, 1) for r in rows), *((1, p) for p in parts)]
    encodings = encodings_of(layer) + [WeightEncoding.BY_ROW] * for_latency
    return [
        BlockLanes(r, n, encoding, parts=p, in_tables=in_tables, terms=terms)
        for r, p in shapes
        for n in counts
        for encoding in encodings
        for in_tables, terms in _multiplications(layer, encoding)
    ]


def _multiplications(layer: Convolution, encoding: WeightEncoding) -> list[tuple[bool, int]]:
    # Whether lookup tables multiply, and the products of a lane. Multipliers do not compute small
    # products.
    if not (layer.is_narrow or layer.input.bits < BYTE_BITS):
        return [(False, 1)]
    bits = layer.weight_bits, layer.input.bits
    found = [] if min(bits) == 1 or sum(bits) < MIN_PRODUCT_BITS else [(False, 1)]
    depth = 1 if encoding.is_sparse else layer.weights.shape[3]
    limit = min(depth & -depth, MAX_LANE_TERMS)
    return found + [(True, 1 << n) for n in range(limit.bit_length())]


def choose(
    pipeline: Pipeline,
    board: DataflowBoard,
    budget: Budget,
    objective: Objective = "throughput",
) -> PipelinePlan:
    """
    Return the lanes of all layers that fit `budget` with the fewest cycles per frame, or with the
    shortest latency. A network for which no lanes fit is refused with an `UnsupportedError`.
    """
    plan = _for_throughput(pipeline, board, budget)
    if objective == "throughput":
        return plan
    balanced = max(lane_cycles(planned) for planned in plan.convolutions.values())
    plans = [plan, *_for_latency(pipeline, board, budget, balanced)]
    return min(plans, key=lambda p: model(pipeline, p, board.port_bytes, frames=1).latency)


def _for_latency(
    pipeline: Pipeline, board: DataflowBoard, budget: Budget, balanced: int
) -> Iterator[PipelinePlan]:
    # `balanced` is the time of the slowest layer of the plan for throughput.
    table = {
        block: [
            (c.planned, c.resources)
            for c in _spread(choices(block, board.fabric, for_latency=True), budget)
        ]
        for block in pipeline.blocks
        if isinstance(block, Convolution)
    }

    def complete(lanes: Planned) -> PipelinePlan:
        planned: dict[Block, PlannedConvolution] = {}
        for layer in table:
            planned[layer] = _with_slots(lanes[layer], batches(layer.inputs[0], planned))
        return with_rings(pipeline, planned)

    def fits(lanes: Planned) -> bool:
        return budget.holds(total(estimate(pipeline, complete(lanes), board.fabric)))

    def price(resources: Resources) -> float:
        return budget.price(resources, PRICES[0])

    for slower in LATENCY_STARTS:
        found = fastest(pipeline, table, board.port_bytes, price, fits, slower * balanced)
        if found is not None:
            yield complete(found)


def _spread(found: Sequence[LaneChoice], budget: Budget) -> list[LaneChoice]:
    """
    Return the cheapest choice of each number of rows in parallel, number of terms, order of weights
    and power of `LATENCY_STEP` of the cycles, so that a search for the shortest latency has few
    alternatives.
    """
    best: dict[tuple[int, int, bool, int], LaneChoice] = {}
    for choice in found:
        planned = choice.planned
        if planned.lanes.rows > MAX_LATENCY_ROWS:
            continue
        lanes, step = planned.lanes, round(log(choice.cycles, LATENCY_STEP))
        key = lanes.rows, lanes.terms, planned.is_by_row, step
        price = budget.price(choice.resources, PRICES[0])
        if key not in best or price < budget.price(best[key].resources, PRICES[0]):
            best[key] = choice
    return list(best.values())


def _for_throughput(pipeline: Pipeline, board: DataflowBoard, budget: Budget) -> PipelinePlan:
    table = {
        block: choices(block, board.fabric)
        for block in pipeline.blocks
        if isinstance(block, Convolution)
    }
    for block, found in table.items():
        if not found:
            message = f"a row has more than {MAX_BANK_WORDS} words: use fewer channels"
            raise UnsupportedError([_finding(block, message)])
    floor = port_cycles(pipeline, board.port_bytes)
    times = sorted({max(floor, c.cycles) for found in table.values() for c in found})
    slowest = max(found[-1].cycles for found in table.values())
    times = [t for t in times if t >= max(found[0].cycles for found in table.values())] or [slowest]
    best: PipelinePlan | None = None
    low, high = 0, len(times) - 1
    while low <= high:
        middle = (low + high) // 2
        plan = _plan_for(times[middle], pipeline, table, board, budget)
        if plan is None:
            low = middle + 1
        else:
            best, high = plan, middle - 1
    if best is None:
        _refuse(pipeline, table, board, budget)
    return best


def _plan_for(
    time: int,
    pipeline: Pipeline,
    table: Mapping[Convolution, Sequence[LaneChoice]],
    board: DataflowBoard,
    budget: Budget,
) -> PipelinePlan | None:
    # The cheapest plan in which no layer exceeds `time`, unless the budget is exceeded.
    for prices in PRICES:
        planned: dict[Block, PlannedConvolution] = {}
        for layer, found in table.items():
            fast = [c for c in found if c.cycles <= time]
            if not fast:
                return None
            chosen = min(fast, key=lambda c: budget.price(c.resources, prices))
            planned[layer] = _with_slots(chosen.planned, batches(layer.inputs[0], planned))
        plan = with_rings(pipeline, planned)
        if budget.holds(total(estimate(pipeline, plan, board.fabric))):
            return plan
    return None


def _with_slots(planned: PlannedConvolution, source: list[range]) -> PlannedConvolution:
    slots = good_slots(planned.buffer, source)
    return replace(planned, lanes=replace(planned.lanes, slots=slots))


def _finding(block: Block, message: str) -> Finding:
    return Finding(block.name, "layer", f"unsupported: {message}")


def _refuse(
    pipeline: Pipeline,
    table: Mapping[Convolution, Sequence[LaneChoice]],
    board: DataflowBoard,
    budget: Budget,
) -> NoReturn:
    """
    Raise the error for a network that does not fit: for each resource that is too small, name the
    layer that needs most of it, and the remedy.
    """
    findings: list[Finding] = []
    for name, (title, remedy) in RESOURCES.items():
        available: int = getattr(budget, name)
        planned: dict[Block, PlannedConvolution] = {}
        for layer, found in table.items():
            smallest = min(found, key=lambda c: getattr(c.resources, name))
            planned[layer] = _with_slots(smallest.planned, batches(layer.inputs[0], planned))
        parts = estimate(pipeline, with_rings(pipeline, planned), board.fabric)
        needed: int = getattr(total(parts), name)
        if needed <= available:
            continue
        largest = max(parts, key=lambda block: getattr(parts[block], name))
        share: int = getattr(parts[largest], name)
        message = (
            f"the network needs at least {needed} {title}, {share} of them for this layer, and "
            f"{board.title} may use {available}: use a board with {needed}, or {remedy}"
        )
        findings.append(_finding(largest, message))
    if not findings:
        largest = max(table, key=lambda layer: table[layer][-1].resources.dsp)
        message = (
            "no lanes keep multipliers, memories and tables within "
            f"{budget.dsp}, {budget.ram18} and {budget.lut} at the same time: use a larger board"
        )
        findings = [_finding(largest, message)]
    raise UnsupportedError(findings)


RESOURCES = {
    "dsp": ("multipliers", "fewer layers, or narrower feature maps"),
    "ram18": ("memories of 18 kbit", "more zero weights (--prune), or fewer channels"),
    "lut": ("tables (LUT)", "narrower feature maps"),
}
"""The name of each resource in messages, and the changes of a network that need less of it."""
