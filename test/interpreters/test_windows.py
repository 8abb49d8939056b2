"""Sums of products that are computed piece by piece."""

import numpy as np
import pytest
from numpy.typing import NDArray

from ceras_ir.interpreters.windows import Window, convolve_in_order

Floats = NDArray[np.float32]


def one_after_the_other(x: Floats, weights: Floats, window: Window, groups: int) -> Floats:
    """The sums over the whole map, the product of one weight after that of another."""
    o, kh, kw, per_group = weights.shape
    split = weights.reshape(groups, o // groups, kh, kw, per_group)
    total = np.float32(0)
    for i, j, tap in window.taps(window.padded(x, 0)):
        lanes = tap.reshape(*tap.shape[:3], groups, per_group, 1)
        for c in range(per_group):
            total = total + lanes[:, :, :, :, c] * split[:, :, i, j, c]
    assert isinstance(total, np.ndarray)
    return total.reshape(*total.shape[:3], o)


@pytest.mark.parametrize(
    ("size", "channels", "outputs", "kernel", "stride", "groups"),
    [
        (27, 5, 40, 3, 1, 1),
        (27, 6, 48, 3, 1, 2),
        (50, 24, 24, 3, 2, 24),
        (5, 64, 1000, 1, 1, 1),
        (40, 33, 3, 1, 1, 1),
    ],
)
def test_sums_in_order(
    size: int, channels: int, outputs: int, kernel: int, stride: int, groups: int
) -> None:
    random = np.random.default_rng(size)
    shapes = (1, size, size, channels), (outputs, kernel, kernel, channels // groups)
    # Of many magnitudes, so that the order shows.
    x, weights = ((random.normal(size=s) * 10.0 ** random.integers(-4, 3, s)) for s in shapes)
    x.flat[:3] = -0.0
    window = Window.of((kernel,) * 2, (stride,) * 2, (kernel // 2,) * 4, (1, 1))
    x, weights = x.astype(np.float32), weights.astype(np.float32)
    expected = one_after_the_other(x, weights, window, groups)
    actual = convolve_in_order(x, weights, window, groups)
    assert actual.shape == expected.shape
    assert np.array_equal(actual.view(np.int32), expected.view(np.int32))
