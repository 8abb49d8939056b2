"""Groups of rows or positions that need not divide evenly, the last one overlapping."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.requant import Rescaling


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


def epilogue_at(
    rescale: Rescaling, value: str, distance: int, y: str, terms: Sequence[str]
) -> list[str]:
    """The epilogue of one of a group's outputs, so far from its corner."""
    lines = rescale.lines([value, *terms], f"{y}[at + o]")
    return [f"{{ const int32_t at = corner + {distance};", *(f"  {t}" for t in lines), "}"]
