"""Unpack the weights of operations with a scale for each block, and return their real values."""

import numpy as np
from numpy.typing import NDArray

from ceras_ir.dialects.quant import unpacked


def unpacked_blocks(
    weights: NDArray[np.uint8], points: NDArray[np.uint8] | None, bits: int, size: int
) -> NDArray[np.int16]:
    """
    Return the integers of packed rows [N, bytes] minus their zero points: [N, blocks, size].
    `points` [N, blocks] are the zero points, or `None` for half of the range of `bits` bits.
    """
    flat = np.ascontiguousarray(weights).reshape(-1)
    integers = unpacked(flat, weights.size * 8 // bits, bits).reshape(len(weights), -1, size)
    middle = 1 << bits - 1
    centre = middle if points is None else points[..., None].astype(np.int16)
    return integers.astype(np.int16) - centre


def real_weights(
    integers: NDArray[np.int16], scales: NDArray[np.float32], columns: int
) -> NDArray[np.float32]:
    """
    Return the products of the integers [N, blocks, size] and the scales [N, blocks] of their
    blocks, rounded to float32: [N, columns].
    """
    real = integers.astype(np.float32) * scales[..., None]
    return np.ascontiguousarray(real.reshape(len(integers), -1)[:, :columns])
