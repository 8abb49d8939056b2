"""Check that `ceras-compile` compiles all levels that it writes with --save-temps."""

import json
from pathlib import Path

import pytest

from ceras_ir.driver.compile import main

pytestmark = pytest.mark.slow

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
LEVELS = ("2-quantized-graph", "3-placed-graph", "4-packed-graph", "5-tile", "6-memory")


MAXIMUM = """
!x = tensor<1x64x64x3x!quant.uniform<i8:f32, 0.5>>
!w = tensor<2x1x1x3x!quant.uniform<i8:f32, 0.001953125>>
!c = tensor<1x64x64x2x!quant.uniform<i8:f32, 0.5>>
!y = tensor<1x32x32x2x!quant.uniform<i8:f32, 0.5>>
!v = tensor<2x1x1x2x!quant.uniform<i8:f32, 0.001953125>>
func.func @main(%x: !x) -> !y {
  %v = graph.constant dense<1> : tensor<2x1x1x2xi8> : !v
  %w = graph.constant dense<1> : tensor<2x1x1x3xi8> : !w
  %c = graph.conv2d %x, %w {requant = #graph.requant<shift = 9, rounding = half_up, low = -128,
    high = 127>, mem.device = #mem.device<vta>} : (!x, !w) -> !c
  %y = graph.pool2d max %c {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>,
    padding = array<i64: 1, 1, 1, 1>, mem.device = #mem.device<vta>} : (!c) -> !y
  %z = graph.conv2d %y, %v {requant = #graph.requant<shift = 9, rounding = half_up, low = -128,
    high = 127>, mem.device = #mem.device<vta>} : (!y, !v) -> !y
  func.return %z : !y
}
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    data = ("--calibrate", str(DIGITS / "digits_calibration.npz"), "--recipe", "round-weights")
    target = ("--target", "vta", "--save-temps", "-o", str(folder))
    assert main([str(DIGITS / "digits.onnx"), *data, *target]) == 0
    return folder


@pytest.mark.needs("vta")
@pytest.mark.parametrize("level", LEVELS)
def test_text_of_a_level_compiles_to_the_same_streams(compiled: Path, tmp_path: Path, level: str):
    text = str(compiled / "temps" / f"{level}.mlir")
    assert main([text, "--target", "vta", "-o", str(tmp_path)]) == 0
    streams = sorted(f.name for f in compiled.glob("launch_*.insns"))
    assert streams and streams == sorted(f.name for f in tmp_path.glob("launch_*.insns"))
    for name in (*streams, "dram.bin"):
        assert (tmp_path / name).read_bytes() == (compiled / name).read_bytes(), name


@pytest.mark.needs("vta")
def test_launches_of_text_are_on_the_accelerator(
    compiled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    text = str(compiled / "temps" / "5-tile.mlir")
    assert main([text, "--target", "vta", "-o", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    launches = [line.split() for line in lines if "mem.launch" in line and "vta" in line.split()]
    assert len(launches) == 6
    assert not any("mem.pack" in line and "on the cpu" in line for line in lines)


@pytest.mark.needs("vta")
def test_a_launch_of_text_stands_for_all_that_it_computes(tmp_path: Path):
    """A convolution and the max pooling after it are a single launch and a single layer."""
    (tmp_path / "n.mlir").write_text(MAXIMUM)
    target, first = ("--target", "vta", "--save-temps"), tmp_path / "first"
    assert main([str(tmp_path / "n.mlir"), *target, "-o", str(first)]) == 0
    (text,) = first.glob("temps/*-tile.mlir")
    assert main([str(text), *target, "-o", str(tmp_path / "again")]) == 0
    report = json.loads((tmp_path / "again" / "report.json").read_text())
    assert [layer["cycles"] > 0 for layer in report["layers"] if "cycles" in layer] == [True] * 2
