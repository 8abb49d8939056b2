"""What the launches of a network cost in time and DRAM traffic, by the timed simulator."""

from collections.abc import Sequence
from dataclasses import dataclass

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.hardware import INSTRUCTION_BYTES
from ceras_ir.backends.vta.isa import Module
from ceras_ir.backends.vta.launches import LoweredLaunch
from ceras_ir.backends.vta.timed_simulator import TimedRun, simulate_time
from ceras_ir.support.diagnostics import node_name
from ceras_ir.transforms.memory.analysis.liveness import byte_size


@dataclass(frozen=True, eq=False)
class LaunchCost:
    """One launch."""

    name: str
    instructions: int
    run: TimedRun
    operand_bytes: int
    """Bytes of its operands and results, each moved once."""

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
        }


def measure(launches: Sequence[LoweredLaunch], board: VtaBoard) -> list[LaunchCost]:
    """The cost of every launch, one after the other from an idle machine."""
    return [
        LaunchCost(
            node_name(launch.op),
            len(launch.program.instructions),
            simulate_time(launch.program.instructions, board),
            sum(byte_size(v) for v in {*launch.op.inputs, *launch.op.outputs}),
        )
        for launch in launches
    ]


def totals(costs: Sequence[LaunchCost]) -> dict[str, object]:
    """Of a whole network."""
    instructions = sum(cost.instructions for cost in costs)
    return {
        "vta_cycles": sum(cost.run.cycles for cost in costs),
        "vta_instructions": instructions,
        "vta_stream_bytes": instructions * INSTRUCTION_BYTES,
        "vta_dram_bytes": sum(cost.dram_bytes for cost in costs),
        "vta_dram_lower_bound_bytes": sum(cost.dram_lower_bound for cost in costs),
    }
