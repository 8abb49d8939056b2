"""
`--tune` chooses schedules by measured cycles, and keeps the choice of the model if no other is
faster.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from backends.vta_lowering.layers import BOARD, Layer, apply, place, random_array
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.vta.execution.image import build_image
from ceras_ir.backends.vta.execution.runner import VtaRunner
from ceras_ir.backends.vta.machine.board import load_board
from ceras_ir.backends.vta.machine.time import simulate_time
from ceras_ir.backends.vta.passes.convert_graph_to_tile import ConvertGraphToTilePass
from ceras_ir.backends.vta.passes.tiling import TilePass
from ceras_ir.backends.vta.passes.tuning import CANDIDATES, Tuner, TuneTilesPass
from ceras_ir.backends.vta.target import VtaTarget
from ceras_ir.dialects import tile
from ceras_ir.interpreters.network import run
from ceras_ir.support.diagnostics import InputError, UsageError
from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass

TILING = (TilePass(board=BOARD),)


@pytest.fixture(autouse=True)
def no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(name="layer")
def _layer() -> Layer:
    rng = np.random.default_rng(0)
    return Layer(
        random_array(rng, (1, 12, 12, 40)), random_array(rng, (48, 3, 3, 40)), padding=(1, 1, 1, 1)
    )


def kernels(layer: Layer) -> ModuleOp:
    module = layer.module()
    place(module, load_board(BOARD))
    apply(module, ConvertGraphToTilePass(BOARD))
    return module


def counting(cycles: list[int]) -> object:
    """Return a runner with the given answers in turn; the last is repeated."""
    answers = iter(cycles)

    def answer(self: VtaRunner, index: int, dram: object) -> int:
        return next(answers, cycles[-1])

    return answer


@pytest.mark.parametrize("best", range(3))
def test_the_fastest_is_taken(layer: Layer, best: int, monkeypatch: pytest.MonkeyPatch):
    """The schedule of the model runs first. The fastest of all runs again before it is accepted."""
    cycles = [100 + (i != best) * (10 + i) for i in range(CANDIDATES)]
    monkeypatch.setattr(VtaRunner, "cycles", counting([*cycles, cycles[best]]))
    module = kernels(layer)
    tuner = Tuner(module, BOARD, "auto", TILING, merged=True, runner="x {dram} {insns} {out}")
    found = tuner.tuned()
    assert (found.before, found.after) == (cycles[0], 100)
    chosen = [schedule for _, schedule in found.schedules]
    assert chosen == [tuner.candidates[0][best].attribute()] * (best > 0)
    # The result is cached, so no stream runs again.
    monkeypatch.setattr(VtaRunner, "cycles", None)
    assert tuner.tuned() == found


def test_tiles_of_zeros_are_another_network(layer: Layer):
    """
    Zero tiles need no products, so cycles of a network do not apply to one with other zero tiles.
    """
    sparse = replace(layer, weights=layer.weights.copy())
    sparse.weights[:16] = 0
    before = [
        Tuner(kernels(each), BOARD, "auto", TILING, merged=True, runner=None).tuned().before
        for each in (layer, sparse)
    ]
    assert before[1] < before[0]


def test_what_is_no_faster_in_the_end_is_left(layer: Layer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(VtaRunner, "cycles", counting([100, *[90] * (CANDIDATES - 1), 100]))
    found = Tuner(
        kernels(layer), BOARD, "auto", TILING, merged=True, runner="x {dram} {insns} {out}"
    ).tuned()
    assert not found.schedules and (found.before, found.after) == (100, 100)


@pytest.mark.slow
def test_never_slower_and_exact(layer: Layer, capsys: pytest.CaptureFixture[str]):
    cycles: list[int] = []
    for passes in ((), (TuneTilesPass(BOARD),)):
        module = kernels(layer)
        apply(module, *passes, TilePass(board=BOARD), AllocateBlocksPass(alignment=256))
        result = run(module, layer.inputs)["output0"]
        np.testing.assert_array_equal(result, layer.expected())
        (launch,) = build_image(module, load_board(BOARD)).launches
        cycles.append(simulate_time(launch.program.instructions, load_board(BOARD)).cycles)
    assert cycles[1] <= cycles[0]
    assert f"tuned: {cycles[1]:,} cycles instead of {cycles[0]:,}" in capsys.readouterr().err


def test_schedules_that_are_there_stay(layer: Layer):
    module = kernels(layer)
    (op,) = [op for op in module.walk() if isinstance(op, tile.Conv2dOp)]
    tuner = Tuner(module, BOARD, "auto", TILING, merged=True, runner=None)
    op.schedule = schedule = tuner.candidates[0][-1].attribute()
    apply(module, TuneTilesPass(BOARD))
    assert op.schedule == schedule


@pytest.mark.slow
@pytest.mark.parametrize(("said", "message"), [("12.5", "got '12.5'"), ("", "got ''")])
def test_a_runner_that_prints_no_cycles(layer: Layer, tmp_path: Path, said: str, message: str):
    script = tmp_path / "runner.py"
    script.write_text(f"import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2]); print({said!r})")
    runner = f"{sys.executable} {script} {{dram}} {{out}} {{insns}}"
    with pytest.raises(InputError, match="did not print the cycles of launch 0") as caught:
        Tuner(kernels(layer), BOARD, "auto", TILING, merged=True, runner=runner).tuned()
    assert message in str(caught.value)


@pytest.mark.slow
def test_the_runners_last_line_counts(layer: Layer, tmp_path: Path):
    script = tmp_path / "runner.py"
    script.write_text(
        "import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2]); print('hello'); print(77)"
    )
    runner = f"{sys.executable} {script} {{dram}} {{out}} {{insns}}"
    found = Tuner(kernels(layer), BOARD, "auto", TILING, merged=True, runner=runner).tuned()
    assert (found.before, found.after, list(found.schedules)) == (77, 77, [])


def test_usage():
    for jobs in (0, -2):
        with pytest.raises(UsageError, match="--jobs must be at least 1, or -1 for all cores"):
            VtaTarget(jobs=jobs).check()
    with pytest.raises(UsageError, match="--tune-runner is for --tune"):
        VtaTarget(tune_runner="x {dram} {insns} {out}").check()
    with pytest.raises(UsageError, match=r"has no \{out\}"):
        VtaTarget(tune=True, tune_runner="x {dram} {insns}").check()
