"""Change values randomly, by a rounding error of float32, in runs of a reference."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import numpy as np
from generated.builder import Array

UNIT = 2.0**-24
TINY = 2.0**-126
"""The smallest normal number of float32; subnormal numbers have a fixed distance."""


class Noise:
    """Random changes of the size of a rounding error; a nonzero `sign` fixes the direction."""

    def __init__(self, seed: int, sign: float = 0.0):
        self.random, self.sign = np.random.default_rng(seed), sign
        self.is_flushing = seed % 2 == 1

    def flushed(self, values: Array) -> Array:
        """In some runs, replace subnormal numbers by 0."""
        is_lost = (np.abs(values) < TINY * (1 + 2.0**-18)) & (self.sign < 0 or self.is_flushing)
        return np.where(is_lost, 0.0, values)

    def moved(self, values: Array, distance: float) -> Array:
        """Draw numbers within `distance` of `values`."""
        return values + distance * (self.sign or self.random.uniform(-1, 1, values.shape))

    def changed(self, values: Array, size: float) -> Array:
        """Draw float32 numbers within about `size` half units of `values`."""
        draws = self.sign or self.random.uniform(-1, 1, values.shape)
        step = UNIT * np.maximum(np.abs(values), TINY)
        with np.errstate(all="ignore"):
            return in_float32(values + size * step * draws)


def in_float32(values: Array) -> Array:
    """Round to float32, and store the result in float64."""
    with np.errstate(all="ignore"):
        return values.astype(np.float32).astype(np.float64)


def is_exact(values: Array) -> Array:
    return (in_float32(values) == values) | ~np.isfinite(values)


def in_range(values: Array) -> Array:
    """Replace values outside the range of float32 by infinity or 0; keep all other values."""
    rounded = in_float32(values)
    return np.where(np.isinf(rounded) | (rounded == 0), rounded, values)


_using: list[Noise | None] = [None]


def current() -> Noise | None:
    """Return the changes of the current run; None for exact results."""
    return _using[-1]


@contextmanager
def using(noise: Noise | None) -> Generator[None]:
    """Apply `noise` to results within the context, in bodies of loops too."""
    _using.append(noise)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _using.pop()
