"""
Observers: what calibration keeps of all the arrays that one value takes.

An observer sees one array at a time and keeps none, so that memory does not grow with the
number of samples. To add one, implement `Observer` and give it a name in `make_observer`.
"""

from typing import Protocol, Self

from ceras_ir.network.exponents import (
    CANDIDATES,
    GREATEST,
    LEAST,
    UNUSED,
    fitting_exponent,
    squared_error,
)
from ceras_ir.transforms.quantization.analysis.extremes import Extremes
from ceras_ir.transforms.quantization.analysis.observer_names import ObserverName
from ceras_ir.transforms.quantization.analysis.seen import Seen


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

    def observe(self, seen: Seen) -> None:
        """Take one array into account; its elements are finite."""
        ...

    def merge(self, following: Self) -> None:
        """Take in what another of the same kind saw of the arrays behind these."""
        ...

    def exponent(self) -> int:
        """The exponent to store the value at."""
        ...


class LeastSquaresObserver(Extremes):
    """
    The exponent with the least sum of squared errors over everything seen.

    Sums are kept for a few exponents around the one at which the first array fits. Where a
    later array needs a coarser one, the sum that it has missed is taken as that of uniform
    rounding noise, `4**e / 12` per element. Of large arrays every k-th element is taken.
    """

    SAMPLED = 1 << 16
    """About how many elements of one array count."""
    HEADROOM = 2
    """How many exponents coarser than the first array needs are followed exactly."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0
        self.errors: dict[int, float] = {}

    def observe(self, seen: Seen) -> None:
        super().observe(seen)
        if self.magnitude == 0.0:
            return  # Zeros are exact at every exponent.
        values = seen.sampled(self.SAMPLED)
        largest = max(-self.last[0], self.last[1])
        fits = fitting_exponent(self.magnitude)
        top = fits if self.errors else fits + self.HEADROOM
        bottom = min(self.errors, default=max(fits - CANDIDATES + 1, LEAST))
        for e in range(bottom, min(top, GREATEST) + 1):
            self.errors.setdefault(e, self._error(e))
        for e in self.errors:
            self.errors[e] += squared_error(values, e, largest=largest)
        self.seen += values.size

    def merge(self, following: Self) -> None:
        self.merge_extremes(following)
        if self.errors and following.errors:
            # What only one has followed is taken as above; too fine for either, it is left out.
            bottom = max(min(self.errors), min(following.errors))
            every = range(bottom, max(*self.errors, *following.errors) + 1)
            self.errors = {e: self._error(e) + following._error(e) for e in every}
        else:
            self.errors = self.errors or dict(following.errors)
        self.seen += following.seen

    def _error(self, exponent: int) -> float:
        return self.errors.get(exponent, self.seen * 4.0**exponent / 12)

    def exponent(self) -> int:
        if not self.errors:
            return UNUSED
        first = fitting_exponent(self.magnitude)
        tried = [e for e in self.errors if first - CANDIDATES < e <= first]
        return min(tried, key=lambda e: (self.errors[e], -e))


class MinMaxObserver(Extremes):
    """The exponent at which nothing that was seen is clipped."""

    def merge(self, following: Self) -> None:
        self.merge_extremes(following)

    def exponent(self) -> int:
        return fitting_exponent(self.magnitude)


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
