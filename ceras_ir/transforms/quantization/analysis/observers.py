"""
Collect statistics of all arrays of a value during calibration, by observers.

An observer receives a single array at a time and does not keep it, so memory does not grow with the
number of samples. To add an observer, derive from `Extremes` and add a name to `make_observer`.

`LeastSquaresObserver` counts a histogram and chooses the scale with the smallest squared error. If
a value has a single consumer that is a function, errors are measured after the function: an error
or a clip at which the function is flat has no effect.
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

from ceras_ir.dialects.quant import BYTE_BITS
from ceras_ir.network.integer import (
    EXPONENT_CANDIDATES,
    MIN_SCALE_EXPONENT,
    ZERO_RANGE_EXPONENT,
    fitting_exponent,
)
from ceras_ir.network.storage import signed_bounds
from ceras_ir.transforms.quantization_options import ObserverName

Floats = NDArray[np.float32]
Points = NDArray[np.int64]
Sums = NDArray[np.floating]
SumFunction = Callable[[Sums], Sums]

HISTOGRAM_BITS = 13
"""A histogram has 2^13 bins, half of them for negative values."""
HEADROOM_BITS = 1
"""The number of bits by which values may exceed the first array before bins are merged."""
ZERO_BIN = 1 << HISTOGRAM_BITS - 1
MERGED_BINS = np.rint((np.arange(1 << HISTOGRAM_BITS) - ZERO_BIN) / 2).astype(np.int64) + ZERO_BIN
"""The new index of each bin when pairs are merged. Ties are added to the even index."""
FINITE_INFINITY = 1e100
"""A substitute for infinity with a finite square."""


def integers_of(bits: int) -> Points:
    """Return the signed integers of `bits` bits, ascending."""
    low, high = signed_bounds(bits)
    return np.arange(low, high + 1)


INT8_POINTS = integers_of(BYTE_BITS)


def identity(x: Sums) -> Sums:
    """
    Return `x`. It is used instead of the consuming function if errors are measured at the value
    itself.
    """
    return x


class Distribution:
    """
    A histogram of the observed elements of a value. Each bin is a multiple of `2**width`. There are
    separate counts for each kind of channel (channels with the same consuming function).

    Elements on multiples, such as pixels, are represented exactly. For the other elements, the mean
    distance from the bins is known.
    """

    def __init__(self) -> None:
        self.width: int | None = None
        self.counts: NDArray[np.integer] = np.zeros((1, 1 << HISTOGRAM_BITS), np.int32)
        self.total = 0
        self.distances, self.squares = 0.0, 0.0
        """The sums of the distances from the multiples, and of their squares."""

    def add(self, values: Floats, magnitude: float, kinds: NDArray[np.int64] | None = None) -> None:
        """
        Add `values` with magnitudes of at most `magnitude` to the histogram. `kinds` has the index
        of the consuming function for consecutive values and repeats along them; `None` means a
        single function.
        """
        top = frexp(magnitude)[1]
        if self.width is None:
            self.width = max(top + HEADROOM_BITS - (HISTOGRAM_BITS - 1), MIN_SCALE_EXPONENT)
        self._widen(top + 1 - (HISTOGRAM_BITS - 1))
        scaled = values * np.float32(ldexp(1.0, -self.width))
        nearest = np.rint(scaled)
        distance = np.subtract(scaled, nearest, out=scaled)
        np.abs(distance, out=distance)
        self.distances += float(distance.sum(dtype=np.float64)) * ldexp(1.0, self.width)
        self.squares += float(np.dot(distance, distance)) * ldexp(1.0, 2 * self.width)
        self._count(values.size)
        bins = nearest.astype(np.int64)
        bins += ZERO_BIN
        if kinds is not None:
            self._split(int(kinds.max()) + 1)
            end = bins.size // kinds.size * kinds.size
            rows = bins[:end].reshape(-1, kinds.size)
            rows += kinds << HISTOGRAM_BITS
            bins[end:] += kinds[: bins.size - end] << HISTOGRAM_BITS
        # `np.bincount` would create an array of all bins for each sample.
        np.add.at(self.counts.reshape(-1), bins, self.counts.dtype.type(1))

    def merge(self, following: Distribution) -> None:
        """Add the counts of the histogram of later samples."""
        if following.width is None:
            return
        if self.width is None:
            self.width = following.width
        width = max(self.width, following.width)
        other = copy(following)  # `_widen` replaces the counts and leaves `following` unchanged.
        other._widen(width)
        self._widen(width)
        self._split(len(other.counts))
        self._count(following.total)
        self.counts[: len(other.counts)] += other.counts
        self.distances += other.distances
        self.squares += other.squares

    def _split(self, kinds: int) -> None:
        if (more := kinds - len(self.counts)) > 0:
            none = np.zeros((more, 1 << HISTOGRAM_BITS), self.counts.dtype)
            self.counts = np.concatenate([self.counts, none])

    def _count(self, more: int) -> None:
        """
        Add `more` to the number of counted elements. Beyond 32 bits, the counts become 64-bit
        integers.
        """
        self.total += more
        if self.total > np.iinfo(self.counts.dtype).max:
            self.counts = self.counts.astype(np.int64)

    def _widen(self, width: int) -> None:
        """Merge pairs of bins until the bins are `2**width` from each other."""
        assert self.width is not None
        for _ in range(min(width - self.width, HISTOGRAM_BITS + 1)):
            moved = int(self.counts[:, 1::2].sum())
            self.distances += moved * ldexp(1.0, self.width)
            self.squares += moved * ldexp(1.0, 2 * self.width)
            self.width += 1
            joined = np.zeros_like(self.counts)
            np.add.at(joined.T, MERGED_BINS, self.counts.T)
            self.counts = joined
        self.width = max(self.width, width)

    def errors(
        self,
        exponents: Iterable[int],
        functions: Sequence[SumFunction],
        clipped: float = 1.0,
        *,
        points: Points = INT8_POINTS,
    ) -> dict[int, Sums]:
        """
        Return, for each exponent e, a vector: the sum of squared errors with each zero point of
        `points`, if the elements are stored as one of the integers `points` with the scale 2^e.
        Errors are measured after the consuming function of each kind of channel. Errors by clipping
        are multiplied by `clipped`.
        """
        kinds = list(self._kinds(functions))
        none = np.zeros(len(points))
        return {
            e: sum((kind.errors(ldexp(1.0, e), clipped, points) for kind in kinds), none)
            for e in exponents
        }

    def clips_nothing(
        self,
        exponent: int,
        functions: Sequence[SumFunction],
        bounds: tuple[float, float],
        points: Points,
    ) -> NDArray[np.bool_]:
        """
        Return a vector: whether the zero point of `points` at this index clips no element
        noticeably at the scale `2**exponent`, in the integers `points`. Clipping may change the
        results of the consuming functions by at most half a unit. `bounds` are the minimum and the
        maximum of the elements.
        """
        exact = np.ones(len(points), np.bool_)
        for kind in self._kinds(functions):
            exact &= kind.keeps(bounds, ldexp(1.0, exponent), points)
        return exact

    def _kinds(self, functions: Sequence[SumFunction]) -> Iterator[_Kind]:
        assert self.width is not None
        width, total = ldexp(1.0, self.width), max(self.total, 1)
        means = self.distances / total, self.squares / total
        for counts, function in zip(self.counts, functions, strict=False):  # Some were never seen.
            if (bins := np.flatnonzero(counts)).size:
                yield _Kind((bins - ZERO_BIN) * width, counts[bins], function, width, *means)


@dataclass(frozen=True)
class _Kind:
    """
    The histogram of the channels with the same consuming function: elements in ascending order
    (`numbers`), their counts, and the function.
    """

    numbers: Sums
    counts: NDArray[np.integer]
    function: SumFunction
    width: float
    distance: float
    """The mean distance of the observed elements from these values."""
    squares: float
    """The mean squared distance."""

    @cached_property
    def _results(self) -> Sums:
        return self._apply(self.numbers)

    @cached_property
    def _slopes(self) -> Sums:
        """
        The squared slope of the consuming function at each bin, by which squared errors inside the
        bin are multiplied.
        """
        above, below = (self._apply(self.numbers + side * self.width / 2) for side in (1, -1))
        return np.square((above - below) / self.width)

    @cached_property
    def _moments(self) -> list[Sums]:
        return [_cumulated(self.counts * power) for power in (1.0, self._results, self._results**2)]

    def errors(self, step: float, clipped: float, points: Points) -> Sums:
        stored = np.rint(self.numbers / step)
        # Half of the elements nearest to a tie are rounded up.
        halfway = np.abs(self.numbers / step - stored) == 0.5
        within = self._slopes * (self.squares - step * self.distance * halfway)
        rounding = np.square(self._apply(stored * step) - self._results) + within
        inside = _cumulated(self.counts * rounding)
        low, high = int(points[0]) - points, int(points[-1]) - points
        first, last = np.searchsorted(stored, low), np.searchsorted(stored, high, side="right")
        below = self._clipped(low * step, [s[first] for s in self._moments])
        above = self._clipped(high * step, [s[-1] - s[last] for s in self._moments])
        return inside[last] - inside[first] + clipped * (below + above)

    def keeps(self, bounds: tuple[float, float], step: float, points: Points) -> NDArray[np.bool_]:
        """
        Return a vector: whether the zero point of `points` at this index clips only where the
        result of the function changes by less than the rounding error of a unit `step`. `bounds`
        are the minimum and the maximum of the elements.
        """
        tolerance = step / 2 * float(np.sqrt(self._slopes.max()))
        # Only a part of the elements was counted, but the bounds are known.
        numbers = np.concatenate([[bounds[0]], self.numbers, [bounds[1]]])
        kept = np.ones(len(points), np.bool_)
        for side, limits in (
            (numbers, int(points[0]) - points),
            (-numbers[::-1], points - int(points[-1])),
        ):
            sign = 1 if side is numbers else -1
            clipped = np.searchsorted(side, limits * step)
            results, limit = self._apply(sign * side), self._apply(sign * limits * step)
            for extreme in (np.maximum, np.minimum):
                found = extreme.accumulate(results)[clipped - 1]
                kept &= (clipped == 0) | (np.abs(found - limit) <= tolerance)
        return kept

    def _clipped(self, end: Sums, moments: Sequence[Sums]) -> Sums:
        """
        Return the sum of squared errors after the consuming function if elements are clipped to
        `end`. `moments` are the count, the sum and the sum of squares of the results for these
        elements.
        """
        count, linear, square = moments
        limit = self._apply(end)
        return np.maximum(square - 2 * limit * linear + np.square(limit) * count, 0.0)

    def _apply(self, numbers: Sums) -> Sums:
        with np.errstate(all="ignore"):
            return np.nan_to_num(
                self.function(numbers), nan=0.0, posinf=FINITE_INFINITY, neginf=-FINITE_INFINITY
            )


def _cumulated(values: Sums) -> Sums:
    return np.concatenate([[0.0], np.cumsum(values)])


ROW_ELEMENTS = 1 << 12
"""The number of elements in a row for which all extremes are computed together."""


@dataclass(frozen=True)
class Bounds:
    """
    The arguments beyond which a consuming function is nearly constant: a pair for all channels, or
    a pair of vectors with an entry per channel.
    """

    low: Floats
    high: Floats

    def clip(self, array: Floats) -> Floats:
        """Return a copy of `array`, clipped to the bounds."""
        result = np.asarray(np.maximum(array, self.low))
        return np.minimum(result, self.high, out=result)

    def strided(self, step: int) -> Bounds:
        """
        Return the bounds of each `step`-th element of an array in which the channels alternate, in
        the order of these elements.
        """
        order = np.arange(self.low.size) * step % self.low.size
        return Bounds(self.low[order], self.high[order])


@dataclass(frozen=True)
class ObservedArray:
    """
    The elements of a value for a sample, as observers receive them, with the bounds beyond which
    elements have no effect on the consumer.

    Only the extremes and a selection of the elements are clipped to the bounds, because clipping
    all elements would take longer than the rest of an observer.
    """

    array: Floats
    bounds: Bounds | None = None
    kinds: NDArray[np.int64] | None = None
    """An index for each channel. Channels with equal indices have the same consumer."""

    @cached_property
    def _unclipped_extremes(self) -> tuple[Floats, Floats]:
        """
        The minimum and the maximum of the array before clipping, or of each channel if bounds are
        per channel.
        """
        if self.bounds is None or not self.bounds.low.ndim:
            return np.asarray(self.array.min()), np.asarray(self.array.max())
        return _channel_extremes(self.array.reshape(-1, self.bounds.low.size))

    @property
    def is_finite(self) -> bool:
        """Whether all elements of the array are finite, including elements beyond the bounds."""
        # A NaN or an infinity is an extreme.
        low, high = self._unclipped_extremes
        return bool(np.isfinite(low).all() and np.isfinite(high).all())

    @cached_property
    def extremes(self) -> tuple[float, float]:
        """The minimum and the maximum of the array, clipped to the bounds."""
        low, high = self._unclipped_extremes
        if self.bounds is not None:
            low, high = self.bounds.clip(low), self.bounds.clip(high)
        return float(low.min()), float(high.max())

    @property
    def magnitude(self) -> float:
        """The largest magnitude of the array, clipped to the bounds."""
        return max(-self.extremes[0], self.extremes[1])

    @property
    def channel_peaks(self) -> Floats:
        """The largest magnitude of each channel, clipped to the bounds."""
        extremes = self._unclipped_extremes
        if self.bounds is None or not self.bounds.low.ndim:
            extremes = _channel_extremes(self.array.reshape(-1, (1, *self.array.shape)[-1]))
        low, high = extremes if self.bounds is None else map(self.bounds.clip, extremes)
        return np.maximum(-low, high)

    @property
    def clipped(self) -> Floats:
        """The array, clipped to the bounds."""
        return self.array if self.bounds is None else self.bounds.clip(self.array)

    def _step(self, count: int) -> int:
        """
        Return a stride with which about `count` elements are selected. It has no common divisor
        with the size of the array, so that all channels occur equally often.
        """
        step = max(1, self.array.size // count)
        while gcd(step, self.array.size) != 1:
            step += 1
        return step

    def sampled(self, count: int) -> Floats:
        """Return about `count` elements of the array at equal distances, clipped to the bounds."""
        step = self._step(count)
        chosen = np.ascontiguousarray(self.array.reshape(-1)[::step])
        if self.bounds is None:
            return chosen
        if not self.bounds.low.ndim:
            return self.bounds.clip(chosen)
        bounds = self.bounds.strided(step)
        period = bounds.low.size
        end = chosen.size // period * period
        rest = Bounds(bounds.low[: chosen.size - end], bounds.high[: chosen.size - end])
        rows = bounds.clip(chosen[:end].reshape(-1, period)).reshape(-1)
        return np.concatenate([rows, rest.clip(chosen[end:])]) if end < chosen.size else rows

    def sampled_kinds(self, count: int) -> NDArray[np.int64] | None:
        """
        Return the index of the consuming function for consecutive elements of `sampled(count)`; it
        repeats along them. Return `None` if all channels have the same function.
        """
        if self.kinds is None:
            return None
        order = np.arange(self.kinds.size) * self._step(count) % self.kinds.size
        return self.kinds[order]


def _channel_extremes(rows: Floats) -> tuple[Floats, Floats]:
    count, channels = rows.shape
    group = max(min(ROW_ELEMENTS // channels, count), 1)
    grouped = count // group * group
    joined, rest = rows[:grouped].reshape(-1, group * channels), rows[grouped:]
    found: list[Floats] = []
    for function in (np.minimum, np.maximum):
        extremes = function.reduce(function.reduce(joined).reshape(-1, channels))
        found.append(function(extremes, function.reduce(rest)) if len(rest) else extremes)
    return found[0], found[1]


SUM_TOLERANCE = 1e-9
"""The relative difference of equal sums that are added in different orders."""


class ChosenStorage(NamedTuple):
    """
    The storage that an observer chooses for a value: the exponent of the scale for symmetric
    storage and, if a zero point is better, a pair of exponent and zero point.
    """

    exponent: int
    """The exponent with zero point 0."""
    affine: tuple[int, int] | None = None
    """The exponent and the zero point, if a zero point reduces the error enough."""


class Extremes:
    """
    The observer that records the minimum and the maximum element of a value, and clips no element.
    """

    def __init__(self) -> None:
        self.low, self.high = inf, -inf
        self.functions: Sequence[SumFunction] = (identity,)
        """The consumer of each kind of channel."""
        self.clipping_weight = 1.0
        """The weight of clipping errors compared with rounding errors."""
        self.bits = BYTE_BITS
        """The bits in which the value will be stored, at most 8."""

    def choice(self, *, clips: bool = True) -> ChosenStorage:
        """
        Return the exponent of the scale at which no observed element is clipped, regardless of
        `clips`. No zero point is chosen here: the pass `choose-zero-points` derives it from the
        range.
        """
        return ChosenStorage(self._fitting)

    @property
    def _fitting(self) -> int:
        return fitting_exponent(self.magnitude, signed_bounds(self.bits)[1])

    def observe(self, array: ObservedArray) -> None:
        """Add the elements of the value for a sample."""
        low, high = array.extremes
        self.low, self.high = min(self.low, low), max(self.high, high)

    def merge(self, following: Extremes) -> None:
        """Add the statistics of an observer of the same class over later samples."""
        self.low, self.high = min(self.low, following.low), max(self.high, following.high)

    @property
    def magnitude(self) -> float:
        return max(-self.low, self.high)


class LeastSquaresObserver(Extremes):
    """
    The observer that chooses the exponent of the scale, and the zero point, with the smallest sum
    of squared errors over all observed elements.

    Clipping errors have the weight `clipping_weight`: in neighboring elements they have the same
    sign and add up, while rounding errors cancel. Of large arrays, only a part of the elements is
    counted.
    """

    MAX_SAMPLED = 1 << 15
    """The approximate number of elements of an array that are counted."""
    MAX_ERROR_RATIO = 0.9
    """The maximum ratio of the errors with and without zero point for which it pays."""

    def __init__(self) -> None:
        super().__init__()
        self.distribution = Distribution()

    def observe(self, array: ObservedArray) -> None:
        super().observe(array)
        # Zeros are exact with any scale, and the caller refuses infinities.
        if 0.0 < array.magnitude < inf:
            kinds = array.sampled_kinds(self.MAX_SAMPLED)
            self.distribution.add(array.sampled(self.MAX_SAMPLED), array.magnitude, kinds)

    def merge(self, following: Extremes) -> None:
        assert isinstance(following, LeastSquaresObserver)
        super().merge(following)
        self.distribution.merge(following.distribution)

    def choice(self, *, clips: bool = True) -> ChosenStorage:
        """
        Return the storage with the smallest sum of squared errors. If `clips` is false, only
        storages that clip no element noticeably are permitted: the result of the consumer changes
        by at most half a unit.
        """
        if self.distribution.width is None:
            return ChosenStorage(ZERO_RANGE_EXPONENT)
        first, points = self._fitting, integers_of(self.bits)
        last = min(
            first, max(first - EXPONENT_CANDIDATES + 1, self.distribution.width, MIN_SCALE_EXPONENT)
        )
        exponents = range(first, last - 1, -1)
        errors = self.distribution.errors(
            exponents, self.functions, self.clipping_weight, points=points
        )
        if not clips:
            bounds = min(self.low, 0.0), max(self.high, 0.0)
            for e, of_points in errors.items():
                fits = self.distribution.clips_nothing(e, self.functions, bounds, points)
                errors[e] = np.where(fits, of_points, np.inf)
        plain = min(errors, key=lambda e: (errors[e][-points[0]], -e))
        chosen = min(errors, key=lambda e: (errors[e].min(), -e))
        min_error = float(errors[chosen].min())
        if min_error > self.MAX_ERROR_RATIO * float(errors[plain][-points[0]]):
            return ChosenStorage(plain)
        # Of the zero points with the smallest error, divide the unused integers below and above in
        # proportion to the range. Rounding may make a sum near zero negative.
        best = points[errors[chosen] <= max(min_error, min_error * (1 + SUM_TOLERANCE))]
        low, high = min(self.low, 0.0), max(self.high, 0.0)
        point = int(best[0] + round((len(best) - 1) * -low / (high - low)))
        return ChosenStorage(plain, (chosen, point))


def make_observer(name: ObserverName) -> Extremes:
    """
    Return a new observer of a value. `name` is the value of the option `observer`: `minmax` clips
    no element, the other names choose by squared errors.
    """
    return Extremes() if name == "minmax" else LeastSquaresObserver()
