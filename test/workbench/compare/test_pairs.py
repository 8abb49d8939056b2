"""Check which layers of two networks compute the same tensor of the model."""

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.support.diagnostics import node_names
from ceras_ir.transforms.graph.fuse import FusePass
from ceras_ir.transforms.quantization.analysis.output_noise import channel_ratios
from ceras_ir.workbench.compare.variants import Nodes, pair_with_another, pairs

HEAD = """
!row = tensor<1x4xf32>
func.func @main(%x: !row {graph.name = "x"}) -> (!row {graph.name = "y"}) {
  %w = graph.constant dense<0.5> : tensor<4x4xf32> : tensor<4x4xf32>
  %0 = graph.matmul %x, %w : (!row, tensor<4x4xf32>) -> !row loc("fc")
"""
TAIL = """
  %9 = graph.matmul %8, %w : (!row, tensor<4x4xf32>) -> !row loc("end")
  func.return %9 : !row
}
"""
RELU = '%8 = graph.unary <relu> %0 : !row loc("act")'
SILU = """
  %1 = graph.unary <sigmoid> %0 : !row loc("gate")
  %8 = graph.binary mul %0, %1 : (!row, !row) -> !row loc("act")
"""
NONE = '%8 = graph.reshape %0 : (!row) -> !row loc("same")'


def read(text: str) -> ModuleOp:
    return parse_text(load_context(), text, "n.mlir")


def names(first: ModuleOp, second: ModuleOp, nodes: tuple[Nodes, Nodes]) -> list[tuple[str, str]]:
    found = pairs(first, second, nodes)
    return [("+".join(node_names(a)), "+".join(node_names(b))) for a, b in found]


@pytest.mark.parametrize("middle", [RELU, SILU])
def test_a_fused_chain_is_its_last_node(middle: str) -> None:
    """The name of the first node of a chain belongs to the tensor before the activation."""
    apart, fused = read(HEAD + middle + TAIL), read(HEAD + middle + TAIL)
    nodes = Nodes(fused), Nodes(apart)
    FusePass().apply(load_context(), fused)
    (chain, act), end = names(fused, apart, nodes)
    assert chain.startswith("fc+act") and (act, end) == ("act", ("end", "end"))


EXPORTED = """
  %1 = graph.unary <sigmoid> %0 : !row loc("fc/swish/sigmoid")
  %2 = graph.binary mul %0, %1 : (!row, !row) -> !row loc("fc/swish")
  %8 = graph.binary mul %2, %2 : (!row, !row) -> !row loc("fc/result")
"""


def test_an_export_names_what_a_layer_does_by_the_layer() -> None:
    """`fc` before the activation has no partner, and neither has an intermediate step."""
    fused, export = read(HEAD + SILU + TAIL), read(HEAD + EXPORTED + TAIL)
    nodes = Nodes(fused), Nodes(export)
    FusePass().apply(load_context(), fused)
    here, end = ("fc+act+gate", "fc/result"), ("end", "end")
    assert names(fused, export, nodes) == [here, end]
    assert names(export, fused, (nodes[1], nodes[0])) == [here[::-1], end]


def test_a_step_inside_of_a_node_is_no_result_of_it() -> None:
    """If the last operation of a node is fused into another, earlier operations are no result."""
    middle = """
      %1 = graph.unary <sigmoid> %0 : !row loc("act")
      %8 = graph.binary mul %0, %1 : (!row, !row) -> !row loc({})
    """
    first, second = (
        read(HEAD + middle.format(where) + TAIL) for where in ('"act"', 'fused["act", "next"]')
    )
    found = names(first, second, (Nodes(first), Nodes(second)))
    assert found == [("fc", "fc"), ("end", "end")]


FLOAT = """
func.func @main(%x: tensor<1x2x2x1xf32>) -> tensor<1x1x1x1xf32> {
  %0 = graph.pool2d max %x {kernel = array<i64: 2, 2>}
      : (tensor<1x2x2x1xf32>) -> tensor<1x1x1x1xf32> loc("pool")
  %1 = graph.unary <relu> %0 : tensor<1x1x1x1xf32> loc("act")
  func.return %1 : tensor<1x1x1x1xf32>
}
"""
STORED = """
!q = !quant.uniform<i8:f32, 0.5:ZERO>
func.func @main(%x: tensor<1x2x2x1xf32>) -> tensor<1x1x1x1xf32> {
  %0 = graph.quantize %x : (tensor<1x2x2x1xf32>) -> tensor<1x2x2x1x!q> loc("Q")
  %1 = graph.pool2d max %0 {kernel = array<i64: 2, 2>}
      : (tensor<1x2x2x1x!q>) -> tensor<1x1x1x1x!q> loc("pool")
  %2 = graph.dequantize %1 : (tensor<1x1x1x1x!q>) -> tensor<1x1x1x1xf32> loc("DQ")
  func.return %2 : tensor<1x1x1x1xf32>
}
"""


@pytest.mark.parametrize(("zero", "partner"), [("-128", "act"), ("0", "pool")])
def test_storage_may_stand_for_a_function(zero: str, partner: str) -> None:
    """Quantizers omit a ReLU if no value below zero can be stored."""
    first, second = read(FLOAT), read(STORED.replace("ZERO", zero))
    assert names(first, second, (Nodes(first), Nodes(second))) == [(partner, "pool")]


CLIPPING = """
!q = tensor<1x4x!quant.uniform<i8:f32, 0.0625>>
!row = tensor<1x4xf32>
func.func @main(%x: !row {graph.name = "x"}) -> (!row {graph.name = "y"}) {
  %0 = graph.quantize %x : (!row) -> !q
  %1 = graph.requantize %0 {requant = #graph.requant<shift = 0, rounding = half_up, low = 0,
      high = 127>} : (!q) -> !q loc("node")
  %2 = graph.dequantize %1 : (!q) -> !row
  %3 = graph.binary add %2, %2 : (!row, !row) -> !row loc("node")
  func.return %3 : !row
}
"""


def test_what_lies_between_layers_keeps_its_function() -> None:
    """A requantization that clips is not skipped in the isolated error of a layer."""
    meter = pair_with_another(read(CLIPPING), read(CLIPPING))
    assert list(meter.measure([{"x": np.array([[-2.0, -1, 1, 2]], np.float32)}]))
    (layer,) = meter.layers.values()
    assert (layer.isolated, layer.accumulated) == (0.0, 0.0)


def test_a_small_number_is_no_channel_of_another_scale() -> None:
    wanted = np.array([[-0.0646, -0.366, -0.750, -1.59, 0.911]])
    found = np.array([[-0.0170, -0.341, -0.766, -1.65, 0.953]])
    assert (channel_ratios(wanted, found) == 1).all()
    factors = np.array([4.0, 1, 1, 0.5, 1])
    assert (channel_ratios(wanted * factors, wanted + 0.001) == factors).all()
