"""Check that a single table replaces the operations on uint8 images, exactly."""

from pathlib import Path

import numpy as np
import pytest
from c_harness import SANITIZE, compiled, place
from slow_cases import slow
from xdsl.context import Context
from xdsl.dialects.builtin import Float32Type, ModuleOp

from ceras_ir.dialects import graph
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.transforms.graph.fuse import FusePass
from ceras_ir.transforms.quantization.quantize import QuantizePass
from ceras_ir.transforms.quantization.tabulate_pixels import TabulatePixelsPass

RNG = np.random.default_rng(0)

HEAD = """
func.func @main(%x: tensor<SHAPExui8> {graph.name = "x"}) -> tensor<1x4x4x2xf32> {
  %w = graph.constant dense<WEIGHTS> : tensor<2x3x3x3xf32> : tensor<2x3x3x3xf32>
  %p = graph.cast %x : (tensor<SHAPExui8>) -> tensor<SHAPExf32>
"""

TAIL = """
  %y = graph.conv2d %n, %w {padding = array<i64: 1, 1, 1, 1>}
    : (tensor<1x4x4x3xf32>, tensor<2x3x3x3xf32>) -> tensor<1x4x4x2xf32>
  func.return %y : tensor<1x4x4x2xf32>
}
"""

NHWC = """
  %m = graph.constant dense<[123.675, 116.28, 103.53]> : tensor<3xf32> : tensor<3xf32>
  %s = graph.constant dense<[0.0171, 0.0175, 0.0174]> : tensor<3xf32> : tensor<3xf32>
  %0 = graph.binary sub %p, %m : (tensor<SHAPExf32>, tensor<3xf32>) -> tensor<SHAPExf32>
  %n = graph.binary mul %0, %s : (tensor<SHAPExf32>, tensor<3xf32>) -> tensor<SHAPExf32>
"""

NCHW = """
  %m = graph.constant dense<[[[123.675]], [[116.28]], [[103.53]]]>
    : tensor<3x1x1xf32> : tensor<3x1x1xf32>
  %s = graph.constant dense<0.0171> : tensor<f32> : tensor<f32>
  %0 = graph.binary sub %p, %m : (tensor<SHAPExf32>, tensor<3x1x1xf32>) -> tensor<SHAPExf32>
  %1 = graph.transpose %0 {permutation = array<i64: 0, 2, 3, 1>}
    : (tensor<SHAPExf32>) -> tensor<1x4x4x3xf32>
  %n = graph.binary mul %1, %s : (tensor<1x4x4x3xf32>, tensor<f32>) -> tensor<1x4x4x3xf32>
"""

RESCALING = """
  %s = graph.constant dense<0.00784313772> : tensor<f32> : tensor<f32>
  %m = graph.constant dense<-1.0> : tensor<f32> : tensor<f32>
  %0 = graph.binary mul %p, %s : (tensor<SHAPExf32>, tensor<f32>) -> tensor<SHAPExf32>
  %n = graph.binary add %0, %m : (tensor<SHAPExf32>, tensor<f32>) -> tensor<SHAPExf32>
"""


def network(shape: str, body: str) -> ModuleOp:
    weights = np.random.default_rng(1).normal(size=(2, 3, 3, 3)).astype(np.float32)
    text = HEAD + body + TAIL
    text = text.replace("SHAPE", shape).replace("WEIGHTS", str(weights.tolist()))
    return parse_text(load_context(), text, "pixels.mlir")


CASES = [("1x4x4x3", NHWC), ("1x3x4x4", NCHW), ("1x4x4x3", RESCALING)]


@pytest.mark.parametrize(("shape", "body"), [CASES[1], slow(*CASES[0]), slow(*CASES[2])])
def test_no_float_image_is_left_and_nothing_changes(tmp_path: Path, shape: str, body: str) -> None:
    """The results equal those of a network with a float image, also in C on plain bytes."""
    extents = [int(e) for e in shape.split("x")]
    images = RNG.integers(0, 256, (40, *extents[1:]), np.uint8)
    np.savez(tmp_path / "data.npz", x=images)
    ctx = Context()
    found: list[ModuleOp] = []
    for tabulate in (True, False):
        module = network(shape, body)
        for each in (FusePass(), *QuantizePass(str(tmp_path / "data.npz")).passes()):
            if tabulate or not isinstance(each, TabulatePixelsPass):
                each.apply(ctx, module)
        module.verify()
        found.append(module)
    ours, plain = found
    ops = list(main_function(ours).body.block.ops)
    (lookup,) = (op for op in ops if isinstance(op, graph.LookupOp))
    floats = [
        op.name
        for op in ops
        for value in op.results
        if isinstance(graph.element_of(value), Float32Type)
        and not isinstance(op, graph.ConstantOp | graph.DequantizeOp)
    ]
    assert not floats
    assert (lookup.channel_rows is None) == (body is RESCALING)
    # Quantization step by step preserved only 128 values.
    assert np.ptp(lookup.tables.astype(int)) > 200
    every = np.resize(np.arange(256, dtype=np.uint8), (7, *extents[1:]))
    model = compiled(place(ours.clone()), flags=SANITIZE)
    for image in (*images[:5], *every):
        inputs = {"x": image[None]}
        expected = run(plain, inputs)["output0"]
        assert expected.any()
        np.testing.assert_array_equal(run(ours, inputs)["output0"], expected)
        np.testing.assert_array_equal(model.run(inputs)["output0"], expected)


def test_the_image_keeps_all_its_bits(tmp_path: Path) -> None:
    """A layer that copies a channel returns 256 different values."""
    text = """
    func.func @main(%x: tensor<1x16x16x1xui8>) -> tensor<1x16x16x1xf32> {
      %w = graph.constant dense<1.0> : tensor<1x1x1x1xf32> : tensor<1x1x1x1xf32>
      %s = graph.constant dense<0.003921569> : tensor<f32> : tensor<f32>
      %p = graph.cast %x : (tensor<1x16x16x1xui8>) -> tensor<1x16x16x1xf32>
      %n = graph.binary mul %p, %s
        : (tensor<1x16x16x1xf32>, tensor<f32>) -> tensor<1x16x16x1xf32>
      %y = graph.conv2d %n, %w
        : (tensor<1x16x16x1xf32>, tensor<1x1x1x1xf32>) -> tensor<1x16x16x1xf32>
      func.return %y : tensor<1x16x16x1xf32>
    }
    """
    np.savez(tmp_path / "data.npz", input0=RNG.integers(0, 256, (40, 16, 16, 1), np.uint8))
    module = parse_text(load_context(), text, "copy.mlir")
    QuantizePass(str(tmp_path / "data.npz")).apply(Context(), module)
    image = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1)
    assert len(np.unique(run(module, {"input0": image})["output0"])) == 256
