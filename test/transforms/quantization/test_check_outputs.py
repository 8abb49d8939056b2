"""Check that outputs with few different integers are reported with their names."""

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from ceras_ir.data.array_archive import save_arrays
from ceras_ir.network.function import main_function, result_values
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.transforms.quantization.quantize import QuantizePass

HEADS = """
!in = tensor<8x4xf32>
!wide = tensor<4x4xf32>
!narrow = tensor<2x4xf32>
!out = tensor<8x6xf32>
func.func @main(%x: !in {graph.name = "x"}) -> (!out {graph.name = "detections"}) {
  %w = graph.constant dense<[[BOX, 0.0, 0.0, 0.0], [0.0, BOX, 0.0, 0.0],
      [0.0, 0.0, BOX, 0.0], [0.0, 0.0, 0.0, BOX]]> : !wide : !wide
  %v = graph.constant dense<[[1.0, -1.0, 0.5, 2.0], [0.5, 1.0, -1.0, -2.0]]> : !narrow : !narrow
  %0 = graph.matmul %x, %w : (!in, !wide) -> tensor<8x4xf32> loc("boxes")
  %1 = graph.matmul %x, %v : (!in, !narrow) -> tensor<8x2xf32> loc("logits")
  %2 = graph.unary <sigmoid> %1 : tensor<8x2xf32> loc("scores")
  %3 = graph.concat %0, %2 {axis = 1 : i64} : (tensor<8x4xf32>, tensor<8x2xf32>) -> !out loc("join")
  func.return %3 : !out
}
"""
SAMPLES = np.random.default_rng(4).uniform(-1, 1, (32, 8, 4)).astype(np.float32)


def said(
    text: str,
    samples: NDArray[np.float32],
    folder: Path,
    capfd: pytest.CaptureFixture[str],
    tail: Literal["float", "int8"] = "int8",
) -> list[str]:
    """Return the warnings about the outputs of a network."""
    save_arrays(str(folder / "c.npz"), {"x": samples})
    module = parse_text(load_context(), text, "outputs.mlir")
    assert len(result_values(main_function(module))) == 1
    quantize = QuantizePass(str(folder / "c.npz"), tail=tail, recipe=("none",))
    quantize.apply(load_context(), module)
    return [line for line in capfd.readouterr().err.splitlines() if "check-outputs" in line]


def test_lost_scores(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Boxes up to 640 have steps of 8: all scores, from 0 to 1, are the integer 0."""
    (line,) = said(HEADS.replace("BOX", "640.0"), SAMPLES, tmp_path, capfd)
    assert "output 'detections'[:, 4:6] has 1 integer in 32 samples" in line
    assert "--float 'join'" in line


def test_boxes_as_large_as_scores(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert not said(HEADS.replace("BOX", "1.0"), SAMPLES, tmp_path, capfd)


VALUE = """
!row = tensor<1x4xf32>
!bias = tensor<1xf32>
!result = tensor<1x1xf32>
func.func @main(%x: !row {graph.name = "x"}) -> (!result {graph.name = "y"}) {
  %w = graph.constant dense<[[0.25, -0.5, 0.125, 0.25]]> : !row : !row
  %b = graph.constant dense<OFFSET> : !bias : !bias
  %0 = graph.matmul %x, %w bias %b : !bias : (!row, !row) -> !result loc("value")
  func.return %0 : !result
}
"""


@pytest.mark.parametrize(("offset", "reported"), [("1013.0", True), ("0.0", False)])
def test_an_offset(
    offset: str, reported: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = said(VALUE.replace("OFFSET", offset), SAMPLES[:, :1], tmp_path, capfd)
    assert bool(lines) == reported
    assert all("output 'y' has" in line for line in lines)


def test_outputs_of_few_numbers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Eight different floats, each with an integer, are not reported; nor is a constant."""
    few = np.rint(SAMPLES[:, :1] * 2) * [[[0.5, 0, 0, 0]]]
    for samples in (few, np.zeros_like(few)):
        lines = said(VALUE.replace("OFFSET", "0.0"), samples.astype(np.float32), tmp_path, capfd)
        assert not lines


WIDE = VALUE.replace("%x, %w bias %b : !bias", '%x, %w bias %b : !bias {graph.precision = "i16"}')
EXPONENTIAL = VALUE.replace(
    "func.return %0", "%1 = graph.unary <exp> %0 : !result\n  func.return %1"
)


@pytest.mark.parametrize(("offset", "reported"), [("100130.0", True), ("1013.0", False)])
def test_16_bits(
    offset: str, reported: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The step of 100130 is 4 in 16 bits, and that of 1013 is 1/16; the values differ by 2."""
    lines = said(WIDE.replace("OFFSET", offset), SAMPLES[:, :1], tmp_path, capfd)
    assert bool(lines) == reported
    assert all("16 bits are too coarse; compute it in float" in line for line in lines)


@pytest.mark.parametrize(("offset", "reported"), [("16.0", True), ("0.0", False)])
def test_floats_computed_from_few_integers(
    offset: str, reported: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A float function of three integers has three values at most."""
    text = EXPONENTIAL.replace("OFFSET", offset)
    lines = said(text, SAMPLES[:, :1], tmp_path, capfd, tail="float")
    assert bool(lines) == reported
    assert all("output 'y' has" in line and "--float 'value'" in line for line in lines)
