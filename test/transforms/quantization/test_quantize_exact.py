"""Compare quantized operations with exact fractions and a single rounding at the end."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from onnx_random import random_network
from quantized_by_hand import trace, wrong_elements
from slow_cases import first_fast
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.driver.verify.tool import main
from ceras_ir.frontends.onnx import import_model
from ceras_ir.network.function import input_names, main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.pipeline.verification import verify_module
from ceras_ir.transforms.graph.fuse import FusePass
from ceras_ir.transforms.quantization.quantize import QuantizePass

Floats = npt.NDArray[np.float32]

RECIPES = (("none",), ("fit-inputs", "choose-zero-points"))

MOVES = (
    graph.ConstantOp,
    graph.ReshapeOp,
    graph.TransposeOp,
    graph.ConcatOp,
    graph.ResizeOp,
    graph.QuantizeOp,
    graph.DequantizeOp,
)


def quantized(module: ModuleOp, recipe: tuple[str, ...], *, fuse: bool = True) -> ModuleOp:
    ctx = load_context()
    if fuse:
        FusePass().apply(ctx, module)
    QuantizePass(recipe=recipe, tail="int8").apply(ctx, module)
    verify_module(module)
    return module


def inputs(module: ModuleOp, seed: int) -> Iterator[Mapping[str, Floats]]:
    """Yield random data, data that saturates all values, and zeros."""
    main = main_function(module)
    random = np.random.default_rng(seed)
    for low, high in ((0.0, 1.0), (-300.0, 300.0), (0.0, 0.0)):
        yield {
            name: random.uniform(low, high, graph.shape_of(value)).astype(np.float32)
            for name, value in zip(input_names(main), main.body.block.args, strict=True)
        }


def check(module: ModuleOp, seed: int, count: int) -> int:
    """Return the number of checked operations."""
    checked = 0
    for sample in inputs(module, seed):
        values = trace(module, sample)
        for op in main_function(module).body.block.ops:
            if isinstance(op, GraphOperation) and op.is_quantized and not isinstance(op, MOVES):
                assert list(wrong_elements(op, values, count, seed)) == []
                checked += 1
    return checked


@pytest.mark.sample(12)
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("seed", first_fast(4, range(12)))
def test_random_networks(seed: int, recipe: tuple[str, ...]) -> None:
    module = import_model(random_network(seed))
    check(quantized(module, recipe, fuse=seed % 2 == 0), seed, 12)


EVERYTHING = """
!map = tensor<1x4x4x2xf32>
!row = tensor<1x32xf32>
!weights = tensor<2x1x1x2xf32>
!vector = tensor<2xf32>

func.func @main(%x: !map {graph.input_range = array<f32: -2.0, 2.0>},
                %y: !map) -> (!row, tensor<1x4x4x4xf32>) {
  %w = graph.constant dense<[[[[0.3, -0.7]]], [[[1.9, 0.01]]]]> : !weights : !weights
  %b = graph.constant dense<[0.37, -3.1]> : !vector : !vector
  %c = graph.constant dense<[100.0, 0.003]> : !vector : !vector
  %0 = graph.conv2d %x, %w bias %b : !vector residual %y : !map
      {activation = #graph.function<clip, -0.4, 0.9>} : (!map, !weights) -> !map
  %1 = graph.binary sub %x, %c {activation = #graph.function<relu>} : (!map, !vector) -> !map
  %2 = graph.binary mul %x, %y {activation = #graph.function<tanh>} : (!map, !map) -> !map
  %3 = graph.pool2d max %2
      {kernel = array<i64: 2, 2>, padding = array<i64: 1, 1, 0, 0>} : (!map) -> !map
  %4 = graph.pool2d average %0
      {kernel = array<i64: 3, 3>, padding = array<i64: 1, 1, 1, 1>} : (!map) -> !map
  %5 = graph.pool2d average %0
      {kernel = array<i64: 3, 3>, padding = array<i64: 1, 1, 1, 1>,
       count_include_pad = true} : (!map) -> !map
  %6 = graph.binary add %4, %5 : (!map, !map) -> !map
  %7 = graph.unary <clip, -0.25, inf> %6 : !map
  %8 = graph.softmax %7 {axis = 3 : i64} : !map
  %9 = graph.reshape %8 : (!map) -> !row
  %10 = graph.reshape %1 : (!map) -> tensor<32x1xf32>
  %11 = graph.reshape %3 : (!map) -> !row
  %12 = graph.unary <swish> %11 : !row
  %13 = graph.transpose %10 {permutation = array<i64: 1, 0>} : (tensor<32x1xf32>) -> !row
  %14 = graph.matmul %12, %13 : (!row, !row) -> tensor<1x1xf32>
  %15 = graph.binary mul %14, %9 : (tensor<1x1xf32>, !row) -> !row
  %16 = graph.concat %0, %6 {axis = 3 : i64} : (!map, !map) -> tensor<1x4x4x4xf32>
  %17 = graph.pool2d max %16 {kernel = array<i64: 1, 1>}
      : (tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
  func.return %15, %17 : !row, tensor<1x4x4x4xf32>
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("seed", range(3))
def test_every_operation(seed: int, recipe: tuple[str, ...]) -> None:
    module = quantized(parse_text(load_context(), EVERYTHING, "everything.mlir"), recipe)
    assert check(module, seed, 40) == 3 * 15
    names = {op.name for op in main_function(module).body.block.ops}
    assert {"graph.requantize", "graph.lookup", "graph.integer_softmax"} <= names


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
