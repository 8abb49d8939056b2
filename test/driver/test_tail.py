"""
Operations after the last sum of products are float by default on each target, or int8 on request.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from ceras_ir.driver.compile import main as compile_main
from ceras_ir.driver.verify.tool import main as verify_main

pytestmark = pytest.mark.slow

DETECTOR = """
!map = tensor<1x8x8x16xf32>
!box = tensor<1x8x8x2xf32>
func.func @main(%x: tensor<1x8x8x16xf32> {graph.name = "image"})
    -> (tensor<1x64x4xf32> {graph.name = "boxes"}) {
  %w = graph.constant dense<"W"> : tensor<16x1x1x16xf32> : tensor<16x1x1x16xf32>
  %v = graph.constant dense<"V"> : tensor<2x1x1x16xf32> : tensor<2x1x1x16xf32>
  %u = graph.constant dense<"U"> : tensor<2x1x1x16xf32> : tensor<2x1x1x16xf32>
  %stride = graph.constant dense<32.0> : tensor<f32> : tensor<f32>
  %0 = graph.conv2d %x, %w {activation = #graph.function<relu>}
      : (!map, tensor<16x1x1x16xf32>) -> !map loc("backbone")
  %1 = graph.conv2d %0, %v : (!map, tensor<2x1x1x16xf32>) -> !box loc("box")
  %2 = graph.conv2d %0, %u : (!map, tensor<2x1x1x16xf32>) -> !box loc("score")
  %3 = graph.unary <exp> %1 : !box loc("exp")
  %4 = graph.binary mul %3, %stride : (!box, tensor<f32>) -> !box loc("decode")
  %5 = graph.unary <sigmoid> %2 : !box loc("sigmoid")
  %6 = graph.concat %4, %5 {axis = 3 : i64} : (!box, !box) -> tensor<1x8x8x4xf32> loc("heads")
  %7 = graph.reshape %6 : (tensor<1x8x8x4xf32>) -> tensor<1x64x4xf32>
  func.return %7 : tensor<1x64x4xf32>
}
"""


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    random, text = np.random.default_rng(1), DETECTOR
    for name, count in (("W", 256), ("V", 32), ("U", 32)):
        data = random.normal(0, 0.2, count).astype("<f4").tobytes().hex().upper()
        text = text.replace(f'dense<"{name}">', f'dense<"0x{data}">')
    (tmp_path / "n.mlir").write_text(text)
    data = random.normal(size=(32, 8, 8, 16)).astype(np.float32)
    np.savez(tmp_path / "c.npz", image=data)
    return tmp_path


def compiled(folder: Path, target: str, *options: str) -> tuple[list[str], dict[str, list[str]]]:
    """
    Return the lines of the graph before placement, and the entry on quantization in `report.json`.
    """
    command = [str(folder / "n.mlir"), "--target", target, "-o", str(folder / "out")]
    command += ["--calibrate", str(folder / "c.npz"), "--save-temps", *options]
    assert compile_main(command) == 0
    level = "3-int8-border" if "--io" in options else "2-quantized-graph"
    path = folder / "out" / "temps" / f"{level}.mlir"
    report = json.loads((folder / "out" / "report.json").read_text())
    return path.read_text().splitlines(), report["quantization"]


def kinds(lines: list[str], operation: str) -> list[str]:
    """Return the storage of results of operations after the first convolution."""
    first = next(i for i, line in enumerate(lines) if "= graph.conv2d " in line)
    found = [line.rpartition("->")[2] for line in lines[first:] if f"= graph.{operation} " in line]
    return ["int8" if "<i8:" in text or "xi8" in text else "float" for text in found]


@pytest.mark.parametrize("target", ["c", "nnet", "vta"])
def test_the_tail_is_float(folder: Path, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines, report = compiled(folder, target, "--budget", "0")
    assert kinds(lines, "conv2d") == ["int8"] * 3
    (exp, sigmoid) = (line for line in lines if "= graph.unary " in line)
    assert all(": tensor<1x8x8x2xf32> loc(" in line for line in (exp, sigmoid))
    assert kinds(lines, "binary") == kinds(lines, "concat") == ["float"]
    layers = json.loads((folder / "out" / "report.json").read_text())["layers"]
    reasons = {layer["name"]: layer.get("float_reason") for layer in layers}
    assert (
        reasons["decode"]
        == reasons["heads"]
        == "after the last layer that sums, float costs little; --io int8 computes "
        "it in int8"
    )
    assert reasons["backbone"] is None
    assert "in float on the" in capsys.readouterr().out
    assert "choose-precision" in report["recipe"]
    assert "choose-row-exponents" in report["recipe"]


@pytest.mark.parametrize("target", ["c", "nnet", "vta"])
def test_integers_at_the_ends_go_through_the_tail(folder: Path, target: str) -> None:
    lines, _ = compiled(folder, target, "--io", "int8", "--budget", "0")
    floats = ("= graph.unary ", "= graph.quantize ", "= graph.dequantize ")
    assert not any(text in line for line in lines for text in floats)
    assert kinds(lines, "lookup") == ["int8"] * 2
    assert kinds(lines, "binary") == kinds(lines, "concat") == ["int8"]
    (main,) = (line for line in lines if "func.func @main" in line)
    assert main.count("!quant.uniform<i8:f32") == 2 and "xf32>" not in main


def test_the_users_word_counts(folder: Path) -> None:
    """Layers in 16 bits are excluded from the output stage."""
    lines, report = compiled(folder, "c", "--int16", "decode", "--recipe", "none")
    (decode,) = (line for line in lines if "= graph.binary " in line)
    assert "<i16:" in decode and report["recipe"] == ["none"]


@pytest.mark.needs("nnet", "vta")
@pytest.mark.parametrize("recipe", [(), ("--recipe", "none")], ids=["default", "none"])
def test_targets_agree(
    folder: Path, recipe: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Targets differ only if their passes differ: in residuals, and in the cost of 16 bits."""
    data = str(folder / "c.npz")
    command = [
        str(folder / "n.mlir"),
        "--calibrate",
        data,
        "--inputs",
        data,
        "--samples",
        "2",
        *recipe,
    ]
    assert verify_main([*command, "--targets", "c,nnet,vta"]) == 0
    found = [line for line in capsys.readouterr().out.splitlines() if "quantized graph" in line]
    assert len(found) == 3


@pytest.mark.parametrize("target", ["nnet", "vta"])
def test_accelerators_make_scores_of_two_bytes(folder: Path, target: str) -> None:
    lines, _ = compiled(folder, target, "--int16", "box,score")
    sums = [line for line in lines if "= graph.binary sub " in line]
    assert sums and all("<i16:" in line for line in sums)
    assert len(kinds(lines, "conv2d")) == 3 + len(sums)
    command = [str(folder / "n.mlir"), "--calibrate", str(folder / "c.npz"), "--int16", "box,score"]
    command += ["--inputs", str(folder / "c.npz"), "--samples", "2", "--targets", target]
    assert verify_main(command) == 0
