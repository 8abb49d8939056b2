"""
One array that a value took, and what matters of it.

What lies where the function that reads a value is flat does not matter. It is cut off what is
needed alone, the extremes and some elements: a whole array without it would cost more than all else
that an observer does.
"""

from dataclasses import dataclass
from functools import cached_property
from math import gcd

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float32]

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

    def every(self, step: int) -> "Bounds":
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
