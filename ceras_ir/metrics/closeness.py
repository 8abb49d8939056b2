"""How close the outputs of a quantized network are to those of the float one."""

from collections.abc import Iterable
from typing import Self

import numpy as np

from ceras_ir.metrics.figures import Chosen, Figure, Outputs, Reading, Shares
from ceras_ir.transforms.quantization.analysis.output_noise import decibels, mean_decibels


class Closeness:
    """Signal to noise and mean squared error of every output."""

    def __init__(self, names: Iterable[str]):
        self._noise = {name: Shares() for name in names}
        self._error = {name: Shares() for name in self._noise}

    def add(self, real: Outputs, quantized: Outputs) -> None:
        for name in self._noise:
            exact = real[name].astype(np.float64)
            noise = float(np.square(quantized[name].astype(np.float64) - exact).sum())
            self._noise[name].add(noise, float(np.square(exact).sum()))
            self._error[name].add(noise, max(exact.size, 1))

    def ratio(self) -> float:
        """Signal to noise in decibels over all samples, each output with the same weight."""
        return mean_decibels(noise.total() for noise in self._noise.values())

    def merge(self, following: Self) -> None:
        for name in self._noise:
            self._noise[name].merge(following._noise[name])
            self._error[name].merge(following._error[name])

    def figures(self) -> list[Figure]:
        found: list[Figure] = []
        for name, noise in self._noise.items():
            prefix = f"{name}: " if len(self._noise) > 1 else ""
            found.append(Figure(f"{prefix}signal to noise (dB)", _in_decibels(noise)))
            found.append(Figure(f"{prefix}mean squared error", self._error[name].reading()))
        return found


def _in_decibels(noise: Shares) -> Reading:
    sums = noise.sums()

    def read(chosen: Chosen) -> float:
        part, whole = sums(chosen)
        return decibels(whole, part)

    return read
