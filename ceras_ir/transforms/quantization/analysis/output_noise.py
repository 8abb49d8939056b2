"""How far the outputs of one network are from those of another."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.interpreters.network import run

Array = NDArray[np.generic]
Outputs = Mapping[str, Array]


def decibels(signal: float, noise: float) -> float:
    """Power of a signal over that of its error; infinite where there is none."""
    return float("inf") if noise == 0 else 10 * float(np.log10(max(signal, 1e-300) / noise))


class OutputNoise:
    """Power of all outputs and of their errors, one sample after the other."""

    def __init__(self) -> None:
        self._powers: dict[str, tuple[float, float]] = {}

    def add(self, expected: Outputs, actual: Outputs) -> None:
        for name, values in expected.items():
            real = values.astype(np.float64)
            signal, noise = self._powers.get(name, (0.0, 0.0))
            noise += float(np.square(actual[name].astype(np.float64) - real).sum())
            self._powers[name] = signal + float(np.square(real).sum()), noise

    def ratio(self) -> float:
        """Signal to noise in decibels, each output with the same weight."""
        shares = [noise / max(signal, 1e-300) for signal, noise in self._powers.values()]
        return -10 * float(np.log10(max(np.mean(shares), 1e-30)))


def ratio_of(expected: Iterable[Outputs], actual: Iterable[Outputs]) -> float:
    """Signal to noise in decibels of all outputs, each with the same weight."""
    noise = OutputNoise()
    for pair in zip(expected, actual, strict=True):
        noise.add(*pair)
    return noise.ratio()


def outputs_of(module: ModuleOp, samples: Iterable[Mapping[str, Array]]) -> list[Outputs]:
    """The outputs of a network on samples; what overflows is somebody else's error."""
    with np.errstate(all="ignore"):
        return [run(module, sample) for sample in samples]


def output_ratio(
    reference: ModuleOp, module: ModuleOp, samples: Sequence[Mapping[str, Array]]
) -> float:
    """Signal to noise in decibels of the outputs of `module` against `reference` on samples."""
    return ratio_of(outputs_of(reference, samples), outputs_of(module, samples))
