"""
The order of input channels in which fewest words of four have a weight.

A filter's product with a word of four channels costs the same whether one or all of its weights
are zero, so channels that have weights together belong together. Two instructions bring 64 channels
into an order: one that moves bytes within 16, and one that moves pairs among 64; so pairs are made
within 16 channels, by how often both have a weight, and words of pairs within 64.
"""

import numpy as np
from numpy.typing import NDArray

LANE, CHUNK = 16, 64
"""Channels that one instruction brings into pairs, and that the other does."""


def clustered(nonzero: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The channel at each place, for weights [products of a channel, channels]; in chunks."""
    rows, channels = nonzero.shape
    assert channels % CHUNK == 0
    if not rows:
        return np.arange(channels, dtype=np.int64)
    order: list[NDArray[np.int64]] = []
    for start in range(0, channels, CHUNK):
        lanes = range(start, start + CHUNK, LANE)
        pairs = np.concatenate([_matched(nonzero[:, i : i + LANE]) + i for i in lanes])
        either: NDArray[np.bool_] = nonzero[:, pairs[:, 0]] | nonzero[:, pairs[:, 1]]
        order.append(pairs[_matched(either)].reshape(-1))
    return np.concatenate(order)


def _matched(sets: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Pairs of columns [pairs, 2], those that have most rows in common first."""
    values = sets.astype(np.float32)
    first, second = np.triu_indices(sets.shape[1], 1)
    common = (values.T @ values)[first, second]
    free = np.ones(sets.shape[1], np.bool_)
    pairs: list[tuple[int, int]] = []
    for i in np.argsort(-common, kind="stable").tolist():
        a, b = int(first[i]), int(second[i])
        if free[a] and free[b]:
            free[[a, b]] = False
            pairs.append((a, b))
    return np.array(pairs, np.int64)


def shuffles(order: NDArray[np.int64]) -> NDArray[np.uint8]:
    """
    For each chunk the bytes that both instructions take: which byte of its 16 goes where, and which
    pair of 64 bytes does, as numbers of 16 bits.
    """
    tables: list[NDArray[np.uint8]] = []
    for chunk in (order.reshape(-1, CHUNK) % CHUNK).reshape(-1, CHUNK // 2, 2):
        lanes = chunk[:, 0] // LANE
        assert (lanes == chunk[:, 1] // LANE).all()
        by_lane = np.argsort(lanes, kind="stable")
        where = np.empty(CHUNK // 2, np.uint16)
        where[by_lane] = np.arange(CHUNK // 2)
        tables += [(chunk[by_lane] % LANE).reshape(-1).astype(np.uint8), where.view(np.uint8)]
    return np.concatenate(tables)
