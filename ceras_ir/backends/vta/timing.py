"""
How many cycles an instruction takes by itself, as measured on the cycle-accurate Chisel RTL.
`hls_timing` has the same for the HLS source.

The rules and their constants are those of the project's notes on VTA; what a board file tells
(bus width and latencies) replaces the defaults. `timed_simulator` adds what instructions do
to each other, `analysis.tile_cost` estimates whole schedules.
"""

from dataclasses import dataclass

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.encoding import DEFAULT_BOARD
from ceras_ir.backends.vta.isa import Alu, Gemm, Instruction, Load, MemoryType, Store

BURST_BEATS = 256
"""Longest read burst of AXI."""
STORE_BURST_BYTES = 2048
"""Longest write burst."""


@dataclass(frozen=True)
class Timing:
    """Cycles of the memory system and of the pipelines."""

    bus_bytes: int = 8
    """Bytes of one beat."""
    read_latency: int = 50
    write_latency: int = 31
    load: int = 5
    """Of a load of tensors, beside its beats and the latency."""
    load_micro_ops: int = 4
    command: int = 3
    """Between the commands for two rows of a load."""
    outstanding: int = 16
    """Row commands that wait for their data."""
    pipeline: int = 7
    """Of GEMM and ALU, beside their iterations."""
    no_op: int = 2
    burst: int = 3
    """Of a write burst, beside its elements and the latency."""
    fetch_batch: int = 128
    """Instructions that are fetched together."""
    board: VtaBoard = DEFAULT_BOARD
    """Whose elements are moved."""

    @classmethod
    def of(cls, board: VtaBoard) -> "Timing":
        """The timing of `board`."""
        bus = board.bus_bytes or cls.bus_bytes
        return cls(bus, board.read_latency, board.write_latency, board=board)

    @property
    def store_element(self) -> int:
        """Of each element of a store: one to read it, then its beats."""
        return 1 + self.beats(self.board.element_bytes(MemoryType.OUT))

    @property
    def store_burst(self) -> int:
        """Elements of the longest write burst."""
        return max(1, STORE_BURST_BYTES // self.board.element_bytes(MemoryType.OUT))

    def beats_of(self, memory: MemoryType) -> float:
        """Beats of an element among many that follow each other."""
        return self.board.element_bytes(memory) / self.bus_bytes

    def beats(self, size: int) -> int:
        """Beats of the bus for `size` consecutive bytes."""
        return -(-size // self.bus_bytes)

    def load_bursts(self, i: Load) -> list[int]:
        """Beats of each read burst of `i`; rows that follow each other are one."""
        rows, row = i.y_size, i.x_size * self.board.element_bytes(i.memory)
        if i.x_stride == i.x_size and not (i.x_pad_left or i.x_pad_right):
            rows, row = 1, rows * row
        whole, rest = divmod(self.beats(row), BURST_BEATS)
        return ([BURST_BEATS] * whole + [rest] * (rest > 0)) * rows

    def store_cycles(self, i: Store) -> int:
        """Of all bursts of `i`, one after the other."""
        rows, row = i.y_size, i.x_size
        if i.x_stride == i.x_size:
            rows, row = 1, rows * row
        bursts = rows * -(-row // self.store_burst)
        return i.elements * self.store_element + bursts * (self.write_latency + self.burst)

    def after_load(self, i: Load) -> int:
        """Of a load, beside its bursts."""
        return self.load_micro_ops if i.memory is MemoryType.UOP else self.load

    def compute_cycles(self, i: Instruction) -> int:
        """Of an instruction that moves nothing."""
        match i:
            case Gemm():
                return i.iterations + self.pipeline
            case Alu():
                return i.iterations * (1 if i.use_imm else 2) + self.pipeline
            case _:
                return self.no_op
