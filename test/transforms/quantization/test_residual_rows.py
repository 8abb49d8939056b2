"""Residuals of layers whose rows `equalize-channels` moves apart."""

from pathlib import Path

import numpy as np

from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.transforms.quantization.quantize import QuantizePass

# Rows of %w are alike; the last channel of the residual, and so of the sum, is octaves smaller.
TEXT = """
func.func @main(%x: tensor<1x4xf32> {graph.name = "x"}) -> tensor<1x4xf32> {
  %v = graph.constant dense<V> : tensor<4x4xf32> : tensor<4x4xf32>
  %w = graph.constant dense<W> : tensor<4x4xf32> : tensor<4x4xf32>
  %a = graph.matmul %x, %v {activation = #graph.function<relu>}
    : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  %b = graph.matmul %a, %w residual %a : tensor<1x4xf32> {activation = #graph.function<relu>}
    : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  %c = graph.matmul %b, %v : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  func.return %c : tensor<1x4xf32>
}
"""


def test_rows_that_channels_move_apart_get_scales(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (32, 1, 4)).astype(np.float32)
    np.savez(tmp_path / "c.npz", x=x)
    before = rng.uniform(0.5, 1, (4, 4)) * [[8], [8], [8], [0.05]]
    alike = rng.uniform(0.5, 1, (4, 4)) * [[0.001, 0.001, 0.001, 0.1]]
    text = TEXT.replace("<V>", f"<{before.tolist()}>").replace("<W>", f"<{alike.tolist()}>")
    module = parse_text(load_context(), text, "text")
    QuantizePass(calibration=str(tmp_path / "c.npz")).apply(load_context(), module)
    assert "residual %" not in str(module)
    assert "graph.binary add" in str(module)
