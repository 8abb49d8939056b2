"""Test `ceras-verify --targets arduino` on this machine, and on the core under qemu."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from c_harness import needs_arm

from ceras_ir.backends.c import emulator
from ceras_ir.backends.c.emulator import EmulatedFolder, available, not_emulated
from ceras_ir.backends.c.machines import load_board
from ceras_ir.driver.verify import levels
from ceras_ir.driver.verify.tool import main
from ceras_ir.targets.capabilities import Array, Sample

EXAMPLES = Path(__file__).parents[2] / "examples"
COLOUR = str(EXAMPLES / "colour/colour.onnx")
PRUNED = ("--quantize", "none", "--prune", "threshold=0.01", "--samples", "2")


def lines(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return the verdicts by level."""
    found = (line.split("  ", 1) for line in capsys.readouterr().out.splitlines() if "  " in line)
    return {level: text.strip() for level, text in found}


@pytest.mark.slow
def test_a_float_network_is_exact(capsys: pytest.CaptureFixture[str]):
    """Encoded weights have ordered sums, so that float results are equal bit for bit."""
    assert main([COLOUR, "--targets", "arduino", *PRUNED]) == 0
    verdicts = lines(capsys)
    assert verdicts["arduino: machine"] == "exact"
    assert "encoded graph" in verdicts
    if available():
        assert verdicts["arduino: cortex-m4"] == "exact"
    else:
        assert verdicts["arduino: cortex-m4"].startswith("not emulated: ")


@pytest.mark.slow
def test_an_int8_network_beside_another_target(capsys: pytest.CaptureFixture[str]):
    digits = EXAMPLES / "digits"
    data = ("--inputs", str(digits / "digits_test.npz"), "--samples", "2", "--recipe", "none")
    calibration = ("--calibrate", str(digits / "digits_calibration.npz"))
    model = str(digits / "digits.onnx")
    assert main([model, "--targets", "c,arduino", *data, *calibration]) == 0
    verdicts = lines(capsys)
    assert verdicts["c: machine"] == verdicts["arduino: machine"] == "exact"


@pytest.mark.slow
def test_what_does_not_fit_is_unsupported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    board = tmp_path / "tiny.toml"
    text = (Path(levels.__file__).parents[2] / "backends/c/boards/uno_r4_wifi.toml").read_text()
    board.write_text(text.replace("262144", "4096"))
    command = [COLOUR, "--targets", "arduino", "--board", str(board), *PRUNED]
    assert main(command) == 3
    printed = capsys.readouterr()
    assert re.search("^arduino: machine +unsupported$", printed.out, re.MULTILINE)
    assert "unsupported size" in printed.err

    # A difference takes precedence over an unsupported level.
    def differs(actual: object, expected: object, *, exact: bool) -> str:
        return "differs"

    monkeypatch.setattr(levels, "compare_outputs", differs)
    assert main(command) == 1


@pytest.mark.slow
@needs_arm
def test_a_core_that_differs_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    run = EmulatedFolder.run

    def broken(self: EmulatedFolder, samples: Sequence[Sample]) -> Iterator[dict[str, Array]]:
        for outputs in run(self, samples):
            yield {name: np.asarray(array, np.float32) + 1 for name, array in outputs.items()}

    monkeypatch.setattr(EmulatedFolder, "run", broken)
    assert main([COLOUR, "--targets", "arduino", *PRUNED]) == 1
    assert "differs on sample 0" in lines(capsys)["arduino: cortex-m4"]


def test_only_cores_that_qemu_has_are_emulated():
    refusal = not_emulated(load_board("esp32_c3"))
    assert refusal is not None and "cortex-m4" in refusal.remedy


@pytest.mark.parametrize(
    ("board", "missing", "line"),
    [
        ("nano_33_ble", "qemu-system-arm", "cortex-m4 +not emulated: qemu-system-arm is not inst"),
        ("esp32_c3", None, "rv32imc +not emulated: no emulated core has all instructions of this"),
    ],
)
@pytest.mark.parametrize("target", ["c", "arduino"])
def test_a_line_has_the_reason_without_emulation(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    target: str,
    board: str,
    missing: str | None,
    line: str,
):
    monkeypatch.setattr(emulator, "missing_tool", lambda: missing)
    given = ("--quantize", "none", "--samples", "1")
    assert main([COLOUR, "--targets", target, "--board", board, *given]) == 0
    assert re.search(f"^{target}: {line}", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.slow
@needs_arm
def test_c_for_a_board_runs_on_the_core(capsys: pytest.CaptureFixture[str]):
    assert main([COLOUR, "--targets", "c", "--board", "nucleo_f446re", "--samples", "2"]) == 0
    assert lines(capsys)["c: cortex-m4"] == "exact"
