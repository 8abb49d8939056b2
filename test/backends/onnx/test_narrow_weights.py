"""Export weights of less than 8 bits in the integers that ONNX has, and import them again."""

import numpy as np
import pytest
from onnx import TensorProto
from onnx_models import check, run_onnxruntime

from ceras_ir.backends.onnx.export import export_model
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.transforms.quantization.fold_qdq import FoldQdqPass

TEXT = """
func.func @main(%x: tensor<3x8xf32> {{graph.name = "x"}})
    -> (tensor<3x4xf32> {{graph.name = "y"}}) {{
  %q = graph.quantize %x : (tensor<3x8xf32>) -> tensor<3x8x!quant.uniform<i8:f32, 0.5:3>>
  %w = graph.constant dense<"0x{data}"> : tensor<4x8x{held}> : tensor<4x8x!quant.uniform<{type}>>
  %m = graph.matmul %q, %w {{requant = #graph.requant<multiplier = [1, 2, 4, 1], shift = 4,
      rounding = half_up, low = -128, high = 127>}}
      : (tensor<3x8x!quant.uniform<i8:f32, 0.5:3>>, tensor<4x8x!quant.uniform<{type}>>)
      -> tensor<3x4x!quant.uniform<i8:f32, 1.0>> loc("layer")
  %y = graph.dequantize %m : (tensor<3x4x!quant.uniform<i8:f32, 1.0>>) -> tensor<3x4xf32>
  func.return %y : tensor<3x4xf32>
}}
"""


@pytest.mark.parametrize(
    ("storage", "kind", "opset"),
    [
        ("i2", TensorProto.INT2, 25),
        ("u2", TensorProto.UINT2, 25),
        ("i3", TensorProto.INT4, 21),
        ("i4", TensorProto.INT4, 21),
        ("u4", TensorProto.UINT4, 21),
        ("u7", TensorProto.UINT8, 13),
    ],
)
def test_weights(storage: str, kind: int, opset: int):
    rng, width = np.random.default_rng(0), int(storage[1:])
    low, high = (0, 1 << width) if storage[0] == "u" else (-(1 << width - 1), 1 << width - 1)
    weights = rng.integers(low, high, (4, 8))
    text = TEXT.format(
        data=weights.astype(np.int16).astype(np.uint8).tobytes().hex(),
        held=storage.replace("u", "ui"),
        type=f"{storage}:f32:0, {{0.125:1, 0.25, 0.5, 0.125}}",
    )
    module = parse_text(load_context(), text, "layer.mlir")
    model = export_model(module, "layer")
    check(model)
    found = next(t for t in model.graph.initializer if len(t.dims) == 2)
    assert (found.data_type, model.opset_import[0].version) == (kind, opset)
    x = rng.normal(size=(3, 8)).astype(np.float32) * 9
    expected = run(module, {"x": x})["y"]
    again = import_model(model)
    FoldQdqPass().apply(load_context(), again)
    np.testing.assert_array_equal(run(again, {"x": x})["y"], expected)
    if opset < 25:  # ONNX Runtime has no products of 2 bits.
        np.testing.assert_array_equal(run_onnxruntime(model, {"x": x})["y"], expected)
