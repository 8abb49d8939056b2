"""`ceras-compile` of IR text: every level that it writes with --save-temps compiles again."""

from pathlib import Path

import pytest

from ceras_ir.driver.compile.tool import main

pytestmark = pytest.mark.slow

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
LEVELS = ("2-quantized-graph", "3-placed-graph", "4-packed-graph", "5-tile", "6-memory")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    data = ("--calibrate", str(DIGITS / "digits_calibration.npz"), "--recipe", "round-weights")
    target = ("--target", "vta", "--save-temps", "-o", str(folder))
    assert main([str(DIGITS / "digits.onnx"), *data, *target]) == 0
    return folder


@pytest.mark.parametrize("level", LEVELS)
def test_text_of_a_level_compiles_to_the_same_streams(compiled: Path, tmp_path: Path, level: str):
    text = str(compiled / "temps" / f"{level}.mlir")
    assert main([text, "--target", "vta", "-o", str(tmp_path)]) == 0
    streams = sorted(f.name for f in compiled.glob("launch_*.insns"))
    assert streams and streams == sorted(f.name for f in tmp_path.glob("launch_*.insns"))
    for name in (*streams, "dram.bin"):
        assert (tmp_path / name).read_bytes() == (compiled / name).read_bytes(), name


def test_launches_of_text_are_on_the_accelerator(
    compiled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    text = str(compiled / "temps" / "5-tile.mlir")
    assert main([text, "--target", "vta", "-o", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    launches = [line.split() for line in lines if "mem.launch" in line and "vta" in line.split()]
    assert len(launches) == 6
    assert not any("mem.pack" in line and "on the cpu" in line for line in lines)
