"""Plain integers in exported models: what ONNX has no operator for, and what it says otherwise."""

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
    """ONNX Runtime and a second import compute what the network does, by nodes of these kinds."""
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
