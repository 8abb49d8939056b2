"""
How often a value took which numbers, and the steps that store them with the least squared error.

What one function alone reads is judged behind that function: an error where it is flat does not
matter, and a number that is clipped there neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from math import frexp, ldexp

import numpy as np
from numpy.typing import NDArray

from ceras_ir.network.integer import HIGH, LEAST, LOW

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
POINTS = np.arange(LOW, HIGH + 1)
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
            self.width = max(top + HEADROOM - (BITS - 1), LEAST)
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
        low, high = LOW - POINTS, HIGH - POINTS
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
        for beyond, limits in ((numbers, LOW - POINTS), (-numbers[::-1], POINTS - HIGH)):
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
