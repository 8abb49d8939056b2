"""
Observers: what calibration keeps of all the arrays that one value takes.

An observer sees one array at a time and keeps none, so that memory does not grow with the
number of samples. To add one, derive from `Extremes` and give it a name in `make_observer`.
"""

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from ceras_ir.network.integer import CANDIDATES, LEAST, LOW, UNUSED, fitting_exponent
from ceras_ir.transforms.quantization.analysis.distribution import (
    POINTS,
    Distribution,
    Function,
    identity,
)
from ceras_ir.transforms.quantization.analysis.seen import Seen
from ceras_ir.transforms.quantization.options import ObserverName

SAME = 1e-9
"""Relative difference of sums that are the same but for the order of their parts."""


class Choice(NamedTuple):
    """How to store a value."""

    exponent: int
    """The exponent, if zero is stored as zero."""
    affine: tuple[int, int] | None = None
    """Exponent and zero point, where a zero point is worth it."""


class Extremes:
    """The observer that clips nothing: the least and the greatest element seen."""

    def __init__(self) -> None:
        self.low, self.high = inf, -inf
        self.functions: Sequence[Function] = (identity,)
        """What reads each kind of channels."""
        self.alike = 1.0
        """How many neighbours are clipped together."""

    def choice(self, *, clips: bool = True) -> Choice:
        """How to store the value; of extremes the range says which zero point would do."""
        return Choice(fitting_exponent(self.magnitude))

    def observe(self, seen: Seen) -> None:
        """Take one array into account."""
        low, high = seen.ends
        self.low, self.high = min(self.low, low), max(self.high, high)

    def merge(self, following: "Extremes") -> None:
        """Take in what another of the same kind saw of the arrays behind these."""
        self.low, self.high = min(self.low, following.low), max(self.high, following.high)

    @property
    def magnitude(self) -> float:
        return max(-self.low, self.high)


class LeastSquaresObserver(Extremes):
    """
    The steps, and the zero point, with the least sum of squared errors over everything seen. An
    error of clipping counts `alike` times: of neighbours such errors have one sign and add up,
    where those of rounding cancel. Of large arrays every k-th element is taken.
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
        # Zeros are exact in any steps; the caller refuses infinities.
        if 0.0 < seen.magnitude < inf:
            kinds = seen.sampled_kinds(self.SAMPLED)
            self.seen.add(seen.sampled(self.SAMPLED), seen.magnitude, kinds)

    def merge(self, following: Extremes) -> None:
        assert isinstance(following, LeastSquaresObserver)
        super().merge(following)
        self.seen.merge(following.seen)

    def choice(self, *, clips: bool = True) -> Choice:
        """
        How to store the value. Without `clips` nothing that was seen is moved by more than half a
        step, behind the function that reads it: what few samples show may be common.
        """
        if self.seen.width is None:
            return Choice(UNUSED)
        first = fitting_exponent(self.magnitude)
        last = min(first, max(first - CANDIDATES + 1, self.seen.width, LEAST))
        errors = self.seen.errors(range(first, last - 1, -1), self.functions, self.alike)
        if not clips:
            ends = min(self.low, 0.0), max(self.high, 0.0)
            for e, of_points in errors.items():
                kept = self.seen.clips_nothing(e, self.functions, ends)
                errors[e] = np.where(kept, of_points, np.inf)
        plain = min(errors, key=lambda e: (errors[e][-LOW], -e))
        chosen = min(errors, key=lambda e: (errors[e].min(), -e))
        least = float(errors[chosen].min())
        if least > self.GAIN * float(errors[plain][-LOW]):
            return Choice(plain)
        # What is free above and below the range is shared as the range is.
        # A sum that is all but nothing may come out below zero.
        best = POINTS[errors[chosen] <= max(least, least * (1 + SAME))]
        low, high = min(self.low, 0.0), max(self.high, 0.0)
        point = int(best[0] + round((len(best) - 1) * -low / (high - low)))
        return Choice(plain, (chosen, point))


def make_observer(name: ObserverName) -> Extremes:
    """A new observer of one value."""
    return Extremes() if name == "minmax" else LeastSquaresObserver()
