"""Windows whole, tap by tap, or as a matrix: the same integers, and the cheapest by choice."""

from dataclasses import replace

import numpy as np
import pytest
from backends.vta_lowering.layers import BOARD, Layer, check_all_levels, random_array, random_layer
from slow_cases import first_fast
from xdsl.context import Context

from ceras_ir.backends.vta.analysis.blocks import Blocks, misfit
from ceras_ir.backends.vta.analysis.contraction import Contraction
from ceras_ir.backends.vta.analysis.tiling import Limits, best_blocks
from ceras_ir.backends.vta.board import VtaBoard, load_board
from ceras_ir.backends.vta.convolution_costs import host_microseconds, im2col_pays
from ceras_ir.backends.vta.image import VtaImage
from ceras_ir.backends.vta.passes.im2col import Im2colPass
from ceras_ir.backends.vta.passes.tile import TilePass
from ceras_ir.backends.vta.timed_simulator import simulate_time
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.dialects.tile import Order

WINDOWS = [seed for seed in range(40) if random_layer(seed).weights.shape[1:-1] > (1, 1)][:10]


def cycles(image: VtaImage) -> int:
    (launch,) = image.launches
    return simulate_time(launch.program.instructions, load_board("de10nano")).cycles


def convolution(layer: Layer) -> graph.Conv2dOp:
    return next(op for op in layer.module().walk() if isinstance(op, graph.Conv2dOp))


@pytest.mark.slow
@pytest.mark.parametrize("seed", first_fast(3, WINDOWS))
def test_tap_by_tap(seed: int):
    layer = random_layer(seed)
    tile = TilePass(board=BOARD, convolution="kn2row")
    check_all_levels(layer.module(), layer.inputs, layer.expected(), tile)


@pytest.mark.slow
@pytest.mark.parametrize("seed", first_fast(3, WINDOWS))
def test_matrix(seed: int):
    layer = random_layer(seed)
    module = layer.module()
    Im2colPass("im2col").apply(Context(), module)
    assert any(isinstance(op, graph.GatherOp) for op in module.walk())
    check_all_levels(module, layer.inputs, layer.expected())


def dilated(distance: int) -> Layer:
    """3x3 on 32 channels, taps so far apart."""
    rng = np.random.default_rng(distance)
    return Layer(
        random_array(rng, (1, 40, 40, 32)),
        random_array(rng, (32, 3, 3, 32)),
        padding=(distance, distance, distance, distance),
        dilations=(distance, distance),
        requant=RequantAttr(9),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "better"), [(random_layer(2), "direct"), (dilated(13), "kn2row")]
)
def test_the_cheaper_way_is_taken(layer: Layer, better: str):
    """Far taps share no inputs: then what lies between them need not be loaded."""
    taken = {
        way: cycles(
            check_all_levels(
                layer.module(),
                layer.inputs,
                layer.expected(),
                TilePass(board="de10nano", convolution=way),
            )
        )
        for way in ("auto", "direct", "kn2row")
    }
    assert min(taken["direct"], taken["kn2row"]) == taken[better] == taken["auto"]
    assert taken["direct"] != taken["kn2row"]


RESIDENT = [
    Blocks(20, 20, 1, 1, (1, 1, 1), Order.MNK, resident=True, kn2row=True),
    Blocks(20, 20, 1, 1, (2, 1, 1), Order.NMK, resident=True, kn2row=True),
    Blocks(20, 40, 2, 2, (1, 2, 1), Order.NMK, drain=1, kn2row=True),
]


@pytest.mark.slow
@pytest.mark.parametrize("blocks", RESIDENT)
def test_what_stays(blocks: Blocks, monkeypatch: pytest.MonkeyPatch):
    def fixed(self: object, shape: object, board: object) -> Blocks:
        return blocks

    monkeypatch.setattr(
        "ceras_ir.backends.vta.passes.schedule_tiles.ScheduleTilesPass._blocks", fixed
    )
    layer = dilated(3)
    if blocks.order is Order.MNK:
        # All nine taps of all inputs at once fit with fewer positions.
        layer = replace(layer, input=layer.input[:, :20, :5])
        blocks = replace(blocks, columns=5)
    check_all_levels(layer.module(), layer.inputs, layer.expected())


def test_blocks_that_only_see_padding_do_not_fit():
    shape = Contraction(1, 1, 40, 40, 1, 40, 40, (3, 3), (1, 1), (13, 13, 13, 13), (13, 13))
    board = VtaBoard()
    refused = misfit(shape, Blocks(13, 40, 1, 1, kn2row=True), board)
    assert refused == "some tap of its blocks sees nothing but padding at the top"
    assert misfit(shape, Blocks(20, 40, 1, 1, kn2row=True), board) is None
    cut = misfit(replace(shape, kblocks=3), Blocks(14, 40, 2, 1, kn2row=True), board)
    assert cut == "kn2row cuts 3 blocks of a tap evenly, got 2"


def test_windows_that_no_block_can_take_apart_stay_whole():
    """The first tap of the only row sees padding alone."""
    shape = Contraction(1, 1, 1, 9, 1, 1, 9, (3, 3), (1, 1), (1, 1, 1, 1))
    blocks = best_blocks(shape, VtaBoard(), Limits(convolution="kn2row"))
    assert blocks is not None and not blocks.kn2row


def test_a_matrix_pays_where_the_host_is_fast():
    rng = np.random.default_rng(0)
    layer = Layer(
        random_array(rng, (1, 32, 32, 3)), random_array(rng, (32, 3, 3, 3)), padding=(1, 1, 1, 1)
    )
    slow = VtaBoard(host_bytes_per_us=500)
    fast = replace(slow, host_bytes_per_us=50_000)
    assert not im2col_pays(convolution(layer), slow)
    assert im2col_pays(convolution(layer), fast)
    assert host_microseconds(convolution(layer), slow) == pytest.approx(
        100 * host_microseconds(convolution(layer), fast)
    )
    wide = replace(layer, input=random_array(rng, (1, 32, 32, 16)))
    wide = replace(wide, weights=random_array(rng, (32, 3, 3, 16)))
    assert not im2col_pays(convolution(wide), fast), "no lane is empty"
