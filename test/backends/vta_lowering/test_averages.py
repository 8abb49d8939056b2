"""Average pooling by GEMMs with a diagonal is exact for all sums, or left to the CPU."""

import numpy as np
import pytest
from backends.vta_lowering.layers import INT8, check_all_levels, network, random_array
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block

from ceras_ir.backends.vta.machine.board import load_board
from ceras_ir.backends.vta.machine.time import simulate_time
from ceras_ir.backends.vta.passes.tiling import TilePass
from ceras_ir.backends.vta.rules.addition_pooling import averaging, multiplier_digits
from ceras_ir.backends.vta.rules.admission import why_not
from ceras_ir.backends.vta.rules.placement import cycles_of
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.pooling import Pool
from ceras_ir.dialects.quant import SINGLE_ROUNDINGS, RequantAttr, Rounding


def fixed_point(window: int, exponent: int = 0, rounding: Rounding = Rounding.HALF_UP):
    """Return `2^exponent / window` with 28 fraction bits."""
    multiplier = round(2.0 ** (28 + exponent) / window)
    return RequantAttr(28, multiplier=multiplier, rounding=rounding)


def pooled(
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    strides: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    *,
    counts_padding: bool = False,
    requant: RequantAttr | None = None,
) -> tuple[ModuleOp, graph.Pool2dOp]:
    block = Block(arg_types=[TensorType(INT8, shape)])
    pool = graph.Pool2dOp(
        *(Pool.AVERAGE, block.args[0], kernel),
        strides=strides,
        padding=padding,
        count_include_pad=counts_padding,
        requant=requant or fixed_point(kernel[0] * kernel[1]),
        result_element=INT8,
    )
    block.add_op(pool)
    return network(block, pool.result), pool


@pytest.mark.parametrize("window", [1, 3, 4, 12, 49])
@pytest.mark.parametrize("exponent", [-1, 0, 2])
@pytest.mark.parametrize("rounding", SINGLE_ROUNDINGS)
def test_multiplier(window: int, exponent: int, rounding: Rounding):
    """Check the multiplier in Python integers, for all sums of a window."""
    requant = fixed_point(window, exponent, rounding)
    found = averaging(window, requant)
    if found is None:
        # A multiplication and a floor cannot round ties to even.
        assert rounding is Rounding.HALF_EVEN
        return
    shift, multiplier = requant.shift.data, requant.multiplier.data
    for total in range(-128 * window, 127 * window + 1):
        whole, rest = divmod(total * multiplier, 1 << shift)
        half = 1 << shift - 1
        up = {
            Rounding.FLOOR: False,
            Rounding.HALF_UP: rest >= half,
            Rounding.HALF_AWAY: rest > half or (rest == half and total >= 0),
            Rounding.HALF_EVEN: rest > half or (rest == half and whole % 2 == 1),
        }[rounding]
        expected = max(-128, min(127, whole + up))
        scaled = (total * found.multiplier + found.addend) >> found.shift
        assert max(-128, min(127, scaled)) == expected, total
    parts = multiplier_digits(found)
    assert all(0 <= d <= 127 for d in parts)
    assert sum(d << 7 * i for i, d in enumerate(reversed(parts))) == found.multiplier


CASES = [
    ((1, 7, 7, 40), (7, 7), (1, 1), (0, 0, 0, 0), False),
    ((2, 8, 8, 20), (8, 8), (1, 1), (0, 0, 0, 0), False),
    ((1, 9, 6, 33), (2, 2), (2, 2), (0, 0, 0, 0), False),
    ((1, 9, 11, 3), (3, 3), (1, 2), (1, 1, 1, 1), True),
    ((1, 13, 12, 17), (5, 2), (3, 4), (0, 0, 0, 0), False),
    ((3, 1, 5, 70), (1, 5), (1, 1), (0, 0, 0, 0), False),
]


@pytest.mark.parametrize(("shape", "kernel", "strides", "padding", "counts"), CASES)
@pytest.mark.parametrize("extremes", [False, True])
def test_every_level(
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    padding: tuple[int, int, int, int],
    counts: bool,
    extremes: bool,
):
    module, pool = pooled(shape, kernel, strides, padding, counts_padding=counts)
    assert why_not(pool) is None
    x = random_array(np.random.default_rng(sum(shape)), shape, extremes=extremes)
    top, left, bottom, right = padding
    wide = np.pad(x.astype(np.int64), ((0, 0), (top, bottom), (left, right), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, kernel, axis=(1, 2))
    total = windows[:, :: strides[0], :: strides[1]].sum(axis=(-2, -1))
    multiplier = round(2.0**28 / (kernel[0] * kernel[1]))
    expected = np.clip((total * multiplier + (1 << 27)) >> 28, -128, 127)
    check_all_levels(module, {"input0": x}, expected)


@pytest.mark.parametrize("board", ["de10nano", "pynq"])
@pytest.mark.parametrize(
    ("shape", "kernel"),
    [((1, 14, 14, 64), (14, 14)), ((1, 14, 14, 32), (14, 14)), ((1, 15, 15, 32), (3, 3))],
)
def test_modelled_time(shape: tuple[int, ...], kernel: tuple[int, int], board: str):
    """Placement uses times within 20% of those of the stream, for both sources of VTA."""
    module, pool = pooled(shape, kernel)
    machine = load_board(board)
    modelled = cycles_of(pool, machine)
    x = random_array(np.random.default_rng(sum(shape)), shape)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64), kernel, axis=(1, 2))
    multiplier = round(2.0**28 / (kernel[0] * kernel[1]))
    total = windows.sum(axis=(-2, -1))
    expected = np.clip((total * multiplier + (1 << 27)) >> 28, -128, 127)
    image = check_all_levels(module, {"input0": x}, expected, TilePass(board=board))
    (launch,) = image.launches
    cycles = simulate_time(launch.program.instructions, machine).cycles
    assert 0.8 * cycles < modelled < 1.2 * cycles, (modelled, cycles)


@pytest.mark.parametrize(
    ("pool", "reason"),
    [
        (pooled((1, 6, 6, 16), (3, 3), padding=(1, 1, 1, 1))[1], "have fewer elements"),
        (pooled((1, 20, 19, 16), (20, 19))[1], "no multiplier that divides exactly"),
        (pooled((1, 60, 60, 16), (60, 60))[1], "no multiplier that divides exactly"),
    ],
)
def test_refused(pool: graph.Pool2dOp, reason: str):
    assert reason in (why_not(pool) or "")
