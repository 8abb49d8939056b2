"""Where each output element of `graph.resize` comes from: indices and weights per dimension."""

from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from ceras_ir.dialects.graph.layout import Coordinates, Nearest


def coordinate(index: int, scale: float, size: int, output: int, mode: Coordinates) -> float:
    """The position of an output index in the input, in double precision."""
    match mode:
        case Coordinates.HALF_PIXEL:
            return (index + 0.5) / scale - 0.5
        case Coordinates.PYTORCH_HALF_PIXEL:
            return (index + 0.5) / scale - 0.5 if output > 1 else 0.0
        case Coordinates.ALIGN_CORNERS:
            return index * (size - 1) / (output - 1) if output > 1 else 0.0
        case Coordinates.ASYMMETRIC:
            return index / scale
        case Coordinates.HALF_PIXEL_SYMMETRIC:
            centre = size / 2 * (1 - output / (scale * size))
            return centre + (index + 0.5) / scale - 0.5


def nearest_indices(
    size: int, output: int, scale: float, mode: Coordinates, rounding: Nearest
) -> list[int]:
    """For each output index the input index that is copied."""
    result: list[int] = []
    for i in range(output):
        x = coordinate(i, scale, size, output, mode)
        match rounding:
            case Nearest.ROUND_PREFER_FLOOR:
                index = ceil(x - 0.5)
            case Nearest.ROUND_PREFER_CEIL:
                index = floor(x + 0.5)
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
