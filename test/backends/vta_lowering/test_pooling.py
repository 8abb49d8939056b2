"""Maximum pooling by ALU programs is equal at all levels; the CPU gets the remaining cases."""

import numpy as np
import pytest
from backends.vta_lowering.layers import (
    BOARD,
    INT8,
    apply,
    check_all_levels,
    network,
    place,
    random_array,
)
from slow_cases import slow
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block

from ceras_ir.backends.vta.machine.board import load_board
from ceras_ir.backends.vta.passes.convert_graph_to_tile import ConvertGraphToTilePass
from ceras_ir.backends.vta.rules.admission import why_not
from ceras_ir.dialects import graph, tile
from ceras_ir.dialects.graph.pooling import Pool
from ceras_ir.dialects.quant import RequantAttr

Pad = tuple[int, int, int, int]


def pooled(
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    padding: Pad = (0, 0, 0, 0),
    *,
    relu: bool = False,
) -> tuple[ModuleOp, graph.Pool2dOp]:
    """
    Return a network with a pooling. With `relu`, a convolution that clamps at zero precedes it.
    """
    block = Block(arg_types=[TensorType(INT8, shape)])
    x = block.args[0]
    if relu:
        identity = np.eye(shape[3], dtype=np.int8).reshape(shape[3], 1, 1, shape[3])
        block.add_op(weights := graph.ConstantOp.from_array(identity, INT8))
        requant = RequantAttr(0, low=0)
        conv = graph.Conv2dOp(x, weights.result, result_element=INT8, requant=requant)
        block.add_op(conv)
        x = conv.result
    pool = graph.Pool2dOp(
        Pool.MAX, x, kernel, strides=strides, padding=padding, result_element=INT8
    )
    block.add_op(pool)
    return network(block, pool.result), pool


def expected(x: np.ndarray[tuple[int, ...]], pool: graph.Pool2dOp, least: int):
    """Compute the maximum of each window in numpy."""
    (kh, kw), (sh, sw) = pool.kernel.get_values(), pool.strides.get_values()
    top, left, bottom, right = pool.padding.get_values()
    pads = ((0, 0), (top, bottom), (left, right), (0, 0))
    wide = np.pad(np.maximum(x, least), pads, constant_values=-128)
    _, rows, columns, _ = graph.shape_of(pool.result)
    return np.stack(
        [
            np.stack(
                [
                    wide[:, y * sh : y * sh + kh, x * sw : x * sw + kw].max(axis=(1, 2))
                    for x in range(columns)
                ],
                axis=1,
            )
            for y in range(rows)
        ],
        axis=1,
    )


CASES = [
    ((1, 8, 8, 16), (2, 2), (2, 2), (0, 0, 0, 0), False),
    ((2, 7, 9, 20), (3, 3), (2, 2), (0, 0, 0, 0), False),
    ((1, 12, 12, 40), (3, 3), (2, 2), (1, 1, 1, 1), True),
    ((1, 13, 11, 3), (5, 5), (1, 1), (2, 2, 2, 2), True),
    ((1, 10, 6, 17), (1, 4), (1, 2), (0, 0, 0, 0), False),
    ((1, 9, 30, 16), (4, 1), (3, 1), (0, 0, 0, 0), False),
    ((1, 56, 56, 5), (3, 3), (2, 2), (1, 1, 1, 1), True),
    ((1, 5, 6, 9), (2, 3), (5, 4), (0, 0, 0, 0), False),
    ((1, 13, 13, 20), (13, 13), (1, 1), (6, 6, 6, 6), False),
    ((1, 12, 9, 3), (5, 4), (1, 1), (2, 1, 2, 3), False),
    ((2, 11, 14, 16), (3, 3), (2, 2), (1, 1, 1, 1), False),
    ((1, 70, 60, 5), (3, 2), (2, 1), (2, 1, 0, 0), False),
    ((1, 2, 3, 16), (7, 5), (1, 1), (3, 2, 3, 2), False),
]


@pytest.mark.parametrize(
    ("shape", "kernel", "strides", "padding", "relu"), [*CASES[:3], *(slow(*c) for c in CASES[3:])]
)
def test_every_level(
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    padding: Pad,
    relu: bool,
):
    rng = np.random.default_rng(sum(shape))
    module, pool = pooled(shape, kernel, strides, padding, relu=relu)
    assert why_not(pool) is None
    for extremes in (False, True):
        x = random_array(rng, shape, extremes=extremes)
        module, pool = pooled(shape, kernel, strides, padding, relu=relu)
        result = expected(x, pool, 0 if relu else -128)
        check_all_levels(module, {"input0": x}, result)


def test_all_negative():
    x = np.full((1, 6, 6, 16), -128, np.int8)
    x[0, 2, 2, 3] = -127
    module, pool = pooled(x.shape, (3, 3), (1, 1))
    check_all_levels(module, {"input0": x}, expected(x, pool, -128))


@pytest.mark.parametrize(
    ("kernel", "strides", "padding", "reason"),
    [
        ((5, 5), (2, 2), (0, 0, 0, 0), "up to twice the stride"),
    ],
)
def test_refused(kernel: tuple[int, int], strides: tuple[int, int], padding: Pad, reason: str):
    _, pool = pooled((1, 12, 12, 16), kernel, strides, padding)
    assert reason in (why_not(pool) or "")


def test_zeros_pad_what_relu_made():
    """
    After a ReLU, the border needs no minima. The convolution is already a launch at this point.
    """
    for relu in (True, False):
        module, _ = pooled((1, 13, 13, 16), (3, 3), (2, 2), (1, 1, 1, 1), relu=relu)
        place(module, load_board(BOARD))
        apply(module, ConvertGraphToTilePass(BOARD))
        (pool,) = (op for op in module.walk() if isinstance(op, tile.MaxPoolOp))
        assert pool.least.value.data == (0 if relu else -128)
