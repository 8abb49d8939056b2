"""Layers at the limits of the rules of VTA are exact."""

import numpy as np
import pytest
from backends.vta_lowering.layers import BOARD, Layer, check_all_levels, random_array
from slow_cases import first_fast

from ceras_ir.backends.vta.machine.isa import Load
from ceras_ir.backends.vta.passes.tiling import TilePass
from ceras_ir.dialects.quant import RequantAttr, Rounding


def check(layer: Layer, tile: TilePass | None = None):
    return check_all_levels(layer.module(), layer.inputs, layer.expected(), tile)


@pytest.mark.parametrize("shift", [0, 1, 14, 15, 16, 20, 30, 31])
def test_shift(shift: int):
    rng = np.random.default_rng(shift)
    bias = rng.integers(-(2**29), 2**29, 20).astype(np.int32)
    weights = random_array(rng, (20, 3, 3, 5))
    check(Layer(random_array(rng, (1, 5, 5, 5)), weights, bias, requant=RequantAttr(shift)))


@pytest.mark.parametrize("exponent", [1, 5])
def test_multiplier_is_a_left_shift(exponent: int):
    rng = np.random.default_rng(exponent)
    layer = Layer(
        rng.integers(-2, 3, (4, 8)).astype(np.int8),
        rng.integers(-2, 3, (9, 8)).astype(np.int8),
        requant=RequantAttr(max(-exponent, 0), multiplier=1 << max(exponent, 0)),
    )
    check(layer)


def test_floor():
    rng = np.random.default_rng(0)
    requant = RequantAttr(7, rounding=Rounding.FLOOR)
    check(Layer(random_array(rng, (6, 20)), random_array(rng, (40, 20)), requant=requant))


@pytest.mark.parametrize("residual_shift", [0, 6, 7, 22, 23])
def test_residual_shift(residual_shift: int):
    rng = np.random.default_rng(residual_shift)
    layer = Layer(
        random_array(rng, (1, 4, 3, 20)),
        random_array(rng, (33, 1, 1, 20)),
        residual=random_array(rng, (1, 4, 3, 33), extremes=True),
        residual_shift=residual_shift,
        requant=RequantAttr(max(1, residual_shift - 1)),
    )
    check(layer)


@pytest.mark.parametrize("outputs", [1, 16, 17, 40])
@pytest.mark.parametrize("rows", first_fast(1, [1, 2, 3]))
def test_fewer_outputs_than_the_pipeline_is_deep(rows: int, outputs: int):
    """No accumulator may be written twice within three iterations (rule 7 of the notes)."""
    rng = np.random.default_rng(rows)
    check(Layer(random_array(rng, (rows, 50)), random_array(rng, (outputs, 50))))


def test_every_sum_saturates():
    weights = np.full((16, 3, 3, 32), -128, np.int8)
    for value in (-128, 127):
        x = np.full((1, 6, 6, 32), value, np.int8)
        check(Layer(x, weights, padding=(1, 1, 1, 1), requant=RequantAttr(0)))


def test_ties_round_up():
    """Sums of exactly half a unit round up for both signs."""
    x = np.arange(-128, 128, dtype=np.int64).astype(np.int8).reshape(256, 1)
    layer = Layer(x, np.ones((1, 1), np.int8), requant=RequantAttr(1))
    assert layer.expected()[:4, 0].tolist() == [-64, -63, -63, -62]
    check(layer)


def test_widest_padding_and_dilation():
    rng = np.random.default_rng(1)
    layer = Layer(
        random_array(rng, (1, 20, 20, 16)),
        random_array(rng, (16, 3, 3, 16)),
        padding=(15, 15, 15, 15),
        dilations=(9, 8),
    )
    check(layer)


def test_row_that_is_wider_than_a_buffer():
    rng = np.random.default_rng(2)
    layer = Layer(
        random_array(rng, (1, 3, 3000, 16)), random_array(rng, (16, 2, 2, 16)), strides=(1, 2)
    )
    check(layer)


@pytest.mark.slow
def test_more_micro_ops_than_fit_are_reloaded():
    """The micro-op memory is too small for all sequences: the stream loads them in phases."""
    rng = np.random.default_rng(3)
    weights = random_array(rng, (16 * 20, 3, 3, 16 * 16))
    image = check(
        Layer(random_array(rng, (1, 5, 5, 16 * 16)), weights, requant=RequantAttr(12)),
        TilePass(mblock=5, kblock=16, nblock=16 * 7, board=BOARD),
    )
    assert len(image.launches) == 1


def test_strided_pointwise_loads_only_the_rows_it_needs():
    rng = np.random.default_rng(4)
    layer = Layer(
        random_array(rng, (1, 9, 9, 32)), random_array(rng, (48, 1, 1, 32)), strides=(2, 2)
    )
    (launch,) = check(layer).launches
    loads = [i for i in launch.program.instructions if isinstance(i, Load)]
    rows = [i.y_size for i in loads if i.x_stride == 2 * 9]
    assert rows and max(rows) <= 5
