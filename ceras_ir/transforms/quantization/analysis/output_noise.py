"""How far the outputs of one network are from those of another."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.interpreters.sequence import in_turn

Array = NDArray[np.generic]
Outputs = Mapping[str, Array]


def decibels(signal: float, noise: float) -> float:
    """Power of a signal over that of its error; infinite where there is none."""
    return float("inf") if noise == 0 else 10 * float(np.log10(max(signal, 1e-300) / noise))


def mean_decibels(powers: Iterable[tuple[float, float]]) -> float:
    """Signal to noise of several outputs, (noise, signal), each with the same weight."""
    shares = [noise / max(signal, 1e-300) for noise, signal in powers]
    return -10 * float(np.log10(max(np.mean(shares), 1e-30)))


def ratio_of(expected: Sequence[Outputs], actual: Sequence[Outputs]) -> float:
    """Signal to noise in decibels of all outputs, each with the same weight."""
    powers: list[tuple[float, float]] = []
    for name in expected[0]:
        real = np.stack([e[name] for e in expected]).astype(np.float64)
        error = np.stack([a[name] for a in actual]).astype(np.float64) - real
        powers.append((float(np.square(error).sum()), float(np.square(real).sum())))
    return mean_decibels(powers)


def outputs_of(module: ModuleOp, samples: Iterable[Mapping[str, Array]]) -> list[Outputs]:
    """
    The outputs of a network on samples, of which its states go on; what overflows is somebody
    else's error.
    """
    with np.errstate(all="ignore"):
        return list(in_turn(module, samples))


def output_ratio(
    reference: ModuleOp, module: ModuleOp, samples: Sequence[Mapping[str, Array]]
) -> float:
    """Signal to noise in decibels of the outputs of `module` against `reference` on samples."""
    return ratio_of(outputs_of(reference, samples), outputs_of(module, samples))
