"""
Compute the time and the DRAM traffic of the launches of a network, and their timelines.

A timeline shows when each module of VTA executes an instruction: as lanes for pictures, and as a
trace in the format of Chrome, which Perfetto opens.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ceras_ir.backends.vta.execution.launches import LoweredLaunch
from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.isa import (
    INSTRUCTION_BYTES,
    Alu,
    Gemm,
    Instruction,
    Load,
    Module,
    Store,
    describe,
)
from ceras_ir.backends.vta.machine.time import TimedRun, Timing, simulate_time
from ceras_ir.support.diagnostics import node_name
from ceras_ir.support.timeline import Lane, Timeline, bars_of
from ceras_ir.transforms.memory.liveness import byte_size


@dataclass(frozen=True, eq=False)
class LayerCost:
    """The modelled time and the DRAM traffic of a layer. Several layers can be part of a launch."""

    name: str
    instructions: int
    run: TimedRun
    operand_bytes: int
    """The bytes of operands and results; each value counts a single time."""
    skipped: float
    """The share of products that are omitted because tiles of weights are zero."""

    @property
    def dram_lower_bound(self) -> int:
        """
        The bytes that each schedule must transfer: each operand and result a single time, or the
        actual traffic if it is smaller, as for 1x1 convolutions with strides, which skip input
        bytes.
        """
        return min(self.operand_bytes, self.dram_bytes)

    @property
    def dram_bytes(self) -> int:
        """
        The bytes that the modules load, compute and store transfer, without the fetch of
        instructions.
        """
        return self.run.loaded_bytes + self.run.stored_bytes

    def to_json(self) -> dict[str, object]:
        run = self.run
        return {
            "cycles": run.cycles,
            "gemm_share": round(run.gemm_share, 4),
            "alu_cycles": run.alu_cycles,
            "busy_cycles": {m.name.lower(): run.busy[m] for m in Module},
            "stalls": {
                f"{m.name.lower()} waits for {reason}": cycles
                for (m, reason), cycles in sorted(run.stalls.items())
            },
            "bound_by": run.bound_by,
            "dram_bytes": self.dram_bytes,
            "dram_lower_bound_bytes": self.dram_lower_bound,
            "instructions": self.instructions,
            **({"skipped_products": round(self.skipped, 4)} if self.skipped else {}),
        }


@dataclass(frozen=True, eq=False)
class LaunchCost:
    """The modelled time of a launch, and of each of its layers."""

    run: TimedRun
    layers: Sequence[LayerCost]


def measure(launches: Sequence[LoweredLaunch], board: VtaBoard) -> list[LaunchCost]:
    """
    Return the modelled cost of each launch and its layers. Each launch starts when VTA is idle.
    """
    found: list[LaunchCost] = []
    for launch in launches:
        run = simulate_time(launch.program.instructions, board)
        counts = Counter(launch.program.kernels)
        layers = [
            LayerCost(
                node_name(op),
                counts[number],
                part,
                sum(byte_size(v) for v in {*op.inputs, *op.outputs}),
                launch.skipped[number],
            )
            for number, (op, part) in enumerate(
                zip(launch.ops, by_layer(run, launch, board), strict=True)
            )
        ]
        found.append(LaunchCost(run, layers))
    return found


def by_layer(run: TimedRun, launch: LoweredLaunch, board: VtaBoard) -> list[TimedRun]:
    """
    Return the part of the timed `run` of a launch that belongs to each layer. A layer has the
    cycles from the end of the last instruction of the previous layer to the end of its last
    instruction.
    """
    parts = [TimedRun() for _ in launch.ops]
    program, timing = launch.program, Timing.of(board)
    layer_ends = [0] * len(parts)
    for span in run.spans:
        number = program.kernels[span.index]
        parts[number].add(span, program.instructions[span.index], timing)
        layer_ends[number] = max(layer_ends[number], span.end)
    before = 0
    for part, end in zip(parts, layer_ends, strict=True):
        part.cycles, before = max(0, end - before), max(before, end)
    return parts


def totals(costs: Sequence[LaunchCost]) -> dict[str, object]:
    layers = [layer for cost in costs for layer in cost.layers]
    instructions = sum(layer.instructions for layer in layers)
    return {
        "vta_cycles": sum(cost.run.cycles for cost in costs),
        "vta_instructions": instructions,
        "vta_stream_bytes": instructions * INSTRUCTION_BYTES,
        "vta_dram_bytes": sum(layer.dram_bytes for layer in layers),
        "vta_dram_lower_bound_bytes": sum(layer.dram_lower_bound for layer in layers),
    }


Traced = Sequence[tuple[str, Sequence[Instruction], TimedRun]]
"""The name, the instruction stream and the timed run of each launch."""

LANE_KINDS = ("load inp", "load wgt", "load acc", "load uop", "gemm", "alu", "store", "no-op")


def timeline(name: str, stream: Sequence[Instruction], run: TimedRun) -> Timeline:
    lanes: list[Lane] = []
    for module in Module:
        spans = [(s.start, s.end, _kind(stream[s.index])) for s in run.spans if s.module is module]
        busy = run.busy[module] / run.cycles if run.cycles else 0.0
        bars = tuple(bars_of(spans, run.cycles)) if run.cycles else ()
        lanes.append(Lane(module.name.lower(), busy, bars))
    note = f"{run.gemm_share:.1%} multiply, bound by {run.bound_by}"
    return Timeline(name, run.cycles, note, LANE_KINDS, tuple(lanes))


def chrome_trace(launches: Traced) -> str:
    """
    Return the text of a Chrome trace (JSON) with a process for each launch and a thread for each
    module of VTA. A cycle is shown as 1 us.
    """
    events: list[dict[str, object]] = []
    for process, (name, stream, run) in enumerate(launches):
        events.append(_name("process_name", process, 0, name))
        for module in Module:
            events.append(_name("thread_name", process, int(module), module.name.lower()))
        for span in run.spans:
            events.append(
                {
                    "name": describe(stream[span.index]),
                    "ph": "X",
                    "pid": process,
                    "tid": int(span.module),
                    "ts": span.start,
                    "dur": span.end - span.start,
                    "args": {"instruction": span.index},
                }
            )
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}) + "\n"


def _name(kind: str, process: int, thread: int, name: str) -> dict[str, object]:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}


def _kind(i: Instruction) -> str:
    if isinstance(i, Gemm | Alu):
        return type(i).__name__.lower()
    if isinstance(i, Load | Store) and (isinstance(i, Store) or i.x_size):
        return describe(i).removesuffix("_8bit")
    return "no-op"
