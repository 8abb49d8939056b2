"""Find the different elements of arrays."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Generic = TypeVar("Generic", bound=np.generic)


def distinct(array: NDArray[Generic]) -> NDArray[Generic]:
    """
    Return the different elements of `array` in ascending order, as `np.unique` does. Without
    counts, `np.unique` imports the masked arrays of numpy, which is a tenth of the start of a
    command.
    """
    return np.unique(array, return_counts=True)[0]
