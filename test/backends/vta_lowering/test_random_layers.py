"""Random layers give the same integers at each level, from the graph down to the stream."""

import numpy as np
import pytest
from backends.vta_lowering.layers import BOARD, check_all_levels, random_layer

from ceras_ir.backends.vta.passes.tiling import TilePass

pytestmark = pytest.mark.slow


@pytest.mark.sample(20)
@pytest.mark.parametrize("seed", range(40))
def test_auto_schedule(seed: int):
    layer = random_layer(seed)
    check_all_levels(layer.module(), layer.inputs, layer.expected())


@pytest.mark.sample(14)
@pytest.mark.parametrize("seed", range(100, 130))
def test_forced_blocks(seed: int):
    """
    Check blocks that do not divide the sizes: partial channel blocks, and blocks over the image
    edge.
    """
    layer, rng = random_layer(seed), np.random.default_rng(seed)
    m, k, n = (int(v) for v in rng.integers(1, (41, 5, 6)))
    schedule = "serial" if seed % 3 == 0 else "auto"
    tile = TilePass(schedule, m, 16 * k, 16 * n, BOARD)
    check_all_levels(layer.module(), layer.inputs, layer.expected(), tile)


@pytest.mark.sample(2)
@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 1160, 40))
def test_many(start: int):
    """Run a few of the cases of `make fuzz-vta`."""
    for seed in range(start, start + 40):
        layer = random_layer(seed)
        check_all_levels(layer.module(), layer.inputs, layer.expected())
