"""Check convolutions that are computed in pieces."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from ceras_ir.dialects.graph.operation import window_output
from ceras_ir.interpreters import windows
from ceras_ir.interpreters.windows import (
    Window,
    convolve,
    convolve_in_order,
    exact_type,
    window_sum,
)

Floats = NDArray[np.float32]


def one_after_the_other(x: Floats, weights: Floats, window: Window, groups: int) -> Floats:
    """Return the sums over the map, with the products of weights in order."""
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
    # Different magnitudes, so that the order changes the result.
    x, weights = ((random.normal(size=s) * 10.0 ** random.integers(-4, 3, s)) for s in shapes)
    x.flat[:3] = -0.0
    window = Window.of((kernel,) * 2, (stride,) * 2, (kernel // 2,) * 4, (1, 1))
    x, weights = x.astype(np.float32), weights.astype(np.float32)
    expected = one_after_the_other(x, weights, window, groups)
    actual = convolve_in_order(x, weights, window, groups)
    assert actual.shape == expected.shape
    assert np.array_equal(actual.view(np.int32), expected.view(np.int32))


def test_outputs_are_as_many_as_windows_that_fit():
    for before, after, kernel, stride, dilation in product(range(3), range(3), *[range(1, 4)] * 3):
        last = before + 7 + after - 1
        fitting = [p for p in range(0, last + 1, stride) if p + (kernel - 1) * dilation <= last]
        assert window_output(7, before, after, kernel, stride, dilation) == len(fitting)


def test_a_window_sees_what_its_definition_says():
    """Padding, strides and dilations differ on each side and axis."""
    source = np.random.default_rng(0)
    x, weights = (
        source.integers(-9, 9, s).astype(np.float64) for s in ((1, 5, 6, 2), (3, 2, 3, 2))
    )
    window = Window.of((2, 3), (2, 1), (1, 0, 2, 3), (1, 2))
    result = convolve(x, weights, window, 1)
    assert result.shape == (1, 4, 5, 3)
    for row, column in product(range(4), range(5)):
        total = np.zeros(3)
        for i, j in product(range(2), range(3)):
            y, z = 2 * row - 1 + i, column + 2 * j
            if 0 <= y < 5 and 0 <= z < 6:
                total += weights[:, i, j] @ x[0, y, z]
        np.testing.assert_array_equal(result[0, row, column], total)


def test_sums_that_float32_cannot_hold_are_float64():
    weights = np.full((1, 1 << 10), 127, np.int8)
    assert exact_type(weights, 129) is np.float32
    assert exact_type(weights, 130) is np.float64


def test_an_average_adds_rows_first() -> None:
    """The error is less than a quarter of that of a sequential sum."""
    x = np.random.default_rng(0).uniform(0.5, 1.5, (1, 64, 64, 16)).astype(np.float32)
    window = Window.of((64, 64), (1, 1), (0, 0, 0, 0), (1, 1))
    (total,) = window_sum(window, x).reshape(1, 16)
    for channel, got in enumerate(total):
        rows = [np.cumsum(row, dtype=np.float32)[-1] for row in x[0, :, :, channel]]
        assert got == np.cumsum(rows, dtype=np.float32)[-1]
    exact = x.astype(np.float64).sum(axis=(1, 2))[0]
    assert np.abs(total / exact - 1).max() < 64 * 2.0**-24
    naive = np.cumsum(x.reshape(-1, 16), axis=0, dtype=np.float32)[-1]
    assert np.abs(total / exact - 1).max() < np.abs(naive / exact - 1).max() / 4


def test_sums_of_small_windows_add_rows_first() -> None:
    """Small windows are added by other code than large windows, in the same order."""
    x = np.random.default_rng(0).uniform(0.5, 1.5, (1, 8, 8, 16)).astype(np.float32)
    window = Window.of((8, 8), (1, 1), (0, 0, 0, 0), (1, 1))
    (total,) = window_sum(window, x).reshape(1, 16)
    rows = np.cumsum(x[0], axis=1, dtype=np.float32)[:, -1]
    assert (total == np.cumsum(rows, axis=0, dtype=np.float32)[-1]).all()
    assert (total != np.cumsum(x.reshape(-1, 16), axis=0, dtype=np.float32)[-1]).any()


def test_an_average_of_negative_zeros_is_zero() -> None:
    window = Window.of((2, 2), (1, 1), (0, 0, 0, 0), (1, 1))
    total = window_sum(window, np.full((1, 2, 2, 1), -0.0, np.float32))
    assert not np.signbit(total).any()


@pytest.mark.parametrize("seen", [1, 700, 1 << 18])
@pytest.mark.parametrize("stride", [1, 2])
def test_windows_laid_out_in_pieces_are_those_of_all(
    monkeypatch: pytest.MonkeyPatch, seen: int, stride: int
) -> None:
    random = np.random.default_rng(seen)
    x = random.integers(-9, 9, (2, 9, 8, 3)).astype(np.float32)
    weights = random.integers(-9, 9, (4, 3, 2, 3)).astype(np.float32)
    window = Window.of((3, 2), (stride, stride), (1, 0, 2, 1), (2, 1))
    padded = np.pad(x, ((0, 0), (1, 2), (0, 1), (0, 0)))
    assert (window.padded(x, 0) == padded).all()
    expected = sum(
        np.einsum("nhwc,oc->nhwo", tap, weights[:, i, j]) for i, j, tap in window.taps(padded)
    )
    monkeypatch.setattr(windows, "MAX_COPIED_ELEMENTS", seen)
    assert (windows.convolve(x, weights, window, 1) == expected).all()
