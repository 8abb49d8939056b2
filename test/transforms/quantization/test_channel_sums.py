"""How far channels are raised: what bounds them, and what does not count."""

from pathlib import Path

import numpy as np

from ceras_ir.dialects import graph
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.transforms.quantization.channel_scales import EqualizeChannelsPass

NETWORK = """
func.func @main(%x: tensor<1x2xf32> {graph.name = "x"}) -> (tensor<1x1xf32> {graph.name = "y"}) {
  %w = graph.constant dense<[[1.0, 0.0], [0.0, 1.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %k = graph.constant dense<[[4.0, 0.0], [0.0, 300.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %b = graph.constant dense<[0.0, 0.1]> : tensor<2xf32> : tensor<2xf32>
  %v = graph.constant dense<[[1.0, 1.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %p = graph.matmul %x, %w {activation = #graph.function<relu>}
    : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %q = graph.matmul %p, %k bias %b : tensor<2xf32>
    : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %y = graph.matmul %q, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  func.return %y : tensor<1x1xf32>
}
"""


def test_a_channel_stays_that_is_zero_in_front_of_a_large_factor(tmp_path: Path) -> None:
    """
    As batch normalization has it behind a relu. All that is seen of its result is a bias of 0.1
    beside values of 4, but one step of its input is a step of the result already.
    """
    data = tmp_path / "data.npz"
    np.savez(data, x=np.array([[1, -1]] * 20, np.float32))
    module = parse_text(load_context(), NETWORK, "text")
    EqualizeChannelsPass(str(data), rows=True).apply(load_context(), module)
    layers = [op for op in main_function(module).body.block.ops if isinstance(op, graph.MatmulOp)]
    assert layers[1].bias is not None
    np.testing.assert_array_equal(graph.known_array(layers[1].bias), np.array([0, 0.1], np.float32))


PREPARED = """
func.func @main(%x: tensor<1x1xf32> {graph.name = "x"}, %z: tensor<1x1xf32> {graph.name = "z"})
    -> (tensor<1x1xf32> {graph.name = "y"}) {
  %f = graph.constant dense<[0.001]> : tensor<1xf32> : tensor<1xf32>
  %w = graph.constant dense<[[1.0, 1.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %l = graph.unary <log> %x {graph.precision = "f32"} : tensor<1x1xf32>
  %q = graph.binary mul %z, %f {graph.precision = "f32"}
    : (tensor<1x1xf32>, tensor<1xf32>) -> tensor<1x1xf32>
  %p = graph.concat %l, %q {axis = 1 : i64} : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x2xf32>
  %y = graph.matmul %p, %w : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  func.return %y : tensor<1x1xf32>
}
"""


def test_a_channel_is_not_raised_to_what_floats_made_it_of(tmp_path: Path) -> None:
    """The logarithm of 100,000 and a quotient of 4 are two octaves apart, not fifteen."""
    data = tmp_path / "data.npz"
    np.savez(data, x=np.full((20, 1, 1), 1e5, np.float32), z=np.full((20, 1, 1), 4e3, np.float32))
    module = parse_text(load_context(), PREPARED, "text")
    EqualizeChannelsPass(str(data), rows=True).apply(load_context(), module)
    product = next(op for op in main_function(module).body.block.ops if op.name == "graph.matmul")
    assert isinstance(product, graph.MatmulOp)
    np.testing.assert_array_equal(graph.known_array(product.weights), np.ones((1, 2), np.float32))
