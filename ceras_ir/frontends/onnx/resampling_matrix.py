"""
Resampling along one dimension as a matrix: every mode of ONNX `Resize` that mixes neighbours.

Row `i` has the weights of the input elements in output element `i`. Computed in double
precision as ONNX's reference does, rounded to float32 once.
"""

from dataclasses import dataclass
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from ceras_ir.dialects.graph import Coordinates
from ceras_ir.interpreters.resampling import coordinate

CROP = "tf_crop_and_resize"
"""The coordinates that have no name in `graph`: a region of the input, stretched."""


@dataclass(frozen=True)
class Resampling:
    """How elements are mixed, the same for all dimensions."""

    cubic: bool
    coordinates: str
    antialias: bool = False
    cubic_coefficient: float = -0.75
    exclude_outside: bool = False

    def matrix(
        self, size: int, output: int, scale: float, region: tuple[float, float] = (0.0, 1.0)
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """The weights, and which outputs lie outside of the input: those have none."""
        weights = np.zeros((output, size))
        outside = np.zeros(output, np.bool_)
        for i in range(output):
            x = self._position(i, size, output, scale, region)
            if self.coordinates == CROP and not 0.0 <= x <= size - 1:
                outside[i] = True
                continue
            # For a whole x the element itself is the right one of two neighbours.
            base = ceil(x) - 1
            first, taps = self._taps(x - base, scale)
            for k, tap in enumerate(taps):
                j = base + first + k
                if not self.exclude_outside:
                    j = min(max(j, 0), size - 1)
                if 0 <= j < size:
                    weights[i, j] += tap
            if self.exclude_outside:
                weights[i] /= weights[i].sum()
        return weights.astype(np.float32), outside

    def _position(
        self, i: int, size: int, output: int, scale: float, region: tuple[float, float]
    ) -> float:
        if self.coordinates != CROP:
            return coordinate(i, scale, size, output, Coordinates(self.coordinates))
        start, end = region
        length = (end - start) * (size - 1)
        if output == 1:
            return start * (size - 1) + length / 2
        return start * (size - 1) + i * length / (output - 1)

    def _taps(self, ratio: float, scale: float) -> tuple[int, list[float]]:
        """Weights of neighbours, and where the first one stands from the left neighbour."""
        shrink = min(scale, 1.0) if self.antialias else 1.0
        reach = 2 if self.cubic else 1
        first = floor(-reach / shrink) + 1
        last = reach - first if self.cubic else 2 - first
        kernel = self._cubic if self.cubic else _hat
        taps = [kernel(abs(shrink * (k - ratio))) for k in range(first, last)]
        total = sum(taps)
        return first, [tap / total for tap in taps]

    def _cubic(self, x: float) -> float:
        a = self.cubic_coefficient
        if x <= 1.0:
            return ((a + 2) * x - (a + 3)) * x * x + 1
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a if x < 2.0 else 0.0


def _hat(x: float) -> float:
    return max(1.0 - x, 0.0)
