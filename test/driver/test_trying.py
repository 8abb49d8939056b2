"""
Check the proposal for a network that is too large for the board.

It is the smallest change with which the network compiles and fits.
"""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from slow_cases import slow

from ceras_ir.backends.arduino.target import ArduinoTarget
from ceras_ir.driver.compile import main, remedied, trials
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.support.diagnostics import DoesNotFitError

BOARD = """
title = "a board"
core = "cortex-m4"
clock_mhz = 48
flash_bytes = 65536
sram_bytes = {sram}
architecture = "renesas_uno"
fqbn = "arduino:renesas_uno:unor4wifi"
flags = ["-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"]
"""
T = "tensor<1x16x16x8xf32>"
NETWORK = f"""
func.func @main(%x: tensor<1x16x16x1xf32> {{graph.name = "x"}}) -> (tensor<1x16x16x1xf32>) {{
  %w = graph.constant dense<0.25> : tensor<8x3x3x1xf32> : tensor<8x3x3x1xf32>
  %a = graph.conv2d %x, %w {{padding = array<i64: 1, 1, 1, 1>}}
    : (tensor<1x16x16x1xf32>, tensor<8x3x3x1xf32>) -> {T} loc("first")
  %v = graph.constant dense<0.125> : tensor<1x1x1x8xf32> : tensor<1x1x1x8xf32>
  %b = graph.conv2d %a, %v : ({T}, tensor<1x1x1x8xf32>) -> tensor<1x16x16x1xf32> loc("last")
  func.return %b : tensor<1x16x16x1xf32>
}}
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("net.mlir").write_text(NETWORK)
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], sram: int, *more: str) -> str:
    """Return the message for a board with `sram` bytes."""
    Path("board.toml").write_text(BOARD.format(sram=sram))
    command = ["net.mlir", "--target", "arduino", "--board", "board.toml", "-o", "out", *more]
    assert main(command) == 3
    assert not Path("out").exists()
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("sram", "given", "expected"),
    [
        (7000, [], "--quantize int8"),
        slow(4700, [], "--quantize int8 --io int8"),
        slow(4700, ["--quantize", "int8"], "--io int8"),
    ],
)
def test_the_option_that_is_named_fits(
    sram: int,
    given: list[str],
    expected: str,
    files: Path,
    capsys: pytest.CaptureFixture[str],
):
    said = refused(capsys, sram, *given)
    named = re.search(r"What would fit: \(1\) (.*?): a board: flash .* SRAM ([\d,]+) of", said)
    assert named is not None and named[1] == expected, said
    assert "observe-ranges" not in said.partition("tried")[2]
    command = ["net.mlir", "--target", "arduino", "--board", "board.toml", "-o", "out", *given]
    assert main([*command, *shlex.split(named[1])]) == 0
    assert re.search(rf"^SRAM +{named[2]} of", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.slow
def test_what_was_tried_in_vain_is_said(files: Path, capsys: pytest.CaptureFixture[str]):
    said = refused(capsys, 2200)
    for change in ("--quantize int8", "--quantize int8 --io int8"):
        assert f"note: tried and too large: {change}: a board: flash" in said
    assert "unsupported size" in said


def test_nothing_is_tried_that_takes_longer_than_there_is(
    files: Path, capsys: pytest.CaptureFixture[str]
):
    def never():
        calls.append(1)
        return read_network("net.mlir")

    calls: list[int] = []
    error = DoesNotFitError("sizes", "'layer'", ["a larger board"])
    options = BuildOptions(ArduinoTarget())
    found = remedied(error, never, options, longest=61.0)
    assert len(calls) == 1, "read to resolve the options, and not compiled"
    assert found.ways == ("a larger board",)
    assert "no time to try --quantize int8" in capsys.readouterr().err


def test_a_network_that_is_as_small_as_options_make_it_has_no_trials():
    options = BuildOptions(ArduinoTarget(), quantize="int8", io="int8")
    assert [trial.change for trial in trials(options)] == ["--budget 0", "--weight-bits 4"]
    smallest = replace(options, budget=0.0, weight_bits=("4",))
    assert not list(trials(smallest))


@pytest.mark.slow
def test_widths_of_weights_for_the_flash_of_the_board(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    digits = Path(__file__).parents[2] / "examples" / "digits"
    board = BOARD.format(sram=32768).replace("65536", str(18 * 1024))
    (tmp_path / "board.toml").write_text(board)
    command = [str(digits / "digits.onnx"), "--target", "arduino", "-o", str(tmp_path / "out")]
    command += ["--board", str(tmp_path / "board.toml"), "--calibrate"]
    command += [str(digits / "digits_calibration.npz")]
    assert main(command) == 3
    assert "What would fit: (1) --flash 18K: a board: flash" in capsys.readouterr().err
    assert main([*command, "--flash", "18K"]) == 0
