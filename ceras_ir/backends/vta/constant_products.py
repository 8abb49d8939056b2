"""
Constants of output channels as products: digits in tiles of weights, times a vector with what each
digit counts. The GEMM core adds a tile in one cycle for each vector of results, where the ALU takes
two for a constant, and the load module brings it while the core multiplies.
"""

import numpy as np
from numpy.typing import NDArray

MOST = 127
"""Of a digit, and what all digits but the first count."""
MOST_TILES = 2
"""With more, the ALU takes less."""


def radix(lanes: int) -> NDArray[np.int8]:
    """What the digits in a tile count."""
    return np.array([1] + [MOST] * (lanes - 1), np.int8)


def tiles_for(values: NDArray[np.integer], lanes: int) -> int:
    """Tiles whose digits reach all `values`; 0 if `MOST_TILES` do not."""
    largest, each = int(np.abs(values).max()), MOST * MOST * (lanes - 1)
    count = max(1, -(-(largest - MOST // 2) // each))
    return count if count <= MOST_TILES else 0


def digits(values: NDArray[np.integer], tiles: int, lanes: int) -> NDArray[np.int8]:
    """`[.., tiles, lanes]`; `values` are the sums of the products with `radix(lanes)`."""
    wide = values.astype(np.int64)
    rest = (wide + MOST // 2) // MOST
    ones = wide - MOST * rest
    columns: list[NDArray[np.int64]] = []
    for place in range(tiles * lanes):
        if place % lanes == 0:
            columns.append(np.zeros_like(wide) if place else ones)
            continue
        columns.append(np.clip(rest, -MOST, MOST))
        rest = rest - columns[-1]
    assert not rest.any(), "constants beyond the reach of their digits"
    return np.stack(columns, axis=-1).astype(np.int8).reshape(*wide.shape, tiles, lanes)
