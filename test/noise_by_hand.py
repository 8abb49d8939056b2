"""Compute the signal-to-noise ratio of an output in numpy, from the definition."""

import numpy as np
from numpy.typing import NDArray


def ratio_by_hand(expected: NDArray[np.generic], actual: NDArray[np.generic]) -> float:
    """Return the summed variance over samples, divided by the mean squared error, in decibels."""
    real, found = expected.astype(np.float64), actual.astype(np.float64)
    signal = real.var(axis=0, ddof=1).sum()
    noise = np.square(found - real).sum() / len(real)
    return float(10 * np.log10(signal / noise))
