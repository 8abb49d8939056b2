"""
What the launches of a network cost in time and DRAM traffic, and their timelines.

Timelines are lanes to be drawn, and Chrome's trace format, which Perfetto opens, with every
instruction.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from ceras_ir.backends.vta.lowering.launches import LoweredLaunch
from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.isa import (
    INSTRUCTION_BYTES,
    Alu,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    Module,
    describe,
)
from ceras_ir.backends.vta.machine.time import TimedRun, Timing, simulate_time
from ceras_ir.support.diagnostics import node_name
from ceras_ir.support.timeline import (
    LABEL,
    MARGIN,
    ROW,
    STYLE,
    WIDTH,
    Lane,
    Timeline,
    bars_of,
    height_of,
    legend,
    timeline_picture,
)
from ceras_ir.transforms.memory.liveness import byte_size


@dataclass(frozen=True, eq=False)
class LayerCost:
    """One layer of a launch."""

    name: str
    instructions: int
    run: TimedRun
    operand_bytes: int
    """Bytes of its operands and results, each moved once."""
    skipped: float
    """The share of products that tiles of zeros save."""

    @property
    def dram_lower_bound(self) -> int:
        """Bytes that must be moved; a strided 1x1 convolution does not read all of its input."""
        return min(self.operand_bytes, self.dram_bytes)

    @property
    def dram_bytes(self) -> int:
        """Bytes that the three modules move; the stream itself comes on top."""
        return self.run.loaded_bytes + self.run.stored_bytes

    def to_json(self) -> dict[str, object]:
        """For reports."""
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
    """One launch: its run, and what each of its layers has of it."""

    run: TimedRun
    layers: Sequence[LayerCost]


def measure(launches: Sequence[LoweredLaunch], board: VtaBoard) -> list[LaunchCost]:
    """The cost of every launch, one after the other from an idle machine."""
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
    A run cut into layers. A layer ends with its last instruction, and has the cycles since the
    one before ended; its instructions may have run before that.
    """
    parts = [TimedRun() for _ in launch.ops]
    program, timing = launch.program, Timing.of(board)
    ends = [0] * len(parts)
    for span in run.spans:
        number = program.kernels[span.index]
        parts[number].add(span, program.instructions[span.index], timing)
        ends[number] = max(ends[number], span.end)
    before = 0
    for part, end in zip(parts, ends, strict=True):
        part.cycles, before = max(0, end - before), max(before, end)
    return parts


def totals(costs: Sequence[LaunchCost]) -> dict[str, object]:
    """Of a whole network."""
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
"""Launches: name, stream, and its run."""

LANE_KINDS = ("load inp", "load wgt", "load acc", "load uop", "gemm", "alu", "store", "no-op")


def timeline(name: str, stream: Sequence[Instruction], run: TimedRun) -> Timeline:
    """A lane for each module of one launch."""
    lanes: list[Lane] = []
    for module in Module:
        spans = [(s.start, s.end, _kind(stream[s.index])) for s in run.spans if s.module is module]
        busy = run.busy[module] / run.cycles if run.cycles else 0.0
        bars = tuple(bars_of(spans, run.cycles)) if run.cycles else ()
        lanes.append(Lane(module.name.lower(), busy, bars))
    note = f"{run.gemm_share:.1%} multiply, bound by {run.bound_by}"
    return Timeline(name, run.cycles, note, LANE_KINDS, tuple(lanes))


def chrome_trace(launches: Traced) -> str:
    """One process per launch, one thread per module; a microsecond stands for a cycle."""
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


def svg(launches: Sequence[Timeline]) -> str:
    """Timelines below each other as one picture that stands alone, on white."""
    width = LABEL + WIDTH + MARGIN
    height = ROW * 2 + sum(height_of(launch) + ROW * 2 for launch in launches)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
        f"<style>{STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for place, (kind, colour) in enumerate(legend(launches[0]).items() if launches else ()):
        x = LABEL + place * 120
        parts.append(f'<rect x="{x}" y="8" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 18}" y="19">{kind}</text>')
    y = ROW * 2
    for launch in launches:
        text = f"{escape(launch.name)}: {launch.cycles:,} cycles, {launch.note}"
        parts.append(f'<text x="{LABEL}" y="{y}">{text}</text>')
        size = f'y="{y + 8}" width="{width}" height="{height_of(launch)}"'
        parts.append(timeline_picture(launch, size))
        y += height_of(launch) + ROW * 2
    return "\n".join([*parts, "</svg>"]) + "\n"


def _kind(i: Instruction) -> str:
    match i:
        case Load(memory=memory, x_size=size):
            if not size:
                return "no-op"
            return "load acc" if memory is MemoryType.ACC_8BIT else f"load {memory.name.lower()}"
        case Gemm():
            return "gemm"
        case Alu():
            return "alu"
        case _:
            name = describe(i)
            return name if name == "store" else "no-op"
