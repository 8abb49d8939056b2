"""
Figures of merit of a float network and a quantized one, over samples.

A metric sees the outputs of one sample at a time and keeps what its figures need, so that memory
does not grow with the outputs. A figure can be read for any choice of samples: that is how its
standard error is found.
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.generic]
Outputs: TypeAlias = Mapping[str, Array]
Chosen: TypeAlias = NDArray[np.integer]
"""Numbers of samples, some of them several times."""
Reading: TypeAlias = Callable[[Chosen], float]

RESAMPLED = 50
"""How often samples are drawn again for a standard error."""

MOST = 300.0
"""Decibels of a network that is exact, so that differences are finite."""


@dataclass(frozen=True)
class Figure:
    """One number of a quantized network, and of the float one where it has that number too."""

    name: str
    quantized: Reading
    real: Reading | None = None
    cheap: bool = True
    """Whether it may be read often only to know its error."""


class Metric(Protocol):
    """Judges outputs, first axis samples: each call of `add` brings those of one more."""

    def add(self, real: Outputs, quantized: Outputs) -> None: ...

    def merge(self, following: Self) -> None:
        """Take in what another of the same kind saw of the samples behind these."""
        ...

    def figures(self) -> list[Figure]:
        """What was measured; called once, behind the last sample."""
        ...


def drawn(count: int) -> NDArray[np.integer]:
    """Choices of `count` samples out of as many, with replacement; the same at every call."""
    return np.random.default_rng(0).integers(0, count, (RESAMPLED, count))


def gain(before: Reading, after: Reading, count: int) -> tuple[float, float]:
    """By how much one reading exceeds another on all samples, and its standard error."""
    every = [np.arange(count), *drawn(count)]
    gains = [min(after(chosen), MOST) - min(before(chosen), MOST) for chosen in every]
    return gains[0], float(np.std(gains[1:]))


class Shares:
    """A share of each sample: so much out of so much."""

    def __init__(self) -> None:
        # Packed: there is one row for each of many samples.
        self._rows = array("d")

    def add(self, part: float, whole: float) -> None:
        self._rows.append(part)
        self._rows.append(whole)

    def merge(self, following: "Shares") -> None:
        """Take in the shares of the samples behind these."""
        self._rows.extend(following._rows)

    def total(self) -> tuple[float, float]:
        """The part and the whole of all samples."""
        return self.sums()(np.arange(len(self._rows) // 2))

    def sums(self) -> Callable[[Chosen], tuple[float, float]]:
        """The sum of the parts and the sum of the wholes."""
        rows = np.array(self._rows, np.float64).reshape(-1, 2)

        def read(chosen: Chosen) -> tuple[float, float]:
            part, whole = rows[chosen].sum(0)
            return float(part), float(whole)

        return read

    def reading(self) -> Reading:
        """The sum of the parts over the sum of the wholes; 0 of nothing."""
        sums = self.sums()

        def read(chosen: Chosen) -> float:
            part, whole = sums(chosen)
            return part / whole if whole else 0.0

        return read


def mean_of(readings: Sequence[Reading]) -> Reading:
    return lambda chosen: float(np.mean([reading(chosen) for reading in readings]))


@dataclass(frozen=True)
class Measured:
    """One number of the float network where it has one, and of the quantized."""

    name: str
    real: float | None
    quantized: float
    error: float | None = None
    """Of the difference, its standard error."""


def measured(figures: Sequence[Figure], count: int) -> list[Measured]:
    """All figures on all samples."""
    every, found = np.arange(count), list[Measured]()
    for figure in figures:
        if figure.real is None:
            found.append(Measured(figure.name, None, figure.quantized(every)))
            continue
        real = figure.real(every)
        error = gain(figure.real, figure.quantized, count)[1] if figure.cheap else None
        found.append(Measured(figure.name, real, figure.quantized(every), error))
    return found
