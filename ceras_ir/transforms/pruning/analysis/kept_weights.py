"""
Which weights of a layer stay, by method. Weights are [filters, ...], the products of a filter as
they lie in memory; of equal magnitudes the first go first.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float32]
Kept = NDArray[np.bool_]
Rule = Callable[[Weights, float], Kept]
"""The weights that stay when a share goes."""


def above(weights: Weights, threshold: float) -> Kept:
    """Those of at least a magnitude."""
    return np.abs(weights) >= threshold


def by_magnitude(weights: Weights, share: float) -> Kept:
    """All but the share of least magnitudes of the layer."""
    return _kept(np.abs(weights).reshape(1, -1), share).reshape(weights.shape)


def by_filter(weights: Weights, share: float) -> Kept:
    """All but the share of least magnitudes of each filter: equally many of each (S5)."""
    return _kept(np.abs(weights).reshape(len(weights), -1), share).reshape(weights.shape)


def n_of_m(weights: Weights, n: int, m: int) -> Kept:
    """The `n` greatest of each `m` products of a filter; of a rest, the same part rounded up."""
    flat = np.abs(weights).reshape(len(weights), -1)
    rows, columns = flat.shape
    whole = columns // m * m
    kept = np.zeros(flat.shape, np.bool_)
    groups = flat[:, :whole].reshape(-1, m)
    kept[:, :whole] = _largest(groups, n).reshape(rows, whole)
    if rest := columns - whole:
        kept[:, whole:] = _largest(flat[:, whole:], -(-rest * n // m))
    return kept.reshape(weights.shape)


def in_blocks(weights: Weights, share: float, block: tuple[int, int]) -> Kept:
    """
    All but the share of blocks of `filters x products` whose mean square is least. Blocks at the
    ends are smaller where they do not divide the layer.
    """
    flat = np.square(weights.reshape(len(weights), -1), dtype=np.float64)
    sizes = _block_sums(np.ones(flat.shape), block)
    means = _block_sums(flat, block) / sizes
    kept = _kept(means.reshape(1, -1), share).reshape(means.shape)
    high, wide = block
    rows, columns = np.indices(flat.shape)
    return kept[rows // high, columns // wide].reshape(weights.shape)


def _block_sums(flat: NDArray[np.float64], block: tuple[int, int]) -> NDArray[np.float64]:
    """Sums over blocks, the last of which may be smaller."""
    high, wide = block
    rows, columns = -(-flat.shape[0] // high), -(-flat.shape[1] // wide)
    padded = np.zeros((rows * high, columns * wide))
    padded[: flat.shape[0], : flat.shape[1]] = flat
    return padded.reshape(rows, high, columns, wide).sum(axis=(1, 3))


def over_all(layers: Sequence[Weights], share: float) -> list[Kept]:
    """All but the share of least magnitudes of all layers together."""
    sizes = np.cumsum([weights.size for weights in layers])[:-1]
    flat = np.concatenate([np.abs(weights).reshape(-1) for weights in layers])
    kept = _kept(flat[None], share)[0]
    parts = np.split(kept, sizes)
    return [part.reshape(w.shape) for part, w in zip(parts, layers, strict=True)]


def _kept(scores: NDArray[np.floating], share: float) -> Kept:
    """For each row, all but its least `floor(share * size)`."""
    gone = int(share * scores.shape[1] + 1e-9)
    kept = np.ones(scores.shape, np.bool_)
    if gone:
        order = np.argsort(scores, axis=1, kind="stable")[:, :gone]
        np.put_along_axis(kept, order, False, axis=1)
    return kept


def _largest(scores: NDArray[np.floating], count: int) -> Kept:
    """The `count` greatest of each row."""
    kept = np.zeros(scores.shape, np.bool_)
    order = np.argsort(scores, axis=1, kind="stable")[:, scores.shape[1] - count :]
    np.put_along_axis(kept, order, True, axis=1)
    return kept
