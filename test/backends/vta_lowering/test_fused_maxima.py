"""Maxima that are fused into a convolution are exact at each level and on all edges."""

from dataclasses import replace

import numpy as np
import pytest
from backends.vta_lowering.layers import (
    BOARD,
    Layer,
    apply,
    by_channel,
    check_all_levels,
    moved,
    network,
    place,
    random_array,
    stored,
)
from backends.vta_lowering.test_pooling import expected
from slow_cases import slow
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block

from ceras_ir.backends.vta.machine.board import load_board
from ceras_ir.backends.vta.passes.convert_graph_to_tile import ConvertGraphToTilePass
from ceras_ir.backends.vta.passes.tiling import TilePass
from ceras_ir.dialects import graph, tile
from ceras_ir.dialects.graph.pooling import Pool
from ceras_ir.dialects.quant import RequantAttr

WindowSplit = tuple[tuple[int, int], tuple[int, int], tuple[int, int, int, int]]
"""Kernel, strides and padding."""

SQUARE: WindowSplit = ((3, 3), (2, 2), (1, 1, 1, 1))


def layer(size: tuple[int, int] = (48, 32), channels: int = 24, batch: int = 1) -> Layer:
    rng = np.random.default_rng(sum(size))
    return Layer(
        random_array(rng, (batch, *size, 20)),
        random_array(rng, (channels, 3, 3, 20)),
        rng.integers(-2000, 2000, channels).astype(np.int32),
        padding=(1, 1, 1, 1),
        requant=RequantAttr(11),
    )


def bordered(first: Layer) -> Layer:
    """Return the layer with zero points and per-channel shifts."""
    shifts = [9 + channel % 4 for channel in range(len(first.weights))]
    return replace(first, points=(-128, 0), requant=by_channel(moved(RequantAttr(11), 5), shifts))


def with_maximum(first: Layer, windows: WindowSplit, *, twice: bool = False):
    """
    Return a network of `first` and its maximum. With `twice`, the result of the layer is also an
    output.
    """
    kernel, strides, padding = windows
    block = Block(arg_types=[TensorType(stored(first.points[0]), first.input.shape)])
    result = first.add_to(block, block.args[0], None)
    pool = graph.Pool2dOp(
        Pool.MAX, result, kernel, result_element=first.element, strides=strides, padding=padding
    )
    block.add_op(pool)
    return network(block, pool.result, *([result] if twice else [])), pool


def maxima(module: ModuleOp) -> int:
    """Return the number of convolutions on VTA with a fused maximum."""
    place(module, load_board(BOARD))
    apply(module, ConvertGraphToTilePass(BOARD))
    return sum(isinstance(op, tile.Conv2dOp) and op.maximum is not None for op in module.walk())


CASES = [
    (layer((16, 8)), SQUARE),
    (bordered(layer()), SQUARE),
    (layer(batch=2), ((2, 2), (2, 2), (0, 0, 0, 0))),
    (bordered(layer((30, 42))), ((3, 4), (3, 3), (0, 1, 0, 1))),
    (bordered(layer((36, 48))), ((4, 3), (3, 2), (1, 1, 2, 0))),
]


@pytest.mark.parametrize("first, windows", [CASES[0], *(slow(*case) for case in CASES[1:])])
def test_every_level(first: Layer, windows: WindowSplit):
    assert maxima(with_maximum(first, windows)[0]) == 1
    module, pool = with_maximum(first, windows)
    result = first.expected().astype(np.int8)
    check_all_levels(module, {"input0": first.input}, expected(result, pool, -128))


def test_only_maxima_are_stored():
    module, _ = with_maximum(layer((48, 48)), SQUARE)
    assert maxima(module) == 1
    apply(module, TilePass(board=BOARD))
    stores = [op for op in module.walk() if isinstance(op, tile.StoreOp)]
    assert {tuple(op.extents)[1] for op in stores} == {24}


APART = [
    pytest.param(layer((17, 8)), SQUARE, False, id="a row too many"),
    pytest.param(layer((16, 8)), ((3, 3), (2, 2), (0, 0, 1, 1)), False, id="past the next window"),
    pytest.param(layer((16, 8)), ((3, 3), (1, 1), (1, 1, 1, 1)), False, id="no stride"),
    pytest.param(layer((16, 8)), SQUARE, True, id="another reader"),
]


@pytest.mark.parametrize("first, windows, twice", APART)
def test_others_stay_apart(first: Layer, windows: WindowSplit, twice: bool):
    assert maxima(with_maximum(first, windows, twice=twice)[0]) == 0
