"""Rows that computed indices take, in integers, on every target."""

from pathlib import Path

import pytest

from ceras_ir.driver.verify.tool import main

NETWORK = """
!map = tensor<1x4x4x8xf32>
!weights = tensor<8x1x1x8xf32>
!rows = tensor<16x8xf32>
func.func @main(%x: !map {graph.name = "x"}, %i: tensor<20xi64> {graph.name = "i"})
    -> (tensor<20x8xf32> {graph.name = "y"}) {
  %w = graph.constant dense<WEIGHTS> : !weights : !weights
  %v = graph.constant dense<0.25> : tensor<8x8xf32> : tensor<8x8xf32>
  %0 = graph.conv2d %x, %w {activation = #graph.function<relu>} : (!map, !weights) -> !map
  %1 = graph.reshape %0 : (!map) -> !rows
  %2 = graph.take %1[%i] : (!rows, tensor<20xi64>) -> tensor<20x8xf32>
  %3 = graph.matmul %2, %v : (tensor<20x8xf32>, tensor<8x8xf32>) -> tensor<20x8xf32>
  func.return %3 : tensor<20x8xf32>
}
"""
WEIGHTS = [[[[(o * 8 + c) % 7 / 4 - 0.75 for c in range(8)]]] for o in range(8)]


@pytest.mark.slow
@pytest.mark.parametrize("option", [[], ["--int16", "graph.take*"]])
def test_every_level_agrees(option: list[str], tmp_path: Path) -> None:
    model = tmp_path / "model.mlir"
    model.write_text(NETWORK.replace("WEIGHTS", str(WEIGHTS)))
    targets = "c,nnet" if option else "c,nnet,vta"
    assert main([str(model), "--targets", targets, "--quantize", "int8", *option]) == 0
