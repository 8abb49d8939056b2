"""Find by which powers of two the channels of a value differ from those of another network."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]

ALIKE = 0.5
"""Of a channel's power, what a multiple of the other's must explain for both to be the same."""

CERTAIN = 4.0
"""How many times the noise of the other channels a factor must explain not to be noise itself."""


def channel_ratios(wanted: NDArray[np.floating], found: NDArray[np.floating]) -> Vector:
    """
    What each channel of `found`, its last axis, is to be multiplied by to be as `wanted`: powers
    of two, as `equalize-channels` makes them. Channels that do something else, or may differ by
    noise alone, stay as they are.
    """
    axes = tuple(range(wanted.ndim - 1))
    mine = (found.astype(np.float64) ** 2).sum(axis=axes)
    theirs = (wanted.astype(np.float64) ** 2).sum(axis=axes)
    both = (found.astype(np.float64) * wanted).sum(axis=axes)
    ratio = both / np.where(mine > 0, mine, 1)
    known = (ratio > 0) & (both**2 > ALIKE * mine * theirs)
    factors = np.exp2(np.where(known, np.rint(np.log2(np.where(known, ratio, 1))), 0))

    def error(by: Vector | float) -> Vector:
        return np.sqrt(np.maximum(theirs - 2 * by * both + by**2 * mine, 0))

    # A channel of one element that is near zero may be any multiple of the other's.
    noise = np.median(error(factors)[theirs > 0]) if (theirs > 0).any() else 0.0
    return np.where(error(1.0) > CERTAIN * noise, factors, 1.0)
