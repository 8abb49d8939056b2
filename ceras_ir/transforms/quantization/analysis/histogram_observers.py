"""Observers that keep a histogram: percentile, and least loss of information (entropy)."""

from math import frexp, ldexp
from typing import Self

import numpy as np

from ceras_ir.network.exponents import CANDIDATES, LEAST, UNUSED, fitting_exponent
from ceras_ir.transforms.quantization.analysis.extremes import Extremes
from ceras_ir.transforms.quantization.analysis.seen import Seen

BITS = 12
"""2^12 bars from zero to a power of two."""
LEVELS_BITS = 7
"""int8 has 2^7 levels on each side of zero."""
PERCENTILE = 0.9999
"""The share of elements that a percentile observer does not clip."""


class Magnitudes(Extremes):
    """
    How often magnitudes fall into each of 2^12 equal parts of [0, 2^top), whatever their number.

    Where a greater one comes the range doubles and two bars become one, so that bars always
    lie on powers of two, and so do the steps of every exponent that is tried.
    """

    def __init__(self) -> None:
        super().__init__()
        self.top = LEAST
        self.counts = np.zeros(1 << BITS, np.int64)
        self.zeros = 0

    def observe(self, seen: Seen) -> None:
        super().observe(seen)
        magnitudes = np.abs(seen.whole).reshape(-1).astype(np.float64)
        greatest = float(magnitudes.max(initial=0.0))
        if not np.isfinite(greatest):
            return  # The caller refuses what is not finite.
        if greatest > 0.0:
            self._reach(frexp(greatest)[1])
        filled = magnitudes[magnitudes > 0.0]
        self.zeros += magnitudes.size - filled.size
        if filled.size:
            bars = np.floor(filled * ldexp(1.0, BITS - self.top)).astype(np.int64)
            self.counts += np.bincount(bars, minlength=1 << BITS)

    def merge(self, following: Self) -> None:
        self.merge_extremes(following)
        if following.counts.any():
            self._reach(following.top)
            counts = following.counts
            # Their bars are finer: the same doubling, of a copy.
            for _ in range(min(self.top - following.top, BITS + 1)):
                pairs = counts.reshape(-1, 2).sum(axis=1)
                counts = np.concatenate([pairs, np.zeros_like(pairs)])
            self.counts = self.counts + counts
        self.zeros += following.zeros

    def _reach(self, top: int) -> None:
        if not self.counts.any():
            self.top = max(self.top, top)
        for _ in range(min(top - self.top, BITS + 1)):
            pairs = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts = np.concatenate([pairs, np.zeros_like(pairs)])
        self.top = max(self.top, top)

    def candidates(self) -> list[int]:
        """The exponent that overflows nowhere, and finer ones."""
        first = fitting_exponent(self.magnitude)
        return list(range(first, max(first - CANDIDATES, LEAST - 1), -1))


class PercentileObserver(Magnitudes):
    """The exponent that clips at most one element of 10,000, as far as bars tell them apart."""

    def exponent(self) -> int:
        total = int(self.counts.sum()) + self.zeros
        if not self.counts.any():
            return UNUSED
        kept = np.cumsum(self.counts) + self.zeros
        bar = int(np.argmax(kept >= PERCENTILE * total))
        reached = min(ldexp(bar + 1, self.top - BITS), self.magnitude)
        return fitting_exponent(reached)


class EntropyObserver(Magnitudes):
    """
    The exponent at which the least information is lost: of the distribution P of magnitudes, what
    is beyond added to the last bar, and Q, in which all bars of one step are alike, the
    Kullback-Leibler divergence `sum P log(P / Q)`. Zeros, which are exact anywhere, do not count.
    """

    def exponent(self) -> int:
        if not self.counts.any():
            return UNUSED
        losses = {e: self._loss(e) for e in self.candidates()}
        return min(losses, key=lambda e: (losses[e], -e))

    def _loss(self, exponent: int) -> float:
        step = exponent - (self.top - BITS)
        if step < 0:
            return np.inf  # Finer than the bars.
        reach = min(1 << min(step + LEVELS_BITS, BITS), 1 << BITS)
        inside, beyond = self.counts[:reach].astype(np.float64), int(self.counts[reach:].sum())
        if not inside.any():
            return np.inf  # Everything would be clipped.
        group = min(1 << step, reach)
        sums = inside.reshape(-1, group).sum(axis=1)
        used = (inside > 0).reshape(-1, group).sum(axis=1)
        spread = np.repeat(sums / np.maximum(used, 1), group) * (inside > 0)
        clipped = inside.copy()
        clipped[-1] += beyond
        spread[-1] = max(float(spread[-1]), 1e-9)
        p, q = clipped / clipped.sum(), spread / spread.sum()
        some = p > 0
        return float((p[some] * np.log(p[some] / q[some])).sum())
