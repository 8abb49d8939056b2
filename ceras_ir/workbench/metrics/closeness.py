"""How close the outputs of a quantized network are to those of the float one."""

from array import array
from collections.abc import Iterable, Mapping
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ceras_ir.transforms.quantization.analysis.output_noise import (
    OutputNoise,
    decibels,
    mean_share,
)
from ceras_ir.transforms.quantization.analysis.quantities import Quantities
from ceras_ir.workbench.metrics.figures import Chosen, Figure, Outputs, Reading, Shares


class Closeness:
    """Signal-to-noise ratio and mean squared error of every output."""

    def __init__(self, names: Iterable[str], quantities: Mapping[str, Quantities] | None = None):
        known = quantities or {}
        self.noise = {name: OutputNoise(known.get(name)) for name in names}
        self._powers = {name: array("d") for name in self.noise}
        """The noise of each sample."""
        self._error = {name: Shares() for name in self.noise}

    def add(self, real: Outputs, quantized: Outputs) -> None:
        for name, noise in self.noise.items():
            for exact, found in zip(real[name], quantized[name], strict=True):
                power = noise.add(exact, found)
                self._powers[name].append(power)
                self._error[name].add(power, max(exact.size, 1))

    def ratio(self) -> float:
        """Return the signal-to-noise ratio of all outputs in decibels; NaN if nothing varies."""
        return decibels(1.0, mean_share(noise.share for noise in self.noise.values()))

    def merge(self, following: Self) -> None:
        for name in self.noise:
            self.noise[name].merge(following.noise[name])
            self._powers[name].extend(following._powers[name])
            self._error[name].merge(following._error[name])

    def figures(self) -> list[Figure]:
        found: list[Figure] = []
        for name, noise in self.noise.items():
            prefix = f"{name}: " if len(self.noise) > 1 else ""
            ratio = _in_decibels(noise.ratio, np.array(self._powers[name]))
            found.append(Figure(f"{prefix}signal to noise (dB)", ratio))
            found.append(Figure(f"{prefix}mean squared error", self._error[name].reading()))
        return found


def _in_decibels(ratio: float, powers: NDArray[np.float64]) -> Reading:
    """
    Read the ratio for any choice of samples: the signal is that of all samples, and the noise
    changes as the mean noise does.
    """
    mean = float(powers.mean())

    def read(chosen: Chosen) -> float:
        return ratio + decibels(mean, float(powers[chosen].mean())) if mean > 0 else ratio

    return read
