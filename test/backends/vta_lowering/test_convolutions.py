"""
Convolutions with whole windows, tap by tap, or as a matrix product compute the same integers. The
compiler chooses the cheapest form.
"""

from dataclasses import replace

import numpy as np
import pytest
from backends.vta_lowering.layers import BOARD, Layer, check_all_levels, random_array, random_layer
from slow_cases import first_fast
from xdsl.context import Context

from ceras_ir.backends.vta.execution.image import VtaImage
from ceras_ir.backends.vta.machine.board import VtaBoard, load_board
from ceras_ir.backends.vta.machine.time import simulate_time
from ceras_ir.backends.vta.passes.reshape_convolutions import Im2colPass, apply_windows
from ceras_ir.backends.vta.passes.tiling import TilePass
from ceras_ir.backends.vta.rules.channel_constants import folded_bias, tiles_for
from ceras_ir.backends.vta.rules.placement import WindowSplit, best_windows, host_microseconds
from ceras_ir.backends.vta.schedule.blocks import Blocks, misfit
from ceras_ir.backends.vta.schedule.contraction import Contraction
from ceras_ir.backends.vta.schedule.search import Limits, best_blocks
from ceras_ir.dialects import graph, mem
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.dialects.sparse import MASK, MaskAttr
from ceras_ir.dialects.tile import Order
from ceras_ir.interpreters.network import run

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
    Im2colPass(convolution="im2col").apply(Context(), module)
    assert any(isinstance(op, graph.GatherOp) for op in module.walk())
    check_all_levels(module, layer.inputs, layer.expected())


def dilated(distance: int) -> Layer:
    """Return a 3x3 convolution on 32 channels with distant taps."""
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
    """Distant taps share no inputs, so the inputs between them need not be loaded."""
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

    monkeypatch.setattr("ceras_ir.backends.vta.passes.tiling.ScheduleTilesPass._blocks", fixed)
    layer = dilated(3)
    if blocks.order is Order.MNK:
        # All nine taps of all inputs fit at the same time only with fewer positions.
        layer = replace(layer, input=layer.input[:, :20, :5])
        blocks = replace(blocks, columns=5)
    check_all_levels(layer.module(), layer.inputs, layer.expected())


def test_blocks_that_only_see_padding_do_not_fit():
    shape = Contraction(1, 1, 40, 40, 1, 40, 40, (3, 3), (1, 1), (13, 13, 13, 13), (13, 13))
    board = VtaBoard()
    refused = misfit(shape, Blocks(13, 40, 1, 1, kn2row=True), board)
    assert refused == "all inputs of a tap of a block are padding at the top"
    assert misfit(shape, Blocks(20, 40, 1, 1, kn2row=True), board) is None
    cut = misfit(replace(shape, kblocks=3), Blocks(14, 40, 2, 1, kn2row=True), board)
    assert cut == "kn2row splits 3 blocks of a tap evenly, got 2"


def test_windows_that_no_block_can_take_apart_stay_whole():
    """The first tap of the only row reads only padding, so no block can split the window."""
    shape = Contraction(1, 1, 1, 9, 1, 1, 9, (3, 3), (1, 1), (1, 1, 1, 1))
    blocks = best_blocks(shape, VtaBoard(), Limits(convolution="kn2row"))
    assert blocks is not None and not blocks.kn2row


@pytest.mark.slow
def test_more_taps_are_together_where_the_host_is_fast():
    """Three taps of 3x3 on 3 channels fit a single vector; all nine taps fit two."""
    rng = np.random.default_rng(0)
    layer = Layer(
        random_array(rng, (1, 32, 32, 3)), random_array(rng, (32, 3, 3, 3)), padding=(1, 1, 1, 1)
    )
    slow = VtaBoard(host_bytes_per_us=500)
    fast = replace(slow, host_bytes_per_us=50_000)
    op, whole = convolution(layer), WindowSplit.unsplit((3, 3), (1, 1))
    some = best_windows(op, slow)
    assert some is not None and sorted(some.size) == [1, 3]
    assert best_windows(op, fast) == whole
    assert best_windows(op, replace(slow, host_bytes_per_us=1)) is None
    assert host_microseconds(op, whole, slow) == (27 + 32) * 32 * 32 / 500
    wide = replace(layer, input=random_array(rng, (1, 32, 32, 16)))
    wide = replace(wide, weights=random_array(rng, (32, 3, 3, 16)))
    assert best_windows(convolution(wide), fast) is None, "no lane is empty"


@pytest.mark.parametrize(
    ("kernel", "strides", "padding"),
    [
        ((7, 7), (2, 2), (3, 3, 3, 3)),
        ((3, 5), (1, 3), (0, 2, 1, 0)),
        ((2, 3), (2, 1), (1, 0, 0, 2)),
    ],
    ids=str,
)
def test_parts_of_windows(
    kernel: tuple[int, int], strides: tuple[int, int], padding: tuple[int, int, int, int]
):
    """Each split of a window leads to the same integers."""
    rng = np.random.default_rng(kernel[0])
    layer = Layer(
        random_array(rng, (2, 13, 12, 3), extremes=True),
        random_array(rng, (5, *kernel, 3)),
        strides=strides,
        padding=padding,
        requant=RequantAttr(9),
    )
    ways = list(WindowSplit.of(kernel, strides))
    assert WindowSplit.unsplit(kernel, strides) in ways
    for windows in ways:
        module = layer.module()
        op = next(op for op in module.walk() if isinstance(op, graph.Conv2dOp))
        apply_windows(op, windows)
        module.verify()
        result = run(module, layer.inputs)["output0"]
        np.testing.assert_array_equal(result, layer.expected(), str(windows))


@pytest.mark.parametrize("size", [(2, 7), (4, 4), (5, 3)], ids=str)
def test_parts_of_windows_on_vta(size: tuple[int, int]):
    """Check splits at all levels. The host packs in a single step, and free lanes hold the bias."""
    rng = np.random.default_rng(1)
    layer = Layer(
        random_array(rng, (1, 12, 12, 3)),
        random_array(rng, (5, 7, 7, 3)),
        rng.integers(-90_000, 90_000, 5).astype(np.int32),
        strides=(2, 2),
        padding=(3, 3, 3, 3),
        requant=RequantAttr(9),
    )
    module = layer.module()
    op = next(op for op in module.walk() if isinstance(op, graph.Conv2dOp))
    apply_windows(op, next(w for w in WindowSplit.of((7, 7), (2, 2)) if w.size == size), (16,))
    check_all_levels(module, layer.inputs, layer.expected())
    assert any(isinstance(op, mem.PackWindowsOp) for op in module.walk())
    assert not any(isinstance(op, graph.GatherOp) for op in module.walk())


@pytest.mark.parametrize(("most", "tiles"), [(250_000, 0), (450_000, 1), (700_000, None)], ids=str)
def test_bias_in_spare_lanes(most: int, tiles: int | None):
    """
    Spare lanes hold the entire bias, all but the part for a single tile, or no bias if two tiles
    would remain.
    """
    rng = np.random.default_rng(most)
    bias = rng.integers(-most, most, 5).astype(np.int32)
    bias[:2] = most, -most
    layer = Layer(
        random_array(rng, (1, 12, 12, 3)),
        random_array(rng, (5, 7, 7, 3)),
        bias,
        strides=(2, 2),
        padding=(3, 3, 3, 3),
        requant=RequantAttr(12),
        points=(-3, 0),
    )
    module, size = layer.module(), (2, 7)
    op = next(op for op in module.walk() if isinstance(op, graph.Conv2dOp))
    apply_windows(op, next(w for w in WindowSplit.of((7, 7), (2, 2)) if w.size == size), (16,))
    module.verify()
    (op,) = [op for op in module.walk() if isinstance(op, graph.Conv2dOp)]
    assert graph.shape_of(op.input)[3] == (42 if tiles is None else 48)
    if tiles is not None:
        assert tiles_for(folded_bias(op), 16) == max(1, tiles)
        assert folded_bias(op).any() == bool(tiles)
    np.testing.assert_array_equal(run(module, layer.inputs)["output0"], layer.expected())


def test_pruned_layers_keep_their_bias_in_spare_lanes():
    """Tiles that a mask would skip are executed if they contain the bias of their filters."""
    rng = np.random.default_rng(5)
    kept = rng.random((48, 7, 7, 3)) < 0.1
    kept[16:48] = False
    kept[40:, 0, 0] = True
    layer = Layer(
        random_array(rng, (1, 20, 18, 3)),
        np.where(kept, rng.integers(1, 128, kept.shape), 0).astype(np.int8),
        rng.integers(-90_000, 90_000, 48).astype(np.int32),
        strides=(2, 2),
        padding=(3, 3, 3, 3),
        requant=RequantAttr(11),
        points=(-3, 0),
    )
    module = layer.module()
    op = next(op for op in module.walk() if isinstance(op, graph.Conv2dOp))
    op.attributes[MASK] = MaskAttr.of(kept)
    apply_windows(op, next(w for w in WindowSplit.of((7, 7), (2, 2)) if w.size == (2, 7)), (16,))
    module.verify()
    (op,) = [op for op in module.walk() if isinstance(op, graph.Conv2dOp)]
    mask, weights = op.attributes[MASK], graph.known_array(op.weights)
    assert isinstance(mask, MaskAttr) and weights.shape[-1] == 48
    lanes = 2 * 7 * 3
    assert np.count_nonzero(mask.array[..., :lanes]) == np.count_nonzero(kept)
    assert not weights[16:32, ..., :lanes].any() and weights[16:32, ..., lanes:].any(axis=-1).any()
    assert not folded_bias(op).any()
    (launch,) = check_all_levels(module, layer.inputs, layer.expected()).launches
    assert 0.3 < launch.skipped[0] < 1 - 1 / 12
