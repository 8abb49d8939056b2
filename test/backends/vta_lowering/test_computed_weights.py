"""
VTA computes products of two activations. The second factor is an argument or the result of a layer.
"""

from dataclasses import replace

import numpy as np
import pytest
from backends.vta_lowering.cosimulation import run_on_vta
from backends.vta_lowering.layers import (
    BOARD,
    INT8,
    Layer,
    apply,
    check_all_levels,
    check_streams,
    network,
    place,
    random_array,
    stored,
    with_channel_shifts,
    with_zero_points,
)
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block, SSAValue

from ceras_ir.backends.vta.execution.image import VtaImage, build_image, cache_maintenance
from ceras_ir.backends.vta.machine.board import load_board
from ceras_ir.backends.vta.passes.convert_graph_to_tile import ConvertGraphToTilePass
from ceras_ir.backends.vta.passes.fold_packing import FoldPackingPass
from ceras_ir.backends.vta.passes.launches import GatherLaunchesPass, MergeLaunchesPass
from ceras_ir.backends.vta.passes.tiling import TilePass
from ceras_ir.backends.vta.rules.admission import VTA, why_not
from ceras_ir.dialects import graph, mem
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.interpreters.network import Array, run
from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass
from ceras_ir.transforms.placement import PlacePass

RNG = np.random.default_rng(0)


def product(m: int, k: int, n: int, *, extremes: bool = False, shift: int = 9) -> Layer:
    first, second = ((m, k), (n, k))
    return Layer(
        random_array(RNG, first, extremes=extremes),
        random_array(RNG, second, extremes=extremes),
        requant=RequantAttr(shift),
        computed=True,
    )


def check(layer: Layer, tile: TilePass | None = None) -> VtaImage:
    module = layer.module()
    image = check_all_levels(module, layer.inputs, layer.expected(), tile)
    assert any(isinstance(op, mem.LaunchOp) for op in module.walk()), "it runs on VTA"
    return image


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(1, 1, 1), (20, 16, 20), (20, 20, 16), (16, 16, 16), (197, 64, 197), (197, 197, 64)],
    ids=str,
)
def test_shapes_of_attention(m: int, k: int, n: int):
    """
    Check products of the shapes of attention, with and without partial tiles and a zero point.
    """
    layer = product(m, k, n, shift=11)
    check(layer)
    check(replace(layer, points=(-128, 0)))


@pytest.mark.parametrize("point", [-128, -1, 127])
def test_extremes(point: int):
    """Factors and the zero point at their bounds give the largest sums, saturated and not."""
    layer = product(5, 40, 18, extremes=True, shift=0)
    for requant in (RequantAttr(0), RequantAttr(14), RequantAttr(6, low=3, high=90)):
        check(replace(layer, points=(point, 0), requant=requant))
    least = np.full((3, 300), -128, np.int8)
    corner = Layer(least, least, requant=RequantAttr(16), points=(point, 0), computed=True)
    check(corner)


def test_ties_round_up():
    """Check all remainders of a shift, below and above zero."""
    first = np.arange(-64, 64, dtype=np.int8)[:, None]
    second = np.array([[1], [-1], [3]], np.int8)
    check(Layer(first, second, requant=RequantAttr(3), computed=True))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_random(seed: int):
    """
    Check odd sizes with all parts of an output stage, and blocks that do not divide the sizes.
    """
    rng = np.random.default_rng(seed)
    m, k, n = (int(v) for v in rng.integers(1, (70, 130, 90)))
    layer = Layer(
        random_array(rng, (m, k), extremes=rng.random() < 0.3),
        random_array(rng, (n, k), extremes=rng.random() < 0.3),
        rng.integers(-2000, 2000, n).astype(np.int32) if rng.random() < 0.3 else None,
        random_array(rng, (m, n)) if rng.random() < 0.3 else None,
        residual_shift=int(rng.integers(0, 9)),
        requant=RequantAttr(int(rng.integers(0, 15))),
        computed=True,
    )
    if rng.random() < 0.6:
        layer = with_zero_points(layer, rng)
    if rng.random() < 0.3:
        layer = with_channel_shifts(layer, rng)
    tile = None
    if seed % 2:
        blocks = (int(v) for v in rng.integers(1, (41, 5, 6)))
        tile = TilePass("auto", next(blocks), 16 * next(blocks), 16 * next(blocks), BOARD)
    check(layer, tile)


def test_a_value_times_itself():
    """
    The value is packed as vectors and as tiles. The previous layer leaves undefined values in
    padding lanes.
    """
    x, w = random_array(RNG, (21, 30)), random_array(RNG, (19, 30))
    made = Layer(x, w, RNG.integers(-9000, 9000, 19).astype(np.int32))
    block = Block(arg_types=[TensorType(INT8, x.shape)])
    value = made.add_to(block, block.args[0], None)
    hidden = made.expected().astype(np.int8)
    squared = Layer(hidden, hidden, requant=RequantAttr(10))
    module = network(block, squared.add_to(block, value, None, value))
    check_all_levels(module, {"input0": x}, squared.expected())
    launches = [op for op in module.walk() if isinstance(op, mem.LaunchOp)]
    # The first factor remains packed; the host packs it into tiles for the second factor.
    assert len(launches) == 2 and launches[1].inputs[0] is launches[0].outputs[0]


def heads(
    count: int, m: int, k: int, n: int, point: int
) -> tuple[ModuleOp, dict[str, Array], dict[str, Array]]:
    """Return products of a single shape, their inputs and the expected results."""
    layers = [replace(product(m, k, n), points=(point, 0)) for _ in range(count)]
    types = [TensorType(stored(point), (m, k)), TensorType(INT8, (n, k))]
    block, inputs = Block(arg_types=types * count), dict[str, Array]()
    results: list[SSAValue] = []
    for i, layer in enumerate(layers):
        first, second = block.args[2 * i : 2 * i + 2]
        results.append(layer.add_to(block, first, None, second))
        inputs |= {f"input{2 * i}": layer.input, f"input{2 * i + 1}": layer.weights}
    expected: dict[str, Array] = {f"output{i}": layer.expected() for i, layer in enumerate(layers)}
    return network(block, *results), inputs, expected


def test_products_of_one_shape_share_a_kernel():
    """Each head has a launch with separate tiles and a separate bias."""
    module, _, _ = heads(2, 18, 24, 18, 5)
    place(module, load_board(BOARD))
    apply(module, ConvertGraphToTilePass(BOARD))
    launches = [op for op in module.walk() if isinstance(op, mem.LaunchOp)]
    assert len(launches) == 2 and len({op.kernel.string_value() for op in launches}) == 1


@pytest.mark.parametrize("point", [0, -128])
def test_heads_start_together(point: int):
    """
    The operands of all heads are packed first. A single stream loads the operands of the next head
    ahead.
    """
    module, inputs, expected = heads(3, 37, 24, 20, point)
    place(module, load_board(BOARD))
    apply(module, ConvertGraphToTilePass(BOARD), FoldPackingPass(), GatherLaunchesPass())
    for name, array in run(module, inputs).items():
        np.testing.assert_array_equal(array, expected[name])
    apply(module, TilePass(board=BOARD), AllocateBlocksPass(alignment=256), MergeLaunchesPass())
    image = build_image(module, load_board(BOARD))
    assert len(image.launches) == 1 and len(image.launches[0].ops) == 3
    check_streams(image)
    for name, array in run_on_vta(image, inputs, garbage=3).items():
        np.testing.assert_array_equal(array, expected[name])


def test_caches_are_written_back_before_the_launch():
    """The host writes the tiles and the folded bias, like the packed input."""
    image = check(replace(product(20, 20, 20), points=(-128, 0)))
    (launch,) = cache_maintenance(image.module)
    made = (mem.PackOp, mem.PackTilesOp, mem.FoldZeroPointOp)
    blocks = [mem.block_of(op.results[0]) for op in image.module.walk() if isinstance(op, made)]
    assert len(blocks) == 3
    cleaned = {start for start, _ in launch.clean}
    assert {block.offset.data for block in blocks if block is not None} <= cleaned


def matmul(layer: Layer) -> graph.MatmulOp:
    return next(op for op in layer.module().walk() if isinstance(op, graph.MatmulOp))


def test_refused():
    """
    A zero point of the second factor is refused: it needs a sum over each row of the first factor.
    """
    block = Block(arg_types=[TensorType(INT8, (4, 8)), TensorType(stored(3), (5, 8))])
    op = graph.MatmulOp(*block.args, result_element=INT8, requant=RequantAttr(7))
    block.add_op(op)
    assert "no zero point of weights, got 3" in str(why_not(op))


def test_the_sum_is_bounded_for_all_factors():
    """A zero point of -128 doubles the bound of a product."""
    layer = product(1, 65535, 1, shift=20)
    assert why_not(matmul(layer), load_board(BOARD)) is None
    reason = why_not(matmul(replace(layer, points=(-128, 0))), load_board(BOARD))
    assert reason is not None and "32 bits" in reason


def test_placement_weighs_tiles_and_transfers():
    """A product of a single row takes the host less time than the tiles of the other factor."""
    for layer, expected in ((product(64, 64, 64), VTA), (product(1, 64, 64), mem.CPU)):
        module = layer.module()
        PlacePass("vta", "pynq").apply(Context(), module)
        op = next(o for o in module.walk() if isinstance(o, graph.MatmulOp))
        assert mem.device_of(op) == expected
        assert "us, vta" in str(op.attributes[mem.COST])
