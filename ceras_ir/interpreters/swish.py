"""The integers of `graph.shift_swish`, before its rescaling."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def shift_swish(q: NDArray[np.int64], bends: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Of stored numbers; `bends` are five constants, or five for each channel."""
    k0, k1, k2, k3, k4 = np.array(bends, np.int64).T
    p, m = np.maximum(q, -q), np.minimum(q, -q)
    tail = np.minimum((p >> 3) - k2, (p >> 4) - k3)
    tail = np.minimum(np.minimum(tail, (p >> 6) - k4), 0)
    dip = np.maximum(np.maximum(m >> 1, (m >> 2) - k0), np.maximum(-k1, tail))
    return np.maximum(q, 0) + dip
