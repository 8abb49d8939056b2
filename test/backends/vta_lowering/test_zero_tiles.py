"""Tiles of weights that are all zero need no product, and change no integer."""

from dataclasses import replace

import numpy as np
import pytest
from backends.vta_lowering.layers import Layer, check_all_levels, random_array, random_layer
from slow_cases import first_fast

from ceras_ir.backends.vta.execution.image import VtaImage
from ceras_ir.backends.vta.execution.performance import measure
from ceras_ir.backends.vta.machine.board import load_board
from ceras_ir.backends.vta.machine.isa import GEMM_PIPELINE, Gemm
from ceras_ir.backends.vta.machine.scratchpads import WeightTiles, tiles_with_values
from ceras_ir.backends.vta.passes.tiling import Schedule, TilePass
from ceras_ir.dialects.quant import RequantAttr

BOARD = load_board("tsim")


def pruned(layer: Layer, share: float, seed: int, block: int = 16) -> Layer:
    """Return the layer with a share of the blocks of filters x inputs set to zero."""
    flat = layer.weights.copy()
    rng = np.random.default_rng(seed)
    taps = flat if flat.ndim == 4 else flat[:, None, None, :]
    for o in range(0, taps.shape[0], block):
        for c in range(0, taps.shape[3], block):
            gone = rng.random(taps.shape[1:3]) < share
            taps[o : o + block, gone, c : c + block] = 0
    return replace(layer, weights=flat)


def products(image: VtaImage) -> int:
    """Return the number of products of a vector and a tile in all streams."""
    programs = [launch.program for launch in image.launches]
    gemms = [i for p in programs for i in p.instructions if isinstance(i, Gemm) and not i.reset]
    return sum(i.iterations for i in gemms)


def cycles(image: VtaImage) -> int:
    return sum(cost.run.cycles for cost in measure(image.launches, BOARD))


CONVOLUTION = Layer(
    random_array(np.random.default_rng(1), (1, 14, 14, 64)),
    random_array(np.random.default_rng(2), (64, 3, 3, 64)),
    np.arange(64, dtype=np.int32) * 31 - 900,
    padding=(1, 1, 1, 1),
    requant=RequantAttr(10),
)
PRODUCT = Layer(
    random_array(np.random.default_rng(3), (64, 256)),
    random_array(np.random.default_rng(4), (128, 256)),
    requant=RequantAttr(10),
)


@pytest.mark.parametrize(
    "dense",
    [
        pytest.param(CONVOLUTION, id="convolution"),
        pytest.param(PRODUCT, id="product", marks=pytest.mark.slow),
    ],
)
def test_zero_tiles_take_no_cycles(dense: Layer):
    layer = pruned(dense, 0.75, seed=5)
    image = check_all_levels(layer.module(), layer.inputs, layer.expected())
    whole = check_all_levels(dense.module(), dense.inputs, dense.expected())
    (cost,) = measure(image.launches, BOARD)
    assert 0.6 < cost.layers[0].skipped < 0.9
    assert cost.layers[0].to_json()["skipped_products"] == round(cost.layers[0].skipped, 4)
    assert "skipped_products" not in measure(whole.launches, BOARD)[0].layers[0].to_json()
    assert products(image) < 0.45 * products(whole)
    assert cycles(image) < 0.8 * cycles(whole)


def test_weights_that_are_all_zero():
    layer = replace(CONVOLUTION, weights=np.zeros_like(CONVOLUTION.weights))
    image = check_all_levels(layer.module(), layer.inputs, layer.expected())
    (launch,) = image.launches
    assert launch.skipped[0] > 0.95, "all but the products of the bias"


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["serial", "alg1", "alg2", "alg3"])
def test_published_nests_take_all_tiles(schedule: Schedule):
    layer = pruned(PRODUCT, 0.5, seed=6)
    tile = TilePass(schedule=schedule, board="tsim", mblock=16)
    image = check_all_levels(layer.module(), layer.inputs, layer.expected(), tile)
    assert (image.launches[0].skipped[0] > 0.2) == (schedule == "serial")


@pytest.mark.sample(24)
@pytest.mark.slow
@pytest.mark.parametrize("board", ["zcu102", "tsim"])
@pytest.mark.parametrize("seed", first_fast(4, range(24)))
def test_random_layers(seed: int, board: str):
    layer = pruned(random_layer(seed), (0.3, 0.6, 0.9, 0.98)[seed % 4], seed)
    way = ("auto", "kn2row")[seed // 4 % 2]
    tile = TilePass(board=board, convolution=way)
    check_all_levels(layer.module(), layer.inputs, layer.expected(), tile)


def test_accumulators_keep_their_distance():
    """
    Only the first of three filters has all values. Zero tiles of the other filters separate its
    products.
    """
    weights = WeightTiles(BOARD)
    flags = np.zeros((3, 10), np.bool_)
    flags[0] = flags[1, :2] = True
    weights.load(0, flags.reshape(-1), np.arange(30))
    loops = [(8, 8, 8, 0), (8, 1, 1, 0), (10, 0, 64, 1), (3, 64, 0, 10)]
    ((uops, nest),) = weights.nests((0, 0, 0), loops)
    assert nest == loops[:2]
    assert len(uops) == 28 and weights.skipped == 64 * 2
    assert all((uops[lag:, 0] != uops[:-lag, 0]).all() for lag in range(1, GEMM_PIPELINE + 1))
    live = flags.reshape(-1)[uops[:, 2]]
    assert sorted(uops[live, 2].tolist()) == np.flatnonzero(flags).tolist()


def test_what_saves_less_than_its_micro_ops_stays():
    """
    For a single position, the load of a list of micro-ops takes longer than the saved product.
    """
    weights = WeightTiles(BOARD)
    weights.load(0, np.array([True] * 7 + [False]), np.arange(8))
    loops = [(2, 0, 1, 1), (1, 1, 1, 0), (4, 1, 0, 2)]
    ((uops, nest),) = weights.nests((0, 0, 0), loops)
    assert len(uops) == 4 and nest == loops[:2] and not weights.skipped


def test_dense_weights_and_other_constants_have_no_flags():
    assert tiles_with_values(np.ones((1, 2, 3, 3, 16, 16), np.int8)) is None
    assert tiles_with_values(np.zeros((4, 2, 16, 16), np.int8)) is None
    array = np.zeros((1, 2, 1, 1, 16, 16), np.int8)
    array[0, 1, 0, 0, 3, 3] = 1
    flags = tiles_with_values(array)
    assert flags is not None and flags.tolist() == [False, True]
