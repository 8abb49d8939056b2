"""Several groups of a convolution as one, with weights of zero between channels of others."""

import numpy as np
from numpy.typing import NDArray


def block_diagonal(weights: NDArray[np.generic], groups: int, together: int) -> NDArray[np.generic]:
    """Weights [O, ..., C/groups] for the channels of so many groups `together`."""
    if together == 1:
        return weights
    outputs, *taps, channels = weights.shape
    wide = np.zeros((outputs, *taps, together, channels), weights.dtype)
    per_group = outputs // groups
    for o in range(outputs):
        wide[o, ..., o // per_group % together, :] = weights[o]
    return wide.reshape(outputs, *taps, together * channels)
