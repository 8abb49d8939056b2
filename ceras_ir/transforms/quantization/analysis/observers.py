"""
Observers: what calibration keeps of all the arrays that one value takes.

An observer sees one array at a time and keeps none, so that memory does not grow with the
number of samples. To add one, implement `Observer` and give it a name in `make_observer`.
"""

from collections.abc import Sequence
from math import inf
from typing import Protocol, Self

from ceras_ir.network.exponents import CANDIDATES, LEAST, LOW, UNUSED, fitting_exponent
from ceras_ir.transforms.quantization.analysis.distribution import (
    POINTS,
    Distribution,
    Function,
)
from ceras_ir.transforms.quantization.analysis.extremes import Choice, Extremes
from ceras_ir.transforms.quantization.analysis.observer_names import ObserverName
from ceras_ir.transforms.quantization.analysis.seen import Seen

SAME = 1e-9
"""Relative difference of sums that are the same but for the order of their parts."""


def make_observer(name: ObserverName) -> "Observer":
    """A new observer of one value."""
    from ceras_ir.transforms.quantization.analysis.histogram_observers import (
        EntropyObserver,
        PercentileObserver,
    )

    match name:
        case "auto" | "mse":
            return LeastSquaresObserver()
        case "minmax":
            return MinMaxObserver()
        case "average":
            return MovingAverageObserver()
        case "percentile":
            return PercentileObserver()
        case "entropy":
            return EntropyObserver()


class Observer(Protocol):
    """Statistics of one value."""

    low: float
    """The least element seen."""
    high: float
    """The greatest element seen."""
    last: tuple[float, float]
    """Those of the array that was seen last."""
    functions: Sequence[Function]
    """What reads each kind of channels; errors are judged behind it."""

    def observe(self, seen: Seen) -> None:
        """Take one array into account; its elements are finite."""
        ...

    def merge(self, following: Self) -> None:
        """Take in what another of the same kind saw of the arrays behind these."""
        ...

    def exponent(self) -> int:
        """The exponent to store the value at, if zero is stored as zero."""
        ...

    def choice(self) -> Choice:
        """The same, and what a zero point would allow."""
        ...


class LeastSquaresObserver(Extremes):
    """
    The steps, and the zero point, with the least sum of squared errors over everything seen. Of
    large arrays every k-th element is taken.
    """

    SAMPLED = 1 << 15
    """About how many elements of one array count."""
    GAIN = 0.9
    """What a zero point must leave of the error, or less: without one there is less to compute."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = Distribution()

    def observe(self, seen: Seen) -> None:
        super().observe(seen)
        largest = max(-self.last[0], self.last[1])
        if 0.0 < largest < inf:  # Zeros are exact in any steps; the caller refuses infinities.
            kinds = seen.sampled_kinds(self.SAMPLED)
            self.seen.add(seen.sampled(self.SAMPLED), largest, kinds)

    def merge(self, following: Self) -> None:
        self.merge_extremes(following)
        self.seen.merge(following.seen)

    def exponent(self) -> int:
        return self.choice().exponent

    def choice(self) -> Choice:
        if self.seen.width is None:
            return Choice(UNUSED)
        first = fitting_exponent(self.magnitude)
        last = min(first, max(first - CANDIDATES + 1, self.seen.width, LEAST))
        errors = self.seen.errors(range(first, last - 1, -1), self.functions)
        plain = min(errors, key=lambda e: (errors[e][-LOW], -e))
        chosen = min(errors, key=lambda e: (errors[e].min(), -e))
        least = float(errors[chosen].min())
        if least > self.GAIN * float(errors[plain][-LOW]):
            return Choice(plain)
        # What is free above and below the range is shared as the range is.
        best = POINTS[errors[chosen] <= least * (1 + SAME)]
        low, high = min(self.low, 0.0), max(self.high, 0.0)
        point = int(best[0] + round((len(best) - 1) * -low / (high - low)))
        return Choice(plain, (chosen, point))


class MinMaxObserver(Extremes):
    """The exponent at which nothing that was seen is clipped."""

    def merge(self, following: Self) -> None:
        self.merge_extremes(following)


class MovingAverageObserver(Extremes):
    """
    The exponent that holds a moving average of the extremes of each sample, in which a new one
    counts for a tenth: one strange sample does not decide.
    """

    WEIGHT = 0.1

    def __init__(self) -> None:
        super().__init__()
        self.average: float | None = None
        self.start, self.kept = 0.0, 1.0
        """What the average started from, and what is left of that in it."""

    def observe(self, seen: Seen) -> None:
        super().observe(seen)
        peak = max(-self.last[0], self.last[1])
        if self.average is None:
            self.average = self.start = peak
        self.average += self.WEIGHT * (peak - self.average)
        self.kept *= 1 - self.WEIGHT

    def merge(self, following: Self) -> None:
        self.merge_extremes(following)
        if self.average is None or following.average is None:
            both = (self, following) if self.average is not None else (following, following)
            self.average, self.start, self.kept = both[0].average, both[0].start, both[0].kept
            return
        # The other started from its own first peak instead of from this average.
        self.average = following.average + following.kept * (self.average - following.start)
        self.kept *= following.kept

    def exponent(self) -> int:
        return fitting_exponent(self.average or 0.0)
