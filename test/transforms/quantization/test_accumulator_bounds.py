"""What 32 bits hold to the last unit, and what floats promise of sums of stored integers."""

import numpy as np
import pytest

from ceras_ir.transforms.quantization.accumulators import Magnitudes, fits

MOST = 2**31 - 1


@pytest.mark.parametrize(
    ("bound", "shift", "residual"),
    [(MOST, 0, 0), (MOST - 1, 1, 0), (MOST - 512, 10, 0), (MOST - 512 - 7, 10, 7)],
)
def test_the_last_unit(bound: int, shift: int, residual: int):
    assert fits(bound, shift, residual)
    assert not fits(bound + 1, shift, residual)


def test_sums_and_biases_of_the_worst_channel():
    magnitudes = Magnitudes(2, np.array([0.5, 1.5]), np.array([0.0, 2.0]), 128)
    # 1.5 / 2^-3 and twice half a step, times 128; 2 / 2^-5 and half a step.
    assert magnitudes.bound(-2, -3) == 13 * 128 + 64.5
    # No stored weight exceeds 127.
    assert magnitudes.bound(-2, -30) == 2 * 127 * 128 + 2.0**33 + 0.5


def test_computed_weights_can_be_anything():
    assert Magnitudes(2, None, np.array([0.0]), 128).bound(0, 0) == 2 * 128 * 128 + 0.5
