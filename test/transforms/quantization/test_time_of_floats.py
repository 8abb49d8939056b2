"""What stays float counts as time of the network, of which 16 bits may take a share."""

from pathlib import Path

import numpy as np

from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.transforms.quantization.quantize import QuantizePass

# A classifier of words: most of its time is the largest of its rows, in float.
WORDS = """
func.func @main(%i: tensor<64xi64> {graph.name = "i"}) -> (tensor<1x2xf32> {graph.name = "y"}) {
  %t = graph.constant dense<T> : tensor<8x4xf32> : tensor<8x4xf32>
  %w = graph.constant dense<W> : tensor<2x4xf32> : tensor<2x4xf32>
  %r = graph.take %t[%i] {axis = 0 : i64}
    : (tensor<8x4xf32>, tensor<64xi64>) -> tensor<64x4xf32>
  %m = graph.reduce max %r {axes = array<i64: 0>} : (tensor<64x4xf32>) -> tensor<1x4xf32>
  %y = graph.matmul %m, %w : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}
"""


def test_the_result_of_a_small_layer_behind_floats_has_16_bits(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "c.npz", i=rng.integers(0, 8, (32, 64)))
    text = WORDS.replace("<T>", f"<{rng.normal(size=(8, 4)).tolist()}>")
    text = text.replace("<W>", f"<{rng.normal(size=(2, 4)).tolist()}>")
    module = parse_text(load_context(), text, "text")
    QuantizePass(calibration=str(tmp_path / "c.npz"), target="c").apply(load_context(), module)
    assert "tensor<1x2x!quant.uniform<i16" in str(module)
