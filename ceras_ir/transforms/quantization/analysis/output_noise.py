"""
The signal-to-noise ratio of outputs: the single definition for all decisions and reports.

1. The signal of an element is the variance over the samples. A constant carries no signal.
2. The noise of an element is the mean squared error.
3. Signal and noise are summed over the elements of a quantity, see `quantities.py`. An output has
   the mean noise-to-signal ratio of the quantities; a network has the mean ratio of the outputs.
   Quantities and outputs that do not vary are left out.
4. Without a second sample, or if nothing varies, the ratio is NaN, printed as "n/a". All
   comparisons with NaN are false: a decision must not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite, isnan, log10, nan
from typing import Self

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.interpreters.network import in_turn
from ceras_ir.network.function import main_function
from ceras_ir.transforms.quantization.analysis.quantities import Quantities, quantities_of_outputs

Array = NDArray[np.generic]
Powers = NDArray[np.float64]
Outputs = Mapping[str, Array]

ROUNDING = 2.0**-22
"""Relative standard deviation up to which an element is a constant with float32 rounding errors."""


def decibels(signal: float, noise: float) -> float:
    """Return signal power over noise power: infinite without noise, NaN without a signal."""
    if not signal > 0 or isnan(noise):
        return nan
    if noise == 0:
        return float("inf")
    return 10 * (log10(signal) - log10(noise)) if isfinite(noise) else float("-inf")


def decibel_text(ratio: float, unit: str = " dB") -> str:
    """Return a ratio with one decimal, or "n/a" for NaN."""
    return "n/a" if isnan(ratio) else f"{ratio:.1f}{unit}"


class Moments:
    """The mean and the variance of each element over samples."""

    def __init__(self) -> None:
        self.count = 0
        self.mean: Powers = np.zeros(())
        self._squares: Powers = np.zeros(())

    def add(self, rows: Array) -> None:
        """Include samples, first axis samples. Elements that are not finite count as 0."""
        real = rows.astype(np.float64)
        real = np.where(np.isfinite(real), real, 0.0)
        mean = real.mean(axis=0)
        self._include(len(real), mean, np.square(real - mean).sum(axis=0))

    def merge(self, other: Self) -> None:
        """Include the samples of `other`."""
        if other.count:
            self._include(other.count, other.mean, other._squares)

    def _include(self, count: int, mean: Powers, squares: Powers) -> None:
        total = self.count + count
        step = mean - self.mean
        between = np.square(step) * (self.count * count / total)
        self._squares = self._squares + squares + (between if self.count else 0.0)
        self.mean = self.mean + step * (count / total)
        self.count = total

    @property
    def variance(self) -> Powers:
        """Return the unbiased variance of each element; zeros for fewer than two samples."""
        if self.count < 2:
            return np.zeros(self.mean.shape)
        variance = self._squares / (self.count - 1)
        return np.where(variance > np.square(ROUNDING * self.mean), variance, 0.0)


class OutputNoise:
    """Signal and noise of one output over samples. `signal` may come from other samples."""

    def __init__(self, quantities: Quantities | None = None, signal: Moments | None = None) -> None:
        self.quantities = quantities
        self.signal = Moments() if signal is None else signal
        self._noise: Powers = np.zeros(())
        self._count = 0

    def add(self, real: Array, actual: Array) -> float:
        """Include one sample of the reference and of the network; return the sum of squares."""
        self.signal.add(real[None])
        return self.add_noise(real, actual)

    def add_noise(self, real: Array, actual: Array) -> float:
        """Include only the noise of one sample; return the sum of squared errors."""
        squares = squared_errors(real, actual)
        self._noise, self._count = self._noise + squares, self._count + 1
        return float(squares.sum())

    def merge(self, following: Self) -> None:
        """Include the samples of `following`."""
        self.signal.merge(following.signal)
        if following._count:
            self._noise, self._count = (
                self._noise + following._noise,
                self._count + following._count,
            )

    def shares(self) -> Powers:
        """Return the noise-to-signal ratio of each quantity that varies."""
        variance = self.signal.variance.reshape(-1)
        groups = self.groups(variance)
        signal = np.bincount(groups, variance)
        noise = np.bincount(groups, (self._noise / max(self._count, 1)).reshape(-1))
        return noise[signal > 0] / signal[signal > 0]

    def groups(self, variance: Powers) -> NDArray[np.int64]:
        """Return the quantity of each element, by the variances of the elements."""
        known = self.quantities
        if known is None or known.labels.size != variance.size:
            return np.zeros(variance.size, np.int64)
        return known.groups(variance)

    @property
    def share(self) -> float:
        """The mean noise-to-signal ratio of the quantities; NaN if none varies."""
        shares = self.shares()
        return float(shares.mean()) if shares.size else nan

    @property
    def ratio(self) -> float:
        """The signal-to-noise ratio in decibels; NaN if nothing varies."""
        return decibels(1.0, self.share)


def squared_errors(real: Array, actual: Array) -> Powers:
    """
    Return the squared errors of the elements in float64. Equal infinities and two NaN are no error;
    a number that is NaN in only one of the two is an infinite error.
    """
    expected, found = real.astype(np.float64), actual.astype(np.float64)
    same = (expected == found) | (np.isnan(expected) & np.isnan(found))
    with np.errstate(all="ignore"):
        squares = np.square(np.where(same, 0.0, found - expected))
    return np.where(np.isnan(squares), np.inf, squares)


def mean_share(shares: Iterable[float]) -> float:
    """Return the mean noise-to-signal ratio of outputs, without NaN; NaN if there is no other."""
    known = [share for share in shares if not isnan(share)]
    return sum(known) / len(known) if known else nan


def noise_of(
    expected: Sequence[Outputs],
    actual: Sequence[Outputs],
    quantities: Mapping[str, Quantities] | None = None,
) -> dict[str, OutputNoise]:
    """Return signal and noise of each output over the samples."""
    found = {name: OutputNoise((quantities or {}).get(name)) for name in expected[0]}
    for e, a in zip(expected, actual, strict=True):
        for name, noise in found.items():
            noise.add(e[name], a[name])
    return found


def network_ratio(noise: Mapping[str, OutputNoise]) -> float:
    """Return the signal-to-noise ratio of all outputs in decibels; NaN if nothing varies."""
    return decibels(1.0, mean_share(each.share for each in noise.values()))


def ratio_of(
    expected: Sequence[Outputs],
    actual: Sequence[Outputs],
    quantities: Mapping[str, Quantities] | None = None,
) -> float:
    """Return the signal-to-noise ratio of all outputs in decibels; NaN if nothing varies."""
    return network_ratio(noise_of(expected, actual, quantities))


def outputs_of(module: ModuleOp, samples: Iterable[Mapping[str, Array]]) -> list[Outputs]:
    """
    Return the outputs of a network on samples. States continue from sample to sample. Overflow is
    not reported.
    """
    with np.errstate(all="ignore"):
        return list(in_turn(module, samples))


def output_ratio(
    reference: ModuleOp, module: ModuleOp, samples: Sequence[Mapping[str, Array]]
) -> float:
    """Return the signal-to-noise ratio of `module` in decibels, compared with `reference`."""
    quantities = quantities_of_outputs(main_function(reference))
    return ratio_of(outputs_of(reference, samples), outputs_of(module, samples), quantities)
