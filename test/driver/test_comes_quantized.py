"""Test options of quantization on a model that is already quantized."""

from pathlib import Path

import numpy as np
import pytest
from conftest import Tool

from ceras_ir.transforms.quantization.analysis.qdq import COMES_QUANTIZED

STORED = """
!q = tensor<1x4x!quant.uniform<i8:f32, 0.0625>>
!row = tensor<1x4xf32>
func.func @main(%x: !row {graph.name = "x"}) -> (!row {graph.name = "y"}) {
  %0 = graph.quantize %x : (!row) -> !q
  %1 = graph.requantize %0 {requant = #graph.requant<shift = 0, rounding = half_up, low = 0,
      high = 127>} : (!q) -> !q loc("node")
  %2 = graph.dequantize %1 : (!q) -> !row
  func.return %2 : !row
}
"""


@pytest.fixture
def command(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "n.mlir").write_text(STORED)
    np.savez(tmp_path / "a.npz", x=np.zeros((4, 4), np.float32))
    return "ceras-compile", "n.mlir", "--target", "c", "-o", "out"


@pytest.mark.parametrize("more", [(), ("--quantize", "int8")])
@pytest.mark.parametrize("option", ["--int16", "--float"])
def test_layers_are_not_chosen(
    tool: Tool, command: tuple[str, ...], option: str, more: tuple[str, ...]
) -> None:
    done = tool(*command, option, "node", *more)
    assert done.status == 2
    options = "--int16, --float, --activation-bits and --weight-bits"
    assert f"{options}: {COMES_QUANTIZED}" in done.stderr


def test_integers_at_the_border_need_no_option(
    tool: Tool, tmp_path: Path, command: tuple[str, ...]
) -> None:
    done = tool(*command, "--io", "int8")
    assert (done.status, done.stderr) == (0, "")
    assert "const int8_t *x" in (tmp_path / "out" / "model.h").read_text()


def test_idle_options_are_named(tool: Tool, command: tuple[str, ...]) -> None:
    options = ("--calibrate", "a.npz", "--recipe", "none", "--observer", "minmax", "--budget", "0")
    done = tool(*command, *options, "--silu", "table")
    named = "--calibrate, --observer, --recipe, --silu, --budget"
    said = f"warning: options without effect: {named}: {COMES_QUANTIZED}\n"
    assert (done.status, done.stderr) == (0, said)


@pytest.mark.parametrize("options", [("--io", "int8"), ("--int16", "node")])
def test_a_float_model_is_not_quantized_for_them(
    tool: Tool, tmp_path: Path, command: tuple[str, ...], options: tuple[str, ...]
) -> None:
    (tmp_path / "n.mlir").write_text("""
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = graph.unary <relu> %x : tensor<4xf32> loc("node")
          func.return %0 : tensor<4xf32>
        }
    """)
    done = tool(*command, *options)
    assert done.status == 2 and "add --quantize int8" in done.stderr
