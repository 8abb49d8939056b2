"""
Observers: what calibration keeps of all the arrays that one value takes.

An observer sees one array at a time and keeps none, so that memory does not grow with the
number of samples. To add one, derive from `Extremes` and give it a name in `make_observer`.

The first part counts how often a value took which numbers, and chooses the steps that store them
with the least squared error. What one function alone reads is judged behind that function: an error
where it is flat does not matter, and a number that is clipped there neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from math import frexp, gcd, inf, ldexp
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ceras_ir.network.integer import (
    EXPONENT_CANDIDATES,
    INT8_HIGH,
    INT8_LOW,
    MIN_SCALE_EXPONENT,
    ZERO_RANGE_EXPONENT,
    fitting_exponent,
)
from ceras_ir.transforms.quantization_options import ObserverName

# How often a value took which numbers, and the steps that store them with the least squared error.

Reals = NDArray[np.float32]
Sums = NDArray[np.floating]
Function = Callable[[Sums], Sums]

BITS = 13
"""2^13 bars, half of them below zero."""
HEADROOM = 1
"""By how many bits more than in the first array numbers may grow before bars are joined."""
CENTRE = 1 << BITS - 1
JOINED = np.rint((np.arange(1 << BITS) - CENTRE) / 2).astype(np.int64) + CENTRE
"""Where each bar goes when bars are joined: those between two others to the even one."""
POINTS = np.arange(INT8_LOW, INT8_HIGH + 1)
"""The zero points that int8 may have."""
FAR = 1e100
"""What stands for infinity: its square is finite."""


def identity(x: Sums) -> Sums:
    """What reads a value that is not judged behind a function."""
    return x


class Distribution:
    """
    How often numbers were nearest to each multiple of a power of two, `2**width`; apart for each of
    several kinds of channels. What lies on multiples, as pixels do, is known exactly, and of all
    else how far it is off on average.
    """

    def __init__(self) -> None:
        self.width: int | None = None
        self.counts: NDArray[np.integer] = np.zeros((1, 1 << BITS), np.int32)
        self.total = 0
        self.off, self.squares = 0.0, 0.0
        """Sums of the distances from the multiples, and of their squares."""

    def add(self, values: Reals, magnitude: float, kinds: NDArray[np.int64] | None = None) -> None:
        """Count `values`, none above `magnitude`, each of its kind; kinds come again and again."""
        top = frexp(magnitude)[1]
        if self.width is None:
            self.width = max(top + HEADROOM - (BITS - 1), MIN_SCALE_EXPONENT)
        self._widen(top + 1 - (BITS - 1))
        scaled = values * np.float32(ldexp(1.0, -self.width))
        nearest = np.rint(scaled)
        off = np.abs(scaled - nearest)
        self.off += float(off.sum(dtype=np.float64)) * ldexp(1.0, self.width)
        self.squares += float(np.dot(off, off)) * ldexp(1.0, 2 * self.width)
        self._count(values.size)
        bars = nearest.astype(np.int64) + CENTRE
        if kinds is not None:
            self._split(int(kinds.max()) + 1)
            end = bars.size // kinds.size * kinds.size
            rows = bars[:end].reshape(-1, kinds.size)
            rows += kinds << BITS
            bars[end:] += kinds[: bars.size - end] << BITS
        self.counts += np.bincount(bars, minlength=self.counts.size).reshape(self.counts.shape)

    def merge(self, following: Distribution) -> None:
        """Take in what another counted."""
        if following.width is None:
            return
        if self.width is None:
            self.width = following.width
        width = max(self.width, following.width)
        other = copy(following)  # Wider bars are new ones, so that its own stay.
        other._widen(width)
        self._widen(width)
        self._split(len(other.counts))
        self._count(following.total)
        self.counts[: len(other.counts)] += other.counts
        self.off, self.squares = self.off + other.off, self.squares + other.squares

    def _split(self, kinds: int) -> None:
        if (more := kinds - len(self.counts)) > 0:
            none = np.zeros((more, 1 << BITS), self.counts.dtype)
            self.counts = np.concatenate([self.counts, none])

    def _count(self, more: int) -> None:
        """Make room for so many more: 32 bits hold those of some ten thousand samples."""
        self.total += more
        if self.total > np.iinfo(self.counts.dtype).max:
            self.counts = self.counts.astype(np.int64)

    def _widen(self, width: int) -> None:
        """Join bars until they are so wide."""
        assert self.width is not None
        for _ in range(min(width - self.width, BITS + 1)):
            moved = int(self.counts[:, 1::2].sum())
            self.off += moved * ldexp(1.0, self.width)
            self.squares += moved * ldexp(1.0, 2 * self.width)
            self.width += 1
            joined = np.zeros_like(self.counts)
            np.add.at(joined.T, JOINED, self.counts.T)
            self.counts = joined
        self.width = max(self.width, width)

    def errors(
        self, exponents: Iterable[int], functions: Sequence[Function], clipped: float = 1.0
    ) -> dict[int, Sums]:
        """
        Of each exponent, the sums of squared errors behind the function of each kind, one for each
        zero point of `POINTS`, of what is stored in steps of `2**exponent`. Errors of what is
        clipped count `clipped` times.
        """
        kinds = list(self._kinds(functions))
        none = np.zeros(len(POINTS))
        return {
            e: sum((kind.errors(ldexp(1.0, e), clipped) for kind in kinds), none) for e in exponents
        }

    def clips_nothing(
        self, exponent: int, functions: Sequence[Function], ends: tuple[float, float]
    ) -> NDArray[np.bool_]:
        """
        Of each zero point, whether steps of `2**exponent` move nothing by more than half a step,
        behind the function of any kind; `ends` are the least and the greatest number.
        """
        kept = np.ones(len(POINTS), np.bool_)
        for kind in self._kinds(functions):
            kept &= kind.keeps(ends, ldexp(1.0, exponent))
        return kept

    def _kinds(self, functions: Sequence[Function]) -> Iterator[_Kind]:
        assert self.width is not None
        width, total = ldexp(1.0, self.width), max(self.total, 1)
        off = self.off / total, self.squares / total
        for counts, function in zip(self.counts, functions, strict=False):  # Some were never seen.
            if (bars := np.flatnonzero(counts)).size:
                yield _Kind((bars - CENTRE) * width, counts[bars], function, width, *off)


@dataclass(frozen=True)
class _Kind:
    """Numbers in ascending order, how often each was seen, and what reads them."""

    numbers: Sums
    counts: NDArray[np.integer]
    function: Function
    width: float
    off: float
    """How far what was seen is from these numbers on average."""
    squares: float
    """The same, squared."""

    @cached_property
    def _results(self) -> Sums:
        return self._read(self.numbers)

    @cached_property
    def _slopes(self) -> Sums:
        """Squared slopes: what errors within the width of a bar are multiplied by."""
        above, below = (self._read(self.numbers + side * self.width / 2) for side in (1, -1))
        return np.square((above - below) / self.width)

    @cached_property
    def _moments(self) -> list[Sums]:
        """Counts, results and squares of them, of all numbers below each."""
        return [_cumulated(self.counts * power) for power in (1.0, self._results, self._results**2)]

    def errors(self, step: float, clipped: float) -> Sums:
        """Of each zero point."""
        stored = np.rint(self.numbers / step)
        # Of what is nearest to a number half way between two steps, half is rounded up.
        halfway = np.abs(self.numbers / step - stored) == 0.5
        within = self._slopes * (self.squares - step * self.off * halfway)
        rounding = np.square(self._read(stored * step) - self._results) + within
        inside = _cumulated(self.counts * rounding)
        low, high = INT8_LOW - POINTS, INT8_HIGH - POINTS
        first, last = np.searchsorted(stored, low), np.searchsorted(stored, high, side="right")
        below = self._clipped(low * step, [s[first] for s in self._moments])
        above = self._clipped(high * step, [s[-1] - s[last] for s in self._moments])
        return inside[last] - inside[first] + clipped * (below + above)

    def keeps(self, ends: tuple[float, float], step: float) -> NDArray[np.bool_]:
        """Of each zero point, whether clipping moves no number by more than rounding may."""
        reach = step / 2 * float(np.sqrt(self._slopes.max()))
        # Not all that was seen was counted; the ends are known.
        numbers = np.concatenate([[ends[0]], self.numbers, [ends[1]]])
        kept = np.ones(len(POINTS), np.bool_)
        for beyond, limits in ((numbers, INT8_LOW - POINTS), (-numbers[::-1], POINTS - INT8_HIGH)):
            sign = 1 if beyond is numbers else -1
            clipped = np.searchsorted(beyond, limits * step)
            results, limit = self._read(sign * beyond), self._read(sign * limits * step)
            for extreme in (np.maximum, np.minimum):
                found = extreme.accumulate(results)[clipped - 1]
                kept &= (clipped == 0) | (np.abs(found - limit) <= reach)
        return kept

    def _clipped(self, end: Sums, moments: Sequence[Sums]) -> Sums:
        """The squared error of numbers beyond `end`, of which these are the moments."""
        count, linear, square = moments
        limit = self._read(end)
        return np.maximum(square - 2 * limit * linear + np.square(limit) * count, 0.0)

    def _read(self, numbers: Sums) -> Sums:
        with np.errstate(all="ignore"):
            return np.nan_to_num(self.function(numbers), nan=0.0, posinf=FAR, neginf=-FAR)


def _cumulated(values: Sums) -> Sums:
    return np.concatenate([[0.0], np.cumsum(values)])


# One array that a value took, and what matters of it.
#
# What lies where the function that reads a value is flat does not matter. It is cut off what is
# needed alone, the extremes and some elements: a whole array without it would cost more than all
# else that an observer does.

LONG = 1 << 12
"""Elements of the rows whose extremes are found at once, all of one length."""


@dataclass(frozen=True)
class Bounds:
    """Between which elements matter: one pair for all of them, or one for each channel."""

    least: Reals
    most: Reals

    def kept(self, array: Reals) -> Reals:
        """A copy of `array` whose elements are moved to the nearest bound."""
        result = np.asarray(np.maximum(array, self.least))
        return np.minimum(result, self.most, out=result)

    def every(self, step: int) -> Bounds:
        """Those of channels of every `step`-th element."""
        order = np.arange(self.least.size) * step % self.least.size
        return Bounds(self.least[order], self.most[order])


@dataclass(frozen=True)
class Seen:
    """An array, whose elements matter between `bounds`, if there are any."""

    array: Reals
    bounds: Bounds | None = None
    kinds: NDArray[np.int64] | None = None
    """A number for each channel, the same where the same is done with them."""

    @cached_property
    def _all_ends(self) -> tuple[Reals, Reals]:
        """The least and the greatest element of all, or of each channel where bounds differ."""
        if self.bounds is None or not self.bounds.least.ndim:
            return np.asarray(self.array.min()), np.asarray(self.array.max())
        return _channel_ends(self.array.reshape(-1, self.bounds.least.size))

    @property
    def is_finite(self) -> bool:
        """Whether all elements are, those that do not matter too."""
        # Extremes tell: NaN is one, and so is an infinity.
        return all(bool(np.isfinite(end).all()) for end in self._all_ends)

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest element of what matters."""
        low, high = self._all_ends
        if self.bounds is not None:
            low, high = self.bounds.kept(low), self.bounds.kept(high)
        return float(low.min()), float(high.max())

    @property
    def magnitude(self) -> float:
        """The largest magnitude of what matters."""
        return max(-self.ends[0], self.ends[1])

    @property
    def channel_peaks(self) -> Reals:
        """The largest magnitude of what matters in each channel."""
        ends = self._all_ends
        if self.bounds is None or not self.bounds.least.ndim:
            ends = _channel_ends(self.array.reshape(-1, (1, *self.array.shape)[-1]))
        low, high = ends if self.bounds is None else map(self.bounds.kept, ends)
        return np.maximum(-low, high)

    @property
    def whole(self) -> Reals:
        """All elements, as far as they matter."""
        return self.array if self.bounds is None else self.bounds.kept(self.array)

    def _step(self, count: int) -> int:
        """Of large arrays about `count` elements are taken, fair to all channels."""
        step = max(1, self.array.size // count)
        while gcd(step, self.array.size) != 1:
            step += 1
        return step

    def sampled(self, count: int) -> Reals:
        """Every k-th element of a large array; k is coprime to extents."""
        step = self._step(count)
        chosen = np.ascontiguousarray(self.array.reshape(-1)[::step])
        if self.bounds is None:
            return chosen
        if not self.bounds.least.ndim:
            return self.bounds.kept(chosen)
        bounds = self.bounds.every(step)
        period = bounds.least.size
        end = chosen.size // period * period
        rest = Bounds(bounds.least[: chosen.size - end], bounds.most[: chosen.size - end])
        rows = bounds.kept(chosen[:end].reshape(-1, period)).reshape(-1)
        return np.concatenate([rows, rest.kept(chosen[end:])]) if end < chosen.size else rows

    def sampled_kinds(self, count: int) -> NDArray[np.int64] | None:
        """The kinds of the same elements, again and again, if there is more than one."""
        if self.kinds is None:
            return None
        order = np.arange(self.kinds.size) * self._step(count) % self.kinds.size
        return self.kinds[order]


def _channel_ends(rows: Reals) -> tuple[Reals, Reals]:
    """The least and the greatest element of each column; several rows are a long one."""
    count, channels = rows.shape
    group = max(min(LONG // channels, count), 1)
    whole = count // group * group
    parts = [rows[:whole].reshape(-1, group * channels), rows[whole:]]
    found = [
        np.stack([part.min(axis=0), part.max(axis=0)]).reshape(2, -1, channels)
        for part in parts
        if len(part)
    ]
    ends = np.concatenate(found, axis=1)
    return ends[0].min(axis=0), ends[1].max(axis=0)


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

    def merge(self, following: Extremes) -> None:
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
            return Choice(ZERO_RANGE_EXPONENT)
        first = fitting_exponent(self.magnitude)
        last = min(first, max(first - EXPONENT_CANDIDATES + 1, self.seen.width, MIN_SCALE_EXPONENT))
        errors = self.seen.errors(range(first, last - 1, -1), self.functions, self.alike)
        if not clips:
            ends = min(self.low, 0.0), max(self.high, 0.0)
            for e, of_points in errors.items():
                kept = self.seen.clips_nothing(e, self.functions, ends)
                errors[e] = np.where(kept, of_points, np.inf)
        plain = min(errors, key=lambda e: (errors[e][-INT8_LOW], -e))
        chosen = min(errors, key=lambda e: (errors[e].min(), -e))
        least = float(errors[chosen].min())
        if least > self.GAIN * float(errors[plain][-INT8_LOW]):
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
