"""
Which input elements `graph.resize` and `graph.pad` read: indices and weights per dimension.
"""

from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from ceras_ir.dialects.graph.layout import Coordinates, Nearest
from ceras_ir.dialects.graph.selection import Pad


def coordinate(index: int, scale: float, size: int, output: int, mode: Coordinates) -> float:
    """The position of an output index in the input, every step rounded to float32."""
    if output == 1 and mode in (Coordinates.PYTORCH_HALF_PIXEL, Coordinates.ALIGN_CORNERS):
        return 0.0
    i, s, n, m = (np.float32(v) for v in (index, scale, size, output))
    half, one = np.float32(0.5), np.float32(1)
    match mode:
        case Coordinates.HALF_PIXEL | Coordinates.PYTORCH_HALF_PIXEL:
            return float((i + half) / s - half)
        case Coordinates.ALIGN_CORNERS:
            return float(i * (n - one) / (m - one))
        case Coordinates.ASYMMETRIC:
            return float(i / s)
        case Coordinates.HALF_PIXEL_SYMMETRIC:
            offset = n / np.float32(2) * (one - m / (s * n))
            return float(offset + (i + half) / s - half)


TIE = 1e-6
"""So near to half an integer a coordinate is taken for one: it may be off by its rounding."""


def nearest_indices(
    size: int, output: int, scale: float, mode: Coordinates, rounding: Nearest
) -> list[int]:
    """For each output index the input index that is copied."""
    result: list[int] = []
    for i in range(output):
        x = coordinate(i, scale, size, output, mode)
        match rounding:
            case Nearest.ROUND_PREFER_FLOOR:
                index = ceil(x - 0.5 - TIE)
            case Nearest.ROUND_PREFER_CEIL:
                index = floor(x + 0.5 + TIE)
            case Nearest.FLOOR:
                index = floor(x)
            case Nearest.CEIL:
                index = ceil(x)
        result.append(min(max(index, 0), size - 1))
    return result


def linear_weights(
    size: int, output: int, scale: float, mode: Coordinates
) -> tuple[list[int], list[int], NDArray[np.float32]]:
    """For each output index its two neighbours and the float32 weight of the second."""
    low: list[int] = []
    high: list[int] = []
    weight = np.zeros(output, np.float32)
    for i in range(output):
        x = min(max(coordinate(i, scale, size, output, mode), 0.0), size - 1.0)
        low.append(floor(x))
        high.append(min(floor(x) + 1, size - 1))
        weight[i] = np.float32(x - floor(x))
    return low, high, weight


def border_indices(kind: Pad, extent: int, low: int, high: int) -> NDArray[np.int64]:
    """For each index of a padded dimension the input's index that it repeats."""
    index = np.arange(-low, extent + high, dtype=np.int64)
    match kind:
        case Pad.EDGE:
            return np.clip(index, 0, extent - 1)
        case Pad.WRAP:
            return index % extent
        case _:
            return (extent - 1) - np.abs((extent - 1) - np.abs(index))
