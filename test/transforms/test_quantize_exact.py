"""Every operation of a quantized network against plain fractions: one rounding, at the end."""

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pytest
from ceras_ir.analysis.network import input_names, main_function
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.driver.context import load_context
from ceras_ir.driver.parsing import parse_text
from ceras_ir.driver.verification import verify_module
from ceras_ir.frontends.onnx import import_model
from ceras_ir.transforms.fuse import FusePass
from ceras_ir.transforms.quantize import QuantizePass
from onnx_random import random_network
from quantized_by_hand import trace, wrong_elements
from xdsl.dialects.builtin import ModuleOp

Floats = npt.NDArray[np.float32]

MOVES = (
    graph.ConstantOp,
    graph.ReshapeOp,
    graph.TransposeOp,
    graph.ConcatOp,
    graph.ResizeOp,
    graph.QuantizeOp,
    graph.DequantizeOp,
)


def quantized(module: ModuleOp, *, fuse: bool = True) -> ModuleOp:
    ctx = load_context()
    if fuse:
        FusePass().apply(ctx, module)
    QuantizePass().apply(ctx, module)
    verify_module(module)
    return module


def inputs(module: ModuleOp, seed: int) -> Iterator[Mapping[str, Floats]]:
    """Random data, data that saturates everything, and zeros."""
    main = main_function(module)
    random = np.random.default_rng(seed)
    for low, high in ((0.0, 1.0), (-300.0, 300.0), (0.0, 0.0)):
        yield {
            name: random.uniform(low, high, graph.shape_of(value)).astype(np.float32)
            for name, value in zip(input_names(main), main.body.block.args, strict=True)
        }


def check(module: ModuleOp, seed: int, count: int) -> int:
    """How many operations were checked."""
    checked = 0
    for sample in inputs(module, seed):
        values = trace(module, sample)
        for op in main_function(module).body.block.ops:
            if isinstance(op, GraphOperation) and op.is_quantized and not isinstance(op, MOVES):
                assert list(wrong_elements(op, values, count, seed)) == []
                checked += 1
    return checked


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("fuse", [True, False])
def test_random_networks(seed: int, fuse: bool) -> None:
    module = import_model(random_network(seed))
    check(quantized(module, fuse=fuse), seed, 12)


EVERYTHING = """
func.func @main(%x: tensor<1x4x4x2xf32> {graph.input_range = array<f32: -2.0, 2.0>},
                %y: tensor<1x4x4x2xf32>) -> (tensor<1x32xf32>, tensor<1x4x4x4xf32>) {
  %w = graph.constant dense<[[[[0.3, -0.7]]], [[[1.9, 0.01]]]]> : tensor<2x1x1x2xf32> : tensor<2x1x1x2xf32>
  %b = graph.constant dense<[0.37, -3.1]> : tensor<2xf32> : tensor<2xf32>
  %c = graph.constant dense<[100.0, 0.003]> : tensor<2xf32> : tensor<2xf32>
  %0 = graph.conv2d %x, %w bias %b : tensor<2xf32> residual %y : tensor<1x4x4x2xf32> {activation = #graph.function<clip, -0.4, 0.9>} : (tensor<1x4x4x2xf32>, tensor<2x1x1x2xf32>) -> tensor<1x4x4x2xf32>
  %1 = graph.binary "sub" %x, %c {activation = #graph.function<relu>} : (tensor<1x4x4x2xf32>, tensor<2xf32>) -> tensor<1x4x4x2xf32>
  %2 = graph.binary "mul" %x, %y {activation = #graph.function<tanh>} : (tensor<1x4x4x2xf32>, tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %3 = graph.pool2d "max" %2 {kernel = array<i64: 2, 2>, padding = array<i64: 1, 1, 0, 0>} : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %4 = graph.pool2d "average" %0 {kernel = array<i64: 3, 3>, padding = array<i64: 1, 1, 1, 1>} : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %5 = graph.pool2d "average" %0 {kernel = array<i64: 3, 3>, padding = array<i64: 1, 1, 1, 1>, count_include_pad = true} : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %6 = graph.binary "add" %4, %5 : (tensor<1x4x4x2xf32>, tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %7 = graph.unary <clip, -0.25, inf> %6 : tensor<1x4x4x2xf32>
  %8 = graph.softmax %7 {axis = 3 : i64} : tensor<1x4x4x2xf32>
  %9 = graph.reshape %8 : (tensor<1x4x4x2xf32>) -> tensor<1x32xf32>
  %10 = graph.reshape %1 : (tensor<1x4x4x2xf32>) -> tensor<32x1xf32>
  %11 = graph.reshape %3 : (tensor<1x4x4x2xf32>) -> tensor<1x32xf32>
  %12 = graph.unary <swish> %11 : tensor<1x32xf32>
  %13 = graph.transpose %10 {permutation = array<i64: 1, 0>} : (tensor<32x1xf32>) -> tensor<1x32xf32>
  %14 = graph.matmul %12, %13 : (tensor<1x32xf32>, tensor<1x32xf32>) -> tensor<1x1xf32>
  %15 = graph.binary "mul" %14, %9 : (tensor<1x1xf32>, tensor<1x32xf32>) -> tensor<1x32xf32>
  %16 = graph.concat %0, %6 {axis = 3 : i64} : (tensor<1x4x4x2xf32>, tensor<1x4x4x2xf32>) -> tensor<1x4x4x4xf32>
  func.return %15, %16 : tensor<1x32xf32>, tensor<1x4x4x4xf32>
}
"""


@pytest.mark.parametrize("seed", range(3))
def test_every_operation(seed: int) -> None:
    module = quantized(parse_text(load_context(), EVERYTHING, "everything.mlir"))
    assert check(module, seed, 40) == 3 * 13
    names = {op.name for op in main_function(module).body.block.ops}
    assert {"graph.requantize", "graph.lookup", "graph.softmax"} <= names
