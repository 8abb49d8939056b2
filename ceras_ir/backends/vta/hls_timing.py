"""
Cycles of instructions on VTA's HLS source, for one `HlsModel`.

A GEMM starts a micro-op every cycle and an ALU operation every second, but only along a list of
micro-ops: entries of the two outer loops follow each other with a refill between. Rows of a
transfer follow each other without overlap, and zeros around them are written one a cycle.
"""

from dataclasses import dataclass

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.hls_model import HlsModel
from ceras_ir.backends.vta.hls_models import MODELS
from ceras_ir.backends.vta.isa import Alu, Gemm, Instruction, Load, MemoryType, Store
from ceras_ir.backends.vta.timing import Timing

ALU_INTERVAL = 2
"""Cycles between the micro-ops of an ALU operation."""


@dataclass(frozen=True)
class HlsTiming(Timing):
    """The rules of `Timing` for the HLS source."""

    model: HlsModel = MODELS[0]

    @classmethod
    def with_model(cls, model: HlsModel, board: VtaBoard) -> "HlsTiming":
        """The timing of `board` if it is like `model`."""
        each = model.instruction
        return cls(
            bus_bytes=model.bytes_per_cycle,
            read_latency=model.latency,
            write_latency=model.latency,
            load=each,
            load_micro_ops=each,
            command=0,
            outstanding=1,
            pipeline=each + model.refill,
            no_op=max(1, each),
            board=board,
            model=model,
        )

    def load_bursts(self, i: Load) -> list[int]:
        """Beats of each row."""
        return [self.beats(i.x_size * self.board.element_bytes(i.memory))] * i.y_size

    def after_load(self, i: Load) -> int:
        """The instruction itself, and the zeros that it writes."""
        moved = 0 if i.memory is MemoryType.UOP else i.elements - i.y_size * i.x_size
        return self.model.instruction + moved

    def store_cycles(self, i: Store) -> int:
        row = self.beats(i.x_size * self.board.element_bytes(MemoryType.OUT))
        return self.model.instruction + i.y_size * (self.model.latency + row)

    def compute_cycles(self, i: Instruction) -> int:
        if not isinstance(i, Gemm | Alu):
            return self.no_op
        interval = ALU_INTERVAL if isinstance(i, Alu) else 1
        entry = self.model.refill + interval * (i.uop_end - i.uop_bgn)
        return self.model.instruction + i.iter_out * i.iter_in * entry


def timing_of(board: VtaBoard) -> Timing:
    """Of `board`: measured on the Chisel RTL, or modelled for the HLS source."""
    if not board.is_hls:
        return Timing.of(board)
    return HlsTiming.with_model(models_of(board)[0], board)


def models_of(board: VtaBoard) -> tuple[HlsModel, ...]:
    """What a board of the HLS source may be like: as calibrated, or all that is known to fit."""
    return MODELS if board.hls is None else (board.hls,)
