"""All schedules compute the same integers, and the search is faster than S3."""

import numpy as np
import pytest
from backends.vta_lowering.layers import Layer, check_all_levels, random_array

from ceras_ir.backends.vta.execution.image import VtaImage
from ceras_ir.backends.vta.machine.board import load_board
from ceras_ir.backends.vta.machine.time import simulate_time
from ceras_ir.backends.vta.passes.tiling import Schedule, TilePass
from ceras_ir.backends.vta.schedule.blocks import Blocks
from ceras_ir.backends.vta.schedule.contraction import Contraction
from ceras_ir.backends.vta.schedule.cost import estimate
from ceras_ir.backends.vta.schedule.search import best_blocks
from ceras_ir.dialects import tile
from ceras_ir.dialects.quant import RequantAttr, Rounding
from ceras_ir.dialects.tile import Order
from ceras_ir.support.diagnostics import UnsupportedError

pytestmark = pytest.mark.slow

FLOOR = RequantAttr(9, rounding=Rounding.FLOOR)


def product(m: int, k: int, n: int, requant: RequantAttr = FLOOR, *, bias: bool = False) -> Layer:
    rng = np.random.default_rng(m + k + n)
    numbers = rng.integers(-5000, 5000, n).astype(np.int32) if bias else None
    return Layer(random_array(rng, (m, k)), random_array(rng, (n, k)), numbers, requant=requant)


def stream(layer: Layer, schedule: TilePass) -> VtaImage:
    return check_all_levels(layer.module(), layer.inputs, layer.expected(), schedule)


def cycles(image: VtaImage) -> int:
    """Return the cycles on the board with a bus of 64 bits."""
    (launch,) = image.launches
    return simulate_time(launch.program.instructions, load_board("de10nano")).cycles


@pytest.mark.parametrize("schedule", ["alg1", "alg2", "alg3"])
@pytest.mark.parametrize("size", [(48, 64, 32), (37, 50, 70), (1, 16, 16)])
def test_s3(schedule: Schedule, size: tuple[int, int, int]):
    stream(product(*size, bias=True), TilePass(schedule=schedule))


def test_s3_with_block_sizes():
    layer = product(90, 90, 50)
    stream(layer, TilePass(schedule="alg1", mblock=64, kblock=32, nblock=32))
    stream(layer, TilePass(schedule="alg2", mblock=32, kblock=32, nblock=32))
    stream(layer, TilePass(schedule="alg3", mblock=48, kblock=40))


def test_s3_that_does_not_fit():
    with pytest.raises(UnsupportedError, match=r"blocks need .* elements of acc"):
        stream(product(2000, 16, 1024), TilePass(schedule="alg2", mblock=2000))
    with pytest.raises(UnsupportedError, match="rows exceed the matrix by 28"):
        stream(product(100, 16, 16), TilePass(schedule="alg2", mblock=32))


@pytest.mark.parametrize("bias", [0, 1, -7, 32767, -32768, 40000])
def test_bias_of_one_number(bias: int):
    """A bias that fits an immediate is added by an instruction; any other bias is loaded."""
    rng = np.random.default_rng(3)
    numbers = np.full(20, bias, np.int32)
    layer = Layer(random_array(rng, (9, 40)), random_array(rng, (20, 40)), numbers, requant=FLOOR)
    stream(layer, TilePass())


def fix(monkeypatch: pytest.MonkeyPatch, blocks: Blocks) -> None:
    """Let `schedule-tiles` choose `blocks`."""

    def fixed(self: object, shape: object, board: object) -> Blocks:
        return blocks

    monkeypatch.setattr("ceras_ir.backends.vta.passes.tiling.ScheduleTilesPass._blocks", fixed)


HAND_MADE = [
    Blocks(1, 10, 1, 2, (1, 1, 1), Order.MNK, resident=True, drain=1),
    Blocks(1, 7, 2, 3, (2, 1, 2), Order.NMK, resident=True, drain=2),
    Blocks(1, 30, 2, 4, (1, 2, 2), Order.MNK, resident=True),
    Blocks(1, 16, 3, 5, (2, 2, 1), Order.NMK, resident=False, drain=3),
]


@pytest.mark.parametrize("blocks", HAND_MADE)
def test_what_stays_and_when_results_leave(blocks: Blocks, monkeypatch: pytest.MonkeyPatch):
    fix(monkeypatch, blocks)
    stream(product(30, 80, 112, bias=True), TilePass())


CONVOLUTIONS = [
    Blocks(4, 9, 1, 3, (1, 1, 2), Order.NMK, resident=True, drain=1),
    Blocks(5, 3, 2, 2, (1, 2, 1), Order.MNK, resident=True, drain=1),
    Blocks(3, 9, 1, 4, (2, 2, 2), Order.MNK, resident=True, drain=3),
]


@pytest.mark.parametrize("blocks", CONVOLUTIONS)
def test_convolution(blocks: Blocks, monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(5)
    layer = Layer(
        random_array(rng, (2, 11, 9, 40)),
        random_array(rng, (60, 3, 3, 40)),
        rng.integers(-900, 900, 60).astype(np.int32),
        random_array(rng, (2, 11, 9, 60)),
        padding=(1, 1, 1, 1),
        residual_shift=7,
        requant=RequantAttr(9, low=0),
    )
    fix(monkeypatch, blocks)
    stream(layer, TilePass())


@pytest.mark.parametrize(("size", "most"), [((128, 128, 128), 14_000), ((256, 256, 256), 85_300)])
def test_search_beats_s3(size: tuple[int, int, int], most: int):
    """
    The search needs at most the cycles of a good schedule on hardware; S3 takes 1.8 times as long.
    """
    auto = cycles(stream(product(*size), TilePass(board="de10nano")))
    assert auto <= most
    m, k, n = size
    shape = Contraction(1, k // 16, 1, m, n // 16, 1, m, bias_cycles=0)
    blocks = best_blocks(shape, board := load_board("de10nano"))
    assert blocks is not None
    assert estimate(shape, blocks, board) == pytest.approx(auto, rel=0.03)
    s3 = cycles(stream(product(*size), TilePass(schedule="alg3", board="de10nano")))
    assert s3 > 1.8 * auto


def test_orders_of_s3_are_marked():
    assert [o.value for o in tile.Order if o.is_s3] == ["alg1", "alg2", "alg3"]
