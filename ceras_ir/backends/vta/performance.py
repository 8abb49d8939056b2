"""What the launches of a network cost in time and DRAM traffic, by the timed simulator."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.hardware import INSTRUCTION_BYTES
from ceras_ir.backends.vta.isa import Module
from ceras_ir.backends.vta.launches import LoweredLaunch
from ceras_ir.backends.vta.machine.time import TimedRun, Timing, simulate_time
from ceras_ir.support.diagnostics import node_name
from ceras_ir.transforms.memory.analysis.liveness import byte_size


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
