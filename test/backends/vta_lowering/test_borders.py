"""Constants for the border of an input with a zero point are exact on all edges."""

from dataclasses import replace

import numpy as np
import pytest
from backends.vta_lowering.layers import (
    BOARD,
    INT8,
    Layer,
    apply,
    check_all_levels,
    network,
    place,
    random_array,
    stored,
)
from backends.vta_lowering.test_swish import WIDE
from backends.vta_lowering.test_swish import expected as swish_of
from backends.vta_lowering.test_zero_points import convolution
from slow_cases import first_fast
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block

from ceras_ir.backends.vta.execution.image import build_image
from ceras_ir.backends.vta.machine.board import load_board
from ceras_ir.backends.vta.machine.time import simulate_time
from ceras_ir.backends.vta.passes.convert_graph_to_tile import ConvertGraphToTilePass
from ceras_ir.backends.vta.passes.tiling import TilePass
from ceras_ir.backends.vta.rules.placement import cycles_of
from ceras_ir.backends.vta.schedule.contraction import BorderRun, Borders, Contraction, borders_of
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass

WINDOWS = [
    # size, kernel, strides, padding, dilations
    ((9, 8), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    ((9, 8), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((3, 2), (3, 3), (1, 1), (4, 4, 4, 4), (3, 3)),
    ((1, 9), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((7, 7), (5, 5), (1, 1), (2, 2, 2, 2), (1, 1)),
    ((6, 11), (4, 7), (1, 2), (3, 0, 0, 5), (1, 1)),
    ((12, 10), (3, 3), (1, 1), (4, 3, 4, 3), (4, 3)),
]


@pytest.mark.sample(4)
@pytest.mark.slow
@pytest.mark.parametrize("window", first_fast(1, WINDOWS))
def test_borders(window: tuple[tuple[int, ...], ...]):
    """Padding elements represent zero in entire maps, in blocks, and tap by tap."""
    (h, w), (kh, kw), strides, padding, dilations = window
    rng = np.random.default_rng(h * w)
    layer = Layer(
        random_array(rng, (2, h, w, 20)),
        random_array(rng, (50, kh, kw, 20), extremes=True),
        strides=(strides[0], strides[1]),
        padding=(padding[0], padding[1], padding[2], padding[3]),
        dilations=(dilations[0], dilations[1]),
        requant=RequantAttr(8, zero_point=3),
        points=(-128, 0),
    )
    tiles = [
        TilePass(board=BOARD),
        TilePass("auto", 7, 16, 32, BOARD),
        TilePass("serial", 12, 32, 64, BOARD),
        TilePass(board=BOARD, convolution="kn2row"),
    ]
    for tile in tiles:
        module = layer.module()
        image = check_all_levels(module, layer.inputs, layer.expected(), tile)
        assert len(image.launches) == 1


def test_borders_by_hand():
    """3x3 around four rows of six has a run on each side, and a corner where both meet."""
    borders = borders_of(
        Contraction(1, 1, 4, 6, 1, 4, 6, (3, 3), (1, 1), (1, 1, 1, 1), outside=True)
    )
    assert borders.rows == (BorderRun(0, 1, (0,)), BorderRun(3, 1, (2,)))
    assert borders.columns == (BorderRun(0, 1, (0,)), BorderRun(5, 1, (2,)))
    assert borders.constants == 2 + 2 + 4
    assert borders.additions(4, 6) == 2 * 6 + 2 * 4 + 4
    # With a stride of two there is no padding below: the last windows cover rows 1 to 3.
    strided = Contraction(1, 1, 4, 6, 1, 2, 3, (3, 3), (2, 2), (1, 1, 1, 1), outside=True)
    assert borders_of(strided).rows == (BorderRun(0, 1, (0,)),)
    assert borders_of(replace(strided, outside=False)) == Borders()
    # With distant taps, three rows on each side have a tap outside.
    dilated = Contraction(1, 1, 9, 9, 1, 9, 9, (3, 3), (1, 1), (3, 3, 3, 3), (3, 3), outside=True)
    assert borders_of(dilated).rows == (BorderRun(0, 3, (0,)), BorderRun(6, 3, (2,)))


@pytest.mark.slow
def test_borders_cost_little():
    """
    Borders add less than 3% of cycles to a layer of ResNet, and the cost model predicts the cycles.
    """
    rng = np.random.default_rng(0)
    layer = Layer(
        random_array(rng, (1, 56, 56, 64)),
        random_array(rng, (64, 3, 3, 64)),
        rng.integers(-100, 100, 64).astype(np.int32),
        padding=(1, 1, 1, 1),
        requant=RequantAttr(9),
    )
    board, cycles = load_board("de10nano"), list[int]()
    for point in (0, -128):
        module = replace(layer, points=(point, 0)).module()
        modelled = cycles_of(convolution(module), board)
        place(module, board)
        apply(module, ConvertGraphToTilePass("de10nano"), TilePass(board="de10nano"))
        apply(module, AllocateBlocksPass(alignment=256))
        (launch,) = build_image(module, board).launches
        cycles.append(simulate_time(launch.program.instructions, board).cycles)
        assert modelled == pytest.approx(cycles[-1], rel=0.01)
    assert cycles[0] < cycles[1] < 1.03 * cycles[0]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 20])
def test_borders_before_a_swish(rows: int):
    """
    Constants of residual, swish and border are combined. Only the operand of the swish is
    symmetric.
    """
    rng = np.random.default_rng(rows)
    layer = Layer(
        random_array(rng, (1, 5, 6, 24)),
        random_array(rng, (20, 3, 3, 24)),
        residual=random_array(rng, (1, 5, 6, 20)),
        padding=(1, 1, 1, 1),
        residual_shift=5,
        requant=RequantAttr(4, low=-9000, high=9000),
        points=(-128, 33),
    )
    shapes = [value.shape for value in layer.inputs.values()]
    kinds = [TensorType(stored(p), n) for p, n in zip(layer.points, shapes, strict=True)]
    block = Block(arg_types=kinds)
    block.add_op(weights := graph.ConstantOp.from_array(layer.weights, INT8))
    conv = graph.Conv2dOp(
        *(block.args[0], weights.result, None, block.args[1]),
        result_element=WIDE,
        padding=layer.padding,
        requant=layer.requant,
        residual_shift=layer.residual_shift,
    )
    block.add_op(conv)
    bends, last = rng.integers(0, 3000, (rows, 5)), RequantAttr(6)
    swish = graph.ShiftSwishOp(conv.result, bends.reshape(-1).tolist(), INT8, last)
    block.add_op(swish)
    module = network(block, swish.result)
    image = check_all_levels(module, layer.inputs, swish_of(layer.expected(), bends, last))
    assert len(image.launches) == 1
