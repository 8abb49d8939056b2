"""
Choose lanes for each layer: the shortest time per frame for which the chip has room.

All layers work at once, so the slowest layer sets the time. For a given time, each layer uses the
cheapest lanes that reach it; the time is found by bisection over the times that layers can have.
The cost of lanes depends on the scarce resource, so several prices are tried. `circuit_of` checks
the lanes of a module and returns its blocks with the lanes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.traits import SymbolTable

from ceras_ir.backends.dataflow.blocks import Block, Convolution, Pipeline, extract
from ceras_ir.backends.dataflow.board import DataflowBoard, Family
from ceras_ir.backends.dataflow.cycles import lane_cycles, port_cycles
from ceras_ir.backends.dataflow.dialect import ReceiveOp, SendOp, lanes_of
from ceras_ir.backends.dataflow.plan import (
    BlockLanes,
    PipelinePlan,
    PlannedConvolution,
    batches,
    good_slots,
    least_slots,
    with_rings,
)
from ceras_ir.backends.dataflow.resources import Resources, convolution, estimate, total
from ceras_ir.backends.dataflow.storage import WeightEncoding, ceiling, delta_bits, encodings_of
from ceras_ir.dialects.graph import ConstantOp
from ceras_ir.support.diagnostics import Finding, InputError, UnsupportedError, node_name

LUT_SHARE = 0.75
"""Part of the chip's tables that a router can use."""
MOST_ROWS = 16
MOST_PARTS = 32
"""Words of a table used as memory, where sums of parts are."""
MOST_FILTERS = 64
MOST_WORDS = 1 << 16
"""Words of a bank: addresses of rows have 16 bits."""
PRICES = (
    *((1.0, 1.0, 1.0), (4.0, 1.0, 1.0), (1.0, 4.0, 1.0), (1.0, 1.0, 4.0)),
    *((64.0, 1.0, 1.0), (1.0, 64.0, 1.0), (1.0, 1.0, 64.0)),
)
"""What a share of the chip's multipliers, memories and tables is worth."""


@dataclass(frozen=True)
class LaneChoice:
    """Lanes of one layer, with what they take."""

    cycles: int
    resources: Resources
    planned: PlannedConvolution


@dataclass(frozen=True)
class Budget:
    """What the circuit may take."""

    dsp: int
    ram18: int
    lut: int

    @classmethod
    def of(cls, board: DataflowBoard, dsp: int = 0, ram18: int = 0) -> "Budget":
        """That of a board, with less where `dsp` and `ram18` say so."""
        return cls(
            min(board.dsp, dsp or board.dsp),
            min(board.ram18, ram18 or board.ram18),
            int(board.lut * LUT_SHARE),
        )

    def holds(self, r: Resources) -> bool:
        return r.dsp <= self.dsp and r.ram18 <= self.ram18 and r.lut <= self.lut

    def price(self, r: Resources, prices: Sequence[float]) -> float:
        """What `r` costs, as shares of the budget."""
        shares = (r.dsp / self.dsp, r.ram18 / self.ram18, r.lut / self.lut)
        return sum(price * share for price, share in zip(prices, shares, strict=True))


def choices(layer: Convolution, family: Family) -> list[LaneChoice]:
    """Lanes of a layer that are worth their price, the fastest first."""
    found: list[LaneChoice] = []
    pairs = family.paired
    # How rows come is not known yet.
    single = [range(row, row + 1) for row in range(layer.input.rows)]
    slots: dict[int, int] = {}
    for lanes in _candidates(layer):
        if lanes.rows not in slots:
            buffer = PlannedConvolution(layer, lanes, pairs).buffer
            slots[lanes.rows] = good_slots(buffer, single)
        planned = PlannedConvolution(layer, replace(lanes, slots=slots[lanes.rows]), pairs)
        if planned.buffer.depth > MOST_WORDS:
            continue
        resources = convolution(planned, family).resources()
        found.append(LaneChoice(lane_cycles(planned), resources, planned))
    found.sort(key=lambda c: (c.cycles, c.resources.dsp, c.resources.ram18, c.resources.lut))
    kept: list[LaneChoice] = []
    for choice in found:
        if not any(_beats(other.resources, choice.resources) for other in kept):
            kept.append(choice)
    return kept


def _beats(a: Resources, b: Resources) -> bool:
    """Whether `a` takes no more of anything."""
    return a.dsp <= b.dsp and a.ram18 <= b.ram18 and a.lut <= b.lut


def _candidates(layer: Convolution) -> list[BlockLanes]:
    height, filters = layer.feature.rows, len(layer.weights)
    # Of numbers of rows that need as many groups, the least.
    rows = sorted(
        {ceiling(height, ceiling(height, r)) for r in range(1, min(height, MOST_ROWS) + 1)}
    )
    per_group = filters // layer.groups
    counts = sorted(
        {ceiling(filters, ceiling(filters, n)) for n in range(1, min(filters, MOST_FILTERS) + 1)}
        if layer.groups == 1
        else {n for n in range(1, min(per_group, MOST_FILTERS) + 1) if per_group % n == 0}
    )
    width = layer.feature.columns
    parts = {ceiling(width, ceiling(width, p)) for p in range(2, min(width, MOST_PARTS) + 1)}
    shapes = [*((r, 1) for r in rows), *((1, p) for p in sorted(parts))]
    return [
        BlockLanes(r, n, encoding, parts=p)
        for r, p in shapes
        for n in counts
        for encoding in encodings_of(layer)
    ]


def choose(pipeline: Pipeline, board: DataflowBoard, budget: Budget) -> PipelinePlan:
    """The plan with the least cycles per frame that `budget` holds."""
    table = {
        block: choices(block, board.fabric)
        for block in pipeline.blocks
        if isinstance(block, Convolution)
    }
    for block, found in table.items():
        if not found:
            raise UnsupportedError(
                [
                    _finding(
                        block, f"a row of it has more than {MOST_WORDS} words: use fewer channels"
                    )
                ]
            )
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
    """The cheapest plan in which no layer takes longer, if the budget holds it."""
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


def _with_slots(one: PlannedConvolution, source: list[range]) -> PlannedConvolution:
    """The same with as many slots as an input in batches `source` needs."""
    return replace(one, lanes=replace(one.lanes, slots=good_slots(one.buffer, source)))


def _finding(block: Block, message: str) -> Finding:
    return Finding(block.name, "layer", f"unsupported: {message}")


def _refuse(
    pipeline: Pipeline,
    table: Mapping[Convolution, Sequence[LaneChoice]],
    board: DataflowBoard,
    budget: Budget,
) -> NoReturn:
    """Name the resource that is short, the layer that takes most of it, and what would fit."""
    findings: list[Finding] = []
    for name in ("dsp", "ram18", "lut"):
        available: int = getattr(budget, name)
        least = {
            layer: min(found, key=lambda c: getattr(c.resources, name))
            for layer, found in table.items()
        }
        plan_of: dict[Block, PlannedConvolution] = {}
        for layer, choice in least.items():
            plan_of[layer] = _with_slots(choice.planned, batches(layer.inputs[0], plan_of))
        parts = estimate(pipeline, with_rings(pipeline, plan_of), board.fabric)
        needed: int = getattr(total(parts), name)
        if needed <= available:
            continue
        worst = max(parts, key=lambda block: getattr(parts[block], name))
        share: int = getattr(parts[worst], name)
        findings.append(
            _finding(
                worst,
                f"the network needs at least {needed} {NAMES[name]}, {share} of them for this "
                f"layer, and {board.title} may use {available}: a board with {needed} would do, or "
                f"{WAYS_OUT[name]}",
            )
        )
    if not findings:
        worst = max(table, key=lambda layer: table[layer][-1].resources.dsp)
        findings = [
            _finding(
                worst,
                "no lanes keep multipliers, memories and tables within "
                f"{budget.dsp}, {budget.ram18} and {budget.lut} at once: use a larger board",
            )
        ]
    raise UnsupportedError(findings)


NAMES = {"dsp": "multipliers", "ram18": "memories of 18 kbit", "lut": "tables (LUT)"}
WAYS_OUT = {
    "dsp": "fewer layers, or narrower feature maps",
    "ram18": "more zero weights (--prune), or fewer channels",
    "lut": "narrower feature maps",
}
"""What a user can change in the network."""


KERNEL = "pipeline"
"""The function that is the circuit."""


@dataclass(frozen=True, eq=False)
class Circuit:
    """A pipeline and its plan."""

    pipeline: Pipeline
    plan: PipelinePlan


def kernel_of(module: ModuleOp) -> FuncOp | None:
    """The function that is the circuit, if it has been outlined."""
    kernel = SymbolTable.lookup_symbol(module, KERNEL)
    return kernel if isinstance(kernel, FuncOp) and kernel.body.blocks else None


def pipeline_of(kernel: FuncOp) -> Pipeline:
    """The blocks of a kernel."""
    received = [op for op in kernel.body.block.ops if isinstance(op, ReceiveOp)]
    if len(received) != 1:
        raise InputError(f"a pipeline has one dataflow.receive, got {len(received)}")
    inside = [
        op
        for op in kernel.body.block.ops
        if not isinstance(op, ConstantOp | ReceiveOp | SendOp | ReturnOp)
    ]
    return extract(received[0].result, inside)


def circuit_of(module: ModuleOp, board: DataflowBoard) -> Circuit:
    """The circuit of a module; refuses one whose lanes have not been chosen, or do not fit."""
    kernel = kernel_of(module)
    if kernel is None:
        raise InputError("the module has no pipeline: run outline-pipeline first")
    pipeline = pipeline_of(kernel)
    planned: dict[Block, PlannedConvolution] = {}
    for op, block in pipeline.operations.items():
        if not isinstance(block, Convolution):
            continue
        lanes = lanes_of(op)
        if lanes is None:
            raise InputError(f"'{node_name(op)}' has no lanes: run allot-lanes first")
        one = PlannedConvolution(block, lanes, board.pairs)
        per_group = len(block.weights) // block.groups
        rows, columns = block.feature.rows, block.feature.columns
        if lanes.rows > rows or lanes.filters > per_group or lanes.parts > columns:
            message = f"has {rows} rows, {columns} columns and {per_group} filters in a group"
            raise InputError([Finding(node_name(op), op.name, f"{message}, got lanes {lanes}")])
        if (block.groups > 1 and per_group % lanes.filters) or one.buffer.depth > MOST_WORDS:
            raise InputError([Finding(node_name(op), op.name, f"lanes do not fit: {lanes}")])
        if lanes.encoding is WeightEncoding.DELTA and not delta_bits(block):
            message = "has no deltas: weights of one group, of two channels or more, have"
            raise InputError([Finding(node_name(op), op.name, message)])
        planned[block] = one
        # Operands come before, so that their batches are known.
        least = least_slots(one.buffer, batches(block.inputs[0], planned))
        if lanes.slots < least:
            message = f"needs {least} slots of input rows, got {lanes.slots}: it would stop"
            raise InputError([Finding(node_name(op), op.name, message)])
    return Circuit(pipeline, with_rings(pipeline, planned))
