"""
The products of the digits of constants and the radix are the constants, within the range of digits.
"""

import numpy as np
import pytest

from ceras_ir.backends.vta.rules.channel_constants import (
    MAX_CONSTANT_TILES,
    digits,
    radix,
    tiles_for,
)


@pytest.mark.parametrize("lanes", [2, 8, 16, 32])
def test_products_are_the_constants(lanes: int):
    reach = 63 + 127 * 127 * (lanes - 1)
    rng = np.random.default_rng(lanes)
    for tiles, most in ((1, reach), (2, 2 * reach - 63)):
        corners = [0, 1, -1, 63, 64, -64, most, -most, most - 1]
        values = np.array([*corners, *rng.integers(-most, most, 100)], np.int64)
        assert tiles_for(values, lanes) == tiles
        sums = digits(values, tiles, lanes).astype(np.int64) @ radix(lanes).astype(np.int64)
        np.testing.assert_array_equal(sums.sum(axis=1), values)


def test_what_no_digits_reach():
    assert tiles_for(np.array([63 + MAX_CONSTANT_TILES * 127 * 127 * 15]), 16) == MAX_CONSTANT_TILES
    assert tiles_for(np.array([64 + MAX_CONSTANT_TILES * 127 * 127 * 15]), 16) == 0
    assert tiles_for(np.array([-(1 << 31)]), 16) == 0
