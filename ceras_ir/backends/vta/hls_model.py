"""
The few numbers on which the time of VTA's HLS source (`vta.cc`) on a board depends. Only its loops
over micro-ops are pipelined; every entry of one refills the pipeline, and every row of a transfer
waits for its first data.
"""

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class HlsModel:
    """Cycles and bytes."""

    refill: int
    """Cycles of an entry of a loop over micro-ops, beside its micro-ops."""
    latency: int
    """Cycles of a row of a transfer, beside its bytes."""
    bytes_per_cycle: int
    """Of the one port to DRAM."""
    instruction: int
    """Cycles of every instruction, beside what it does."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            least = int(name == "bytes_per_cycle")
            if value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}")
