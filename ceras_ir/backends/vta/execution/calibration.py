"""
Find the parameters of a board from the times of small streams on it.

Each stream repeats one kind of work thousands of times and does little of the others, so its time
depends on one parameter. The parameters are those with which the cycles of the simulated time, and
a constant for starting, come nearest to the measured times.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.vta.lowering.image import IMAGE_PAGE
from ceras_ir.backends.vta.machine.board import HlsModel, VtaBoard
from ceras_ir.backends.vta.machine.encoding import VtaProgram
from ceras_ir.backends.vta.machine.isa import AluOpcode, MemoryType
from ceras_ir.backends.vta.machine.stream import StreamBuilder
from ceras_ir.backends.vta.machine.time import Timing, simulate_time

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
        found.append(Probe(name, tells, program, -(-end // IMAGE_PAGE) * IMAGE_PAGE))
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


Parameters = tuple[int, ...]

FIRST: dict[str, tuple[dict[str, int], ...]] = {
    "hls": (
        {"refill": 8, "latency": 40, "bytes_per_cycle": 8, "instruction": 10},
        {"refill": 20, "latency": 100, "bytes_per_cycle": 16, "instruction": 30},
    ),
    "chisel": ({"read_latency": 50, "write_latency": 31, "bus_bytes": 8},),
}
"""What is tried first, for both kinds of timing."""
LEAST = {"bytes_per_cycle": 1, "bus_bytes": 1}
FACTORS = (2.0, 1.5, 1.2, 1.1, 1.05, 1.02)
"""Steps of the search, each until none of it is better."""


@dataclass(frozen=True)
class Fitted:
    """A board with its parameters, and how well they explain the times."""

    board: VtaBoard
    start_us: float
    """What starting a stream takes."""
    predicted: dict[str, float]
    """Microseconds of each probe."""
    error: float
    """Mean relative difference from what was measured."""


def with_parameters(board: VtaBoard, numbers: Mapping[str, int]) -> VtaBoard:
    """`board` with these parameters, which are those of its kind of timing."""
    if board.is_hls:
        return replace(board, hls=HlsModel(**numbers))
    return replace(board, **numbers)


def fit_board(board: VtaBoard, probes: Sequence[Probe], times: Mapping[str, float]) -> Fitted:
    """The parameters that explain `times`, microseconds of probes by name, best."""
    search = _Search(board, [p for p in probes if p.name in times], times)
    found = min((search.descend(first) for first in FIRST[board.timing]), key=search.loss)
    cycles, start = search.cycles(found), search.start(found)
    predicted = (cycles + start) / board.clock
    errors = np.abs(predicted / search.measured_us - 1)
    names = [probe.name for probe in search.probes]
    return Fitted(
        with_parameters(board, found),
        start / board.clock,
        dict(zip(names, predicted.tolist(), strict=True)),
        float(errors.mean()),
    )


class _Search:
    def __init__(self, board: VtaBoard, probes: Sequence[Probe], times: Mapping[str, float]):
        self.board, self.probes = board, probes
        self.measured_us = np.array([times[probe.name] for probe in probes])
        self.measured = self.measured_us * board.clock
        self._known: dict[tuple[tuple[str, int], ...], NDArray[np.float64]] = {}

    def cycles(self, numbers: Mapping[str, int]) -> NDArray[np.float64]:
        """Of all probes with these parameters."""
        key = tuple(numbers.items())
        if key not in self._known:
            board = with_parameters(self.board, numbers)
            timing = Timing.of(board)
            runs = [simulate_time(p.program.instructions, board, timing) for p in self.probes]
            self._known[key] = np.array([float(run.cycles) for run in runs])
        return self._known[key]

    def start(self, numbers: Mapping[str, int]) -> float:
        """Cycles of starting that suit these parameters best, not below none."""
        weights = 1 / self.measured**2
        gaps = self.measured - self.cycles(numbers)
        return max(0.0, float((gaps * weights).sum() / weights.sum()))

    def loss(self, numbers: Mapping[str, int]) -> float:
        """Sum of squared relative differences."""
        predicted = self.cycles(numbers) + self.start(numbers)
        return float(((predicted / self.measured - 1) ** 2).sum())

    def descend(self, first: Mapping[str, int]) -> dict[str, int]:
        """From `first` on, the best in every direction by ever smaller steps."""
        best = dict(first)
        for factor in FACTORS:
            better = True
            while better:
                better = False
                for near in self._neighbours(best, factor):
                    if self.loss(near) < self.loss(best) * (1 - 1e-9):
                        best, better = near, True
        return best

    @staticmethod
    def _neighbours(numbers: Mapping[str, int], factor: float) -> list[dict[str, int]]:
        found: list[dict[str, int]] = []
        for name, value in numbers.items():
            least = LEAST.get(name, 0)
            up = max(value + 1, round(value * factor))
            down = max(least, min(value - 1, round(value / factor)))
            for other in (up, down):
                if other != value:
                    found.append({**numbers, name: other})
        return found
