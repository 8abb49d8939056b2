"""The search proposes only schedules that fit, prefers schedules that overlap, and is fast."""

import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from slow_cases import slow

from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.schedule.blocks import Blocks, Schedules, even_blocks, misfit
from ceras_ir.backends.vta.schedule.contraction import Contraction
from ceras_ir.backends.vta.schedule.cost import cost
from ceras_ir.backends.vta.schedule.search import Limits, best_blocks, candidates, search_all
from ceras_ir.dialects.tile import Order
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.extras import install_command

BOARD = VtaBoard()
CONV = Contraction(1, 4, 56, 56, 4, 56, 56, kernel=(3, 3), padding=(1, 1, 1, 1))
SHAPES = [
    CONV,
    replace(CONV, residual=True),
    Contraction(2, 1, 224, 224, 4, 112, 112, (7, 7), (2, 2), (3, 3, 3, 3)),
    Contraction(1, 32, 7, 7, 32, 7, 7, (3, 3), padding=(1, 1, 1, 1)),
    Contraction(1, 32, 1, 1, 63, 1, 1),
    Contraction(1, 8, 28, 28, 16, 14, 14, strides=(2, 2)),
    Contraction(1, 64, 1, 4096, 64, 1, 4096),
    replace(CONV, padding=(12, 12, 12, 12), dilations=(12, 12)).by_taps(),
    Contraction(2, 3, 23, 9, 4, 12, 5, (2, 5), (2, 3), (1, 4, 1, 4), (1, 2)).by_taps(),
]

LARGEST = 6
"""The layer with the most splits. The other layers run the same code in less time."""

CASES = [slow(shape) if i == LARGEST else shape for i, shape in enumerate(SHAPES)]


@pytest.mark.parametrize("shape", CASES)
def test_best_fits(shape: Contraction):
    blocks = best_blocks(shape, BOARD)
    assert blocks is not None
    assert misfit(shape, blocks, BOARD) is None


@pytest.mark.parametrize("shape", CASES)
def test_many_at_once_as_one_by_one(shape: Contraction):
    schedules = candidates(shape, BOARD, Limits())
    fitting, cycles = schedules.fitting(BOARD), cost(schedules, BOARD)
    for index in range(0, len(cycles), max(1, len(cycles) // 50)):
        blocks = schedules[index]
        assert (misfit(shape, blocks, BOARD) is None) == fitting[index]
        assert cost(Schedules.single(shape, blocks), BOARD)[0] == cycles[index]


@pytest.mark.parametrize("shape", CASES)
def test_cost_is_above_the_bound_of_the_multipliers(shape: Contraction):
    blocks = best_blocks(shape, BOARD)
    assert blocks is not None
    products = shape.batch * shape.rows * shape.columns
    products *= shape.nblocks * shape.kblocks * shape.taps
    cycles = cost(Schedules.single(shape, blocks), BOARD)[0]
    assert cycles > products
    if shape.taps == 9:
        assert products / cycles > 0.75


@pytest.mark.parametrize("shape", CASES)
def test_overlap_pays(shape: Contraction):
    auto, serial = (best_blocks(shape, BOARD, Limits(serial=s)) for s in (False, True))
    assert auto is not None and serial is not None
    assert serial.stages == (1, 1, 1)
    costs = [cost(Schedules.single(shape, b), BOARD)[0] for b in (auto, serial)]
    assert costs[0] <= costs[1]


def test_limits():
    blocks = best_blocks(CONV, BOARD, Limits(positions=30, kblock=3, nblock=2))
    assert blocks is not None
    assert 15 < blocks.positions <= 30
    assert (blocks.kblock, blocks.nblock) == (3, 2)
    assert best_blocks(CONV, BOARD, Limits(positions=3136)) is None


@pytest.mark.parametrize(
    ("blocks", "reason"),
    [
        (Blocks(56, 56, 1, 1), "3364 elements of inp, the board has 2048"),
        (Blocks(4, 4, 4, 4, (1, 8, 1)), "1152 elements of wgt, the board has 1024"),
        (Blocks(8, 56, 1, 5), "2244 elements of acc, the board has 2048"),
        (Blocks(37, 1, 1, 1, (1, 1, 1), Order.MNK), "19 vectors of padding at the bottom"),
    ],
)
def test_misfit(blocks: Blocks, reason: str):
    message = misfit(CONV, blocks, BOARD)
    assert message is not None and reason in message


def test_smaller_board():
    small = VtaBoard(log_inp=8, log_wgt=7, log_acc=8)
    blocks = best_blocks(CONV, small)
    assert blocks is not None and misfit(CONV, blocks, small) is None


def test_even_blocks():
    assert even_blocks(7) == [7, 4, 3, 2, 1]
    assert all(np.ceil(112 / b) * b - 112 < b for b in even_blocks(112))


@pytest.mark.slow
def test_jobs_change_nothing(monkeypatch: pytest.MonkeyPatch):
    found: list[list[Blocks | None]] = []
    for jobs in (1, 2):
        monkeypatch.setattr("ceras_ir.backends.vta.schedule.search._FOUND", {})
        shapes = [replace(SHAPES[4], nblocks=n) for n in (3, 5, 5, 7)]
        search_all(shapes, BOARD, jobs=jobs)
        found.append([best_blocks(shape, BOARD) for shape in shapes])
    assert found[0] == found[1] and None not in found[0]


def test_each_shape_is_searched_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ceras_ir.backends.vta.schedule.search._FOUND", {})
    asked: list[tuple[object, ...]] = []

    def parallel(function: object, arguments: list[tuple[object, ...]], jobs: int) -> list[None]:
        asked.extend(arguments)
        return [None for _ in arguments]

    monkeypatch.setattr("ceras_ir.backends.vta.schedule.search.parallel", parallel)
    shapes = [SHAPES[4], SHAPES[5], SHAPES[4]]
    search_all(shapes, BOARD, jobs=4)
    search_all(shapes, BOARD, Limits(), jobs=4)
    assert [shape for shape, _, _ in asked] == shapes[:2]


def test_without_joblib(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "joblib", None)
    with pytest.raises(UsageError, match=re.escape(install_command("parallel"))):
        search_all([replace(SHAPES[4], nblocks=n) for n in (11, 13)], BOARD, jobs=2)
