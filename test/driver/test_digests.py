"""Check that a compiled folder with changed files is rejected with the name of a file."""

import json
from pathlib import Path

import numpy as np
import pytest

from ceras_ir.driver.compile import main as compile_model
from ceras_ir.driver.run import main as run

TEXT = """
func.func @main(%x: tensor<1x32xf32> {graph.name = "x"}) -> (tensor<1x16xf32> {graph.name = "y"}) {
  %w = graph.constant dense<0.125> : tensor<16x32xf32> : tensor<16x32xf32>
  %y = graph.matmul %x, %w : (tensor<1x32xf32>, tensor<16x32xf32>) -> tensor<1x16xf32>
  func.return %y : tensor<1x16xf32>
}
"""


def compiled(folder: Path, target: str, *options: str) -> list[str]:
    """Compile to the folder `out`, and return the command line that runs it."""
    (folder / "network.mlir").write_text(TEXT)
    np.savez(folder / "in.npz", x=np.ones((1, 32), np.float32))
    out, recipe = folder / "out", ["--recipe", "none", "--quantize", "int8"]
    command = [str(folder / "network.mlir"), "-o", str(out), "--target", target, *recipe]
    command += options
    assert compile_model(command) == 0
    return [str(out), "--inputs", str(folder / "in.npz"), "--outputs", str(folder / "out.npz")]


@pytest.mark.parametrize(
    ("target", "file"),
    [
        ("c", "model_weights.c"),
        ("nnet", "model.nnet"),
        ("onnx", "model.onnx"),
        ("vta", "dram.bin"),
        ("vta", "launch_0.insns"),
        ("vta", "report.json"),
    ],
)
def test_a_flipped_bit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str, file: str
) -> None:
    command = compiled(tmp_path, target)
    path = tmp_path / "out" / file
    good = path.read_bytes()
    path.write_bytes(good[:40] + bytes([good[40] ^ 1]) + good[41:])
    capsys.readouterr()
    assert run(command) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{path}: error: differs from the compiled file")
    path.unlink()
    assert run(command) == 1
    assert "No such file" in capsys.readouterr().err
    assert not (tmp_path / "out.npz").exists()
    path.write_bytes(good)
    assert run(command) == 0


@pytest.mark.needs("onnx")
def test_a_file_without_a_digest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = compiled(tmp_path, "onnx")
    path = tmp_path / "out" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["sha256"]["model.onnx"]
    path.write_text(json.dumps(manifest))
    capsys.readouterr()
    assert run(command) == 1
    assert "the manifest has no digest of 'model.onnx'" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["c", "nnet", "vta"])
def test_texts_of_levels_are_not_checked(tmp_path: Path, target: str) -> None:
    """Researchers edit and delete these texts; the network that runs is another file."""
    command = compiled(tmp_path, target, "--save-temps")
    text = tmp_path / "out" / "temps" / "2-quantized-graph.mlir"
    text.write_text("edited")
    assert run(command) == 0
    text.unlink()
    assert run(command) == 0
