"""
Small streams whose times on a board tell its parameters, each by itself: what one does thousands of
times, the others do little of.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.image import PAGE
from ceras_ir.backends.vta.isa import AluOpcode, MemoryType
from ceras_ir.backends.vta.program import VtaProgram
from ceras_ir.backends.vta.stream import StreamBuilder

ENTRIES = (64, 128)
"""Iterations of the two loops around a list."""
REPEATS = 200
"""Small instructions in a stream."""


@dataclass(frozen=True, eq=False)
class Probe:
    """A stream, and what its time tells."""

    name: str
    tells: str
    program: VtaProgram
    size: int
    """Bytes of DRAM that it needs."""

    def dram(self, board: VtaBoard) -> bytes:
        """The image before: zeros, and its micro-ops."""
        image = np.zeros(self.size, np.uint8)
        table = np.frombuffer(self.program.micro_op_bytes(board), np.uint8)
        start = 4 * self.program.uop_base
        image[start : start + len(table)] = table
        return image.tobytes()


def probes(board: VtaBoard) -> list[Probe]:
    """Of a board; they fill its buffers and no more."""
    # Lists stay as they are built here, whatever is best on the board.
    plain = replace(board, timing="chisel", hls=None)
    data = max(board.elements(m) * board.element_bytes(m) for m in MemoryType) * 2
    found: list[Probe] = []
    for name, (tells, build) in PROBES.items():
        builder = StreamBuilder(plain)
        build(builder, plain)
        program = builder.finish(data // 4)
        end = data + len(program.micro_op_bytes(plain))
        found.append(Probe(name, tells, program, -(-end // PAGE) * PAGE))
    return found


def _nothing(b: StreamBuilder, board: VtaBoard) -> None:
    """Starting and finishing."""


def _entries(length: int) -> Callable[[StreamBuilder, VtaBoard], None]:
    def build(b: StreamBuilder, board: VtaBoard) -> None:
        uops = [[i] for i in range(length)]
        outer = max(1, ENTRIES[0] // length)
        for _ in range(2):
            b.gemm(uops, iter=(outer, ENTRIES[1]), reset=True)

    return build


def _alu(length: int) -> Callable[[StreamBuilder, VtaBoard], None]:
    def build(b: StreamBuilder, board: VtaBoard) -> None:
        uops = [[i] for i in range(length)]
        count = (board.acc - length) // length
        b.gemm(uops, iter=(1, count), dst=(0, length), reset=True)
        for _ in range(8):
            steps = (0, length)
            b.alu(AluOpcode.MAX, uops, iter=(1, count), dst=steps, src=steps, imm=0)

    return build


def _small_loads(b: StreamBuilder, board: VtaBoard) -> None:
    for _ in range(REPEATS):
        b.load(MemoryType.INP, 0, 0, 1)


def _rows(b: StreamBuilder, board: VtaBoard) -> None:
    for _ in range(4):
        b.load(MemoryType.INP, 0, 0, 1, board.inp // 4, 2)


def _large_loads(b: StreamBuilder, board: VtaBoard) -> None:
    for _ in range(2):
        b.load(MemoryType.WGT, 0, 0, board.wgt)


def _stores(rows: int) -> Callable[[StreamBuilder, VtaBoard], None]:
    def build(b: StreamBuilder, board: VtaBoard) -> None:
        count = board.acc // 4
        b.gemm([[0]], iter=(1, count), dst=(0, 1), reset=True)
        b.alu(AluOpcode.MAX, [[0]], iter=(1, count), dst=(0, 1), src=(0, 1), imm=0)
        for _ in range(4):
            if rows:
                b.store(0, 0, 1, count, 2)
            else:
                b.store(0, 0, count)

    return build


def _instructions(b: StreamBuilder, board: VtaBoard) -> None:
    for _ in range(4 * REPEATS):
        b.gemm([[0]], reset=True)


PROBES: dict[str, tuple[str, Callable[[StreamBuilder, VtaBoard], None]]] = {
    "start": ("what starting a stream takes, the host's part in it", _nothing),
    "instructions": ("an instruction with one micro-op", _instructions),
    "entries_1": ("entries of a GEMM with one micro-op", _entries(1)),
    "entries_8": ("entries of a GEMM with eight micro-ops", _entries(8)),
    "entries_64": ("entries of a GEMM with 64 micro-ops", _entries(64)),
    "alu_1": ("entries of an ALU operation with one micro-op", _alu(1)),
    "alu_16": ("entries of an ALU operation with 16 micro-ops", _alu(16)),
    "loads": ("loads of one vector", _small_loads),
    "rows": ("rows of one vector in a load", _rows),
    "weights": ("bytes of a long load", _large_loads),
    "stored_rows": ("rows of one vector in a store", _stores(1)),
    "stored": ("bytes of a long store", _stores(0)),
}
