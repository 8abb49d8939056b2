"""Add the bias of a convolution by products in lanes of its input that would be empty."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.vta.channel_constants import folded_bias
from ceras_ir.backends.vta.constant_products import MOST, tiles_for
from ceras_ir.backends.vta.rescaling import zero_point
from ceras_ir.dialects import graph

FEWEST = 2
"""Lanes: one that counts ones, and one that counts more."""


@dataclass(frozen=True, eq=False)
class SpareLanes:
    """Constant channels behind those of the input, what weights have for them, and the new bias."""

    channels: tuple[int, ...]
    """The number in each."""
    weights: NDArray[np.generic]
    bias: NDArray[np.int32]


def bias_in_spare_lanes(
    op: graph.Conv2dOp, weights: NDArray[np.generic], lanes: int
) -> SpareLanes | None:
    """
    The bias of `op` in lanes that `weights` [O, KH, KW, C] leave empty, all of it or so much that
    one tile of the rest is enough; None where that is not to be had. Every position must have all
    taps, as the added channels are nowhere padded.

    Exact: what the products add is taken from the bias.
    """
    o, kh, kw, c = weights.shape
    spare, taps, total = -c % lanes, kh * kw, folded_bias(op)
    if spare < FEWEST or op.bias is None or not total.any():
        return None
    reach = MOST * MOST * (spare - 1) * taps
    part = np.clip(total, -reach, reach)
    before, after = tiles_for(total, lanes), tiles_for(total - part, lanes)
    if (part != total).any() and not (after == 1 and before != 1):
        return None
    rest = (part + MOST // 2) // MOST
    added = np.zeros((o, kh, kw, spare), np.int64)
    added[:, 0, 0, 0] = part - MOST * rest
    for tap in np.ndindex(kh, kw):
        for lane in range(1, spare):
            digit = np.clip(rest, -MOST, MOST)
            added[:, *tap, lane] = digit
            rest = rest - digit
    assert not rest.any()
    channels = (1, *(MOST,) * (spare - 1))
    sums = (added * (np.array(channels) - zero_point(op.input))).reshape(o, -1).sum(axis=1)
    bias = graph.known_array(op.bias).astype(np.int64) - sums
    wide = np.concatenate([weights, added.astype(weights.dtype)], axis=3)
    return SpareLanes(channels, wide, bias.astype(np.int32))
