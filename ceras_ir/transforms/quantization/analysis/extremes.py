"""The range of all the arrays that one value takes."""

import numpy as np
from numpy.typing import NDArray


class Extremes:
    """The least and the greatest element seen; what observers are made of."""

    def __init__(self) -> None:
        self.low, self.high = np.inf, -np.inf

    def observe(self, array: NDArray[np.float32]) -> None:
        self.low = min(self.low, float(array.min()))
        self.high = max(self.high, float(array.max()))

    @property
    def magnitude(self) -> float:
        return max(-self.low, self.high)
