"""`ceras-vta` computes the parameters of a board from the times of its streams."""

import json
from pathlib import Path

import numpy as np
import pytest

from ceras_ir.backends.vta.execution.calibration import fit_board, main, probes, with_parameters
from ceras_ir.backends.vta.machine.board import VtaBoard, load_board
from ceras_ir.backends.vta.machine.check import check_program
from ceras_ir.backends.vta.machine.encoding import decode
from ceras_ir.backends.vta.machine.time import simulate_time

START_US = 35.0
HLS = (
    {"refill": 12, "latency": 60, "bytes_per_cycle": 8, "instruction": 15},
    {"refill": 2, "latency": 30, "bytes_per_cycle": 16, "instruction": 40},
    {"refill": 25, "latency": 150, "bytes_per_cycle": 4, "instruction": 3},
)
CHISEL = (
    {"read_latency": 80, "write_latency": 20, "bus_bytes": 8},
    {"read_latency": 150, "write_latency": 60, "bus_bytes": 16},
)


def times_on(board: VtaBoard, noise: float, seed: int = 0) -> dict[str, float]:
    """Return the microseconds of all streams on a board, with the time of the host and noise."""
    rng = np.random.default_rng(seed)
    return {
        probe.name: (
            simulate_time(probe.program.instructions, board).cycles / board.clock + START_US
        )
        * (1 + noise * float(rng.standard_normal()))
        for probe in probes(board)
    }


def parameters(board: VtaBoard, names: dict[str, int]) -> list[int]:
    source = board if board.hls is None else board.hls
    return [getattr(source, name) for name in names]


@pytest.mark.slow
def test_streams_are_good():
    for name in ("zcu104", "de10nano"):
        board = load_board(name)
        for probe in probes(board):
            assert check_program(probe.program, board, probe.size) == []
            assert len(probe.dram(board)) == probe.size


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "truth"), [*(("zcu104", t) for t in HLS), *(("de10nano", t) for t in CHISEL)]
)
def test_parameters_come_back_from_noisy_times(name: str, truth: dict[str, int]):
    board = load_board(name)
    fitted = fit_board(board, probes(board), times_on(with_parameters(board, truth), 0.01))
    found = np.array(parameters(fitted.board, truth), np.float64)
    np.testing.assert_allclose(found, list(truth.values()), rtol=0.05)
    assert fitted.start_us == pytest.approx(START_US, rel=0.05)
    assert fitted.error < 0.02


@pytest.mark.slow
def test_from_streams_to_a_board_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """
    A board can run the written files, and the board file from the measured times can be loaded.
    """
    folder, times, made = tmp_path / "streams", tmp_path / "times.json", tmp_path / "mine.json"
    assert main(["calibrate", str(folder), "--board", "ultra96"]) == 0
    truth = with_parameters(load_board("ultra96"), HLS[0])
    listed = json.loads((folder / "manifest.json").read_text())["probes"]
    measured: dict[str, float] = {}
    for name in listed:
        stream = decode((folder / f"{name}.insns").read_bytes(), truth)
        measured[name] = START_US + simulate_time(stream, truth).cycles / truth.clock
    times.write_text(json.dumps(measured))
    assert main(["fit", str(times), "--board", "ultra96", "-o", str(made)]) == 0
    assert load_board(made) == truth
    assert "start of a stream 35.0 us" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1]", "expected a JSON object with microseconds by stream"),
        ("{", "not JSON: "),
        ('{"start": 3}', "no times for instructions, entries_1, "),
        (None, "start must be microseconds above 0, got 'fast'"),
    ],
)
def test_bad_times(
    tmp_path: Path, content: str | None, message: str, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "times.json"
    names = [probe.name for probe in probes(load_board("zcu104"))]
    given = dict.fromkeys(names, 5.0) | {"start": "fast"}
    file.write_text(json.dumps(given) if content is None else content)
    assert main(["fit", str(file), "--board", "zcu104"]) == 1
    assert message in capsys.readouterr().err
