"""Exported models compute plain integers, including functions without an ONNX operator."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx_models import Array, model, node, run_onnxruntime
from xdsl.parser import Parser

from ceras_ir.backends.onnx.export import export_model
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.context import load_context
from ceras_ir.support.diagnostics import UnsupportedError


def check(proto: onnx.ModelProto, inputs: dict[str, Array], kinds: list[str]) -> None:
    """ONNX Runtime and a second import compute the results of the network, with these operators."""
    module = import_model(proto)
    exported = export_model(module, "network")
    onnx.checker.check_model(exported, full_check=True)  # pyright: ignore[reportUnknownMemberType]
    assert [n.op_type for n in exported.graph.node] == kinds
    expected = run(module, inputs)["y"]
    np.testing.assert_array_equal(run_onnxruntime(exported, inputs)["y"], expected)
    np.testing.assert_array_equal(run(import_model(exported), inputs)["y"], expected)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_a_shift_stays_a_shift(direction: str) -> None:
    nodes = [node("BitShift", "a b", "y", direction=direction)]
    proto = model(nodes, {"a": [3, 9], "b": [9]}, ["y"], opset=18, dtype=TensorProto.UINT8)
    a = np.array([[255] * 9, [1] * 9, [90] * 9], np.uint8)
    check(proto, {"a": a, "b": np.arange(9, dtype=np.uint8)}, ["BitShift"])


@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_narrow_integers_are_computed_in_wide_ones(operator: str, dtype: str) -> None:
    """ONNX has them from opset 14 on, and ONNX Runtime not at all."""
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [node(operator, "a b", "y")]
    proto = model(nodes, {"a": [5, 1], "b": [6]}, ["y"], opset=14, dtype=kind)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    a = np.array([[low], [low + 1], [7], [high // 2], [high]], dtype)
    b = np.array([low or 1, low + 2, 3, high - 2, high, 1], dtype)
    check(proto, {"a": a, "b": b}, ["Cast", "Cast", operator, "Cast"])


def test_powers_that_onnx_has_not_are_refused() -> None:
    text = """
    func.func @main(%x: tensor<4xui8>) -> tensor<4xui8> {
      %y = graph.binary pow %x, %x : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xui8>
      func.return %y : tensor<4xui8>
    }"""
    module = Parser(load_context(), text).parse_module()
    with pytest.raises(UnsupportedError, match="no power of ui8; use int32, or target c"):
        export_model(module, "network")


TAKE = """
func.func @main(%x: tensor<3x2xf32> {graph.name = "x"}, %i: tensor<7xi32> {graph.name = "i"})
    -> (tensor<7x2xf32> {graph.name = "y"}) {
  %q = graph.quantize %x : (tensor<3x2xf32>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>>
  %t = graph.take %q[%i] : (tensor<3x2x!quant.uniform<i8:f32, 0.5>>, tensor<7xi32>)
      -> tensor<7x2x!quant.uniform<i8:f32, 0.5>>
  %y = graph.dequantize %t
      : (tensor<7x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<7x2xf32>
  func.return %y : tensor<7x2xf32>
}
"""


def test_rows_at_computed_indices_are_gathered() -> None:
    """Rows are also defined for indices out of range, which Gather refuses."""
    module = Parser(load_context(), TAKE).parse_module()
    exported = export_model(module, "network")
    onnx.checker.check_model(exported, full_check=True)  # pyright: ignore[reportUnknownMemberType]
    x = np.array([[1, 2], [-3, 4], [5, 70]], np.float32)
    inputs: dict[str, Array] = {"x": x, "i": np.array([0, 2, -1, -3, -9, 9, 1], np.int32)}
    expected = run(module, inputs)["y"]
    np.testing.assert_array_equal(expected, np.minimum(x, 63.5)[[0, 2, 2, 0, 0, 2, 1]])
    np.testing.assert_array_equal(run_onnxruntime(exported, inputs)["y"], expected)
    np.testing.assert_array_equal(run(import_model(exported), inputs)["y"], expected)


def test_what_is_not_written_yet_says_so() -> None:
    text = """
    func.func @main(%x: tensor<3x2xf32>, %i: tensor<1xi32>, %r: tensor<1x2xf32>)
        -> tensor<3x2xf32> {
      %y = graph.put %r into %x[%i]
          : (tensor<3x2xf32>, tensor<1xi32>, tensor<1x2xf32>) -> tensor<3x2xf32>
      func.return %y : tensor<3x2xf32>
    }"""
    module = Parser(load_context(), text).parse_module()
    with pytest.raises(UnsupportedError, match="is not implemented; use target c"):
        export_model(module, "network")
