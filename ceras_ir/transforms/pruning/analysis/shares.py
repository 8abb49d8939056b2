"""
Shares of zeros for a target: the least loss that a cost allows, or the least cost at a loss.

Every layer has a loss and a cost at each share of a list; they add over layers. The choice is a
knapsack of classes, solved exactly but for costs that are rounded up to a part of the budget.
"""

from math import log2

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]
"""[layers, shares]"""

PARTS = 4096
"""Of a budget: what each layer takes is rounded up to so many."""


def best_within(values: Table, costs: Table, budget: float) -> list[int] | None:
    """The share of each layer that makes the least of values within a budget; None if none does."""
    parts = np.ceil(np.minimum(costs / budget, 2.0) * PARTS).astype(np.int64)
    best = np.zeros(PARTS + 1)
    taken: list[NDArray[np.intp]] = []
    for value, part in zip(values, parts, strict=True):
        options = np.full((len(value), PARTS + 1), np.inf)
        for option, (v, p) in enumerate(zip(value, part, strict=True)):
            if p <= PARTS:
                options[option, p:] = best[: PARTS + 1 - p] + v
        taken.append(np.argmin(options, axis=0))
        best = np.min(options, axis=0)
    if not np.isfinite(best[PARTS]):
        return None
    chosen, left = list[int](), PARTS
    for part, option in zip(reversed(parts), reversed(taken), strict=True):
        chosen.append(int(option[left]))
        left -= int(part[chosen[-1]])
    return chosen[::-1]


def encoded_bytes(sizes: NDArray[np.int64], shares: NDArray[np.float64], item: int) -> Table:
    """
    Bytes of layers of so many weights of `item` bytes at each share of zeros, in their smallest
    encoding: all of them, a bitmap, or places at the entropy of their distances and a tenth.
    """
    result = np.empty((len(sizes), len(shares)))
    for j, share in enumerate(shares):
        kept = 1.0 - share
        entropy = 0.0 if share in (0.0, 1.0) else -(share * log2(share) + kept * log2(kept))
        values = sizes * kept * item
        listed = np.minimum(values + sizes / 8, values + sizes * entropy / 8 * 1.1)
        result[:, j] = np.minimum(sizes * item, listed)
    return result
