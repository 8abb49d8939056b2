"""Groups of rows or positions that need not divide evenly, the last one overlapping."""

import numpy as np
from numpy.typing import NDArray


def earlier(index: str, count: int | str, size: int, divides: bool) -> str:
    """`index`, or where the last group of `size` begins if that is earlier."""
    if divides:
        return index
    return f"{index} < {count} - {size} ? {index} : {count} - {size}"


def groups_of(weights: NDArray[np.integer], count: int) -> NDArray[np.int8]:
    """[groups, count, k]: the last group begins early where rows do not divide evenly."""
    n = len(weights)
    starts = [min(start, n - count) for start in range(0, n, count)]
    return np.stack([weights[s : s + count] for s in starts]).astype(np.int8)
