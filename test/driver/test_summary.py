"""Test the figures below the table of ceras-compile."""

import json
from pathlib import Path

import pytest

from ceras_ir.driver.compile import main as compile_tool
from ceras_ir.pipeline.summary import duration, summary

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"


def test_each_figure_has_the_limit_of_the_board() -> None:
    totals = {
        "macs": 4000,
        "flash_bytes": 5000,
        "code_bytes": 1000,
        "board_flash_bytes": 10000,
        "arena_bytes": 700,
        "peak_bytes": 500,
        "workspace_bytes": 150,
        "state_bytes": 50,
        "sram_bytes": 800,
        "board_sram_bytes": 1600,
    }
    prediction = {"machine": "a board", "microseconds": 2500.0}
    found = summary({"totals": totals, "prediction": prediction}, {"rate": "3 per hour"})
    assert found == [
        "MACs   4,000",
        "time   2.50 ms, predicted for a board",
        "flash  5,000 of 10,000 bytes (50%): constants 4,000, code 1,000",
        "SRAM   800 of 1,600 bytes (50%): arena 700 (values 500, workspace 150, states 50), "
        "inputs and outputs 100",
        "rate   3 per hour",
    ]


def test_figures_without_a_board_have_no_limit_and_unknown_figures_no_line() -> None:
    totals = {"macs": 0, "flash_bytes": 5000, "sram_bytes": 800, "gap_percent": 1.5}
    assert summary({"totals": totals}, {}) == [
        "flash  5,000 bytes of constants",
        "SRAM   800 bytes of values",
    ]


def test_a_text_of_the_target_has_the_place_of_its_figure() -> None:
    totals = {"macs": 1, "flash_bytes": 2}
    assert summary({"totals": totals}, {"time": "no model of this core"})[1] == (
        "time   no model of this core"
    )


def test_short_times_are_microseconds() -> None:
    assert duration(12.34) == "12.3 us"
    assert duration(1234.5) == "1.23 ms"


@pytest.mark.parametrize("board", ["nano_33_ble", "esp32_c3"])
def test_the_summary_of_a_board_includes_workspace_and_time(
    board: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(DIGITS / "digits_calibration.npz")
    options = ["--target", "c", "--board", board, "--calibrate", data, "-o", str(tmp_path)]
    assert compile_tool([str(DIGITS / "digits.onnx"), *options]) == 0
    printed = capsys.readouterr().out.splitlines()
    lines = {label: text for label, _, text in (line.partition("  ") for line in printed)}
    report = json.loads((tmp_path / "report.json").read_text())
    totals = report["totals"]
    assert f"arena {totals['arena_bytes']:,} (" in lines["SRAM"]
    assert f"of {totals['board_sram_bytes']:,} bytes" in lines["SRAM"]
    assert totals["sram_bytes"] >= totals["peak_bytes"] + totals["workspace_bytes"]
    if board == "esp32_c3":
        assert lines["time"].strip() == "no model of core rv32imc"
    else:
        assert duration(report["prediction"]["microseconds"]) in lines["time"]
