"""
The parameters of a board from the times of the probes on it: those with which the timed simulator's
cycles, and a constant for starting, come nearest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.vta.board import HlsModel, VtaBoard
from ceras_ir.backends.vta.calibration.streams import Probe
from ceras_ir.backends.vta.machine.time import Timing, simulate_time

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
