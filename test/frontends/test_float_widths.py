"""Test models in half, bfloat16 and double precision: float32 inside, the model type outside."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import Tool
from onnx import TensorProto, helper, numpy_helper
from onnx_models import Array, model, node, random_inputs, run_onnxruntime

from ceras_ir.driver.run import main
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run

pytestmark = pytest.mark.slow

HALF = 2e-3
"""
The tolerance relative to the maximum. Nodes in float16 round to 2^-11; here, only inputs and
outputs are rounded.
"""


def network(data_type: int, *, opset: int = 17) -> onnx.ModelProto:
    """Build a convolution, arithmetic on constants, casts, a product and a softmax."""
    random = np.random.default_rng(3)

    def tensor(name: str, *shape: int) -> onnx.TensorProto:
        values = random.uniform(-0.5, 0.5, shape).astype(np.float32)
        return helper.make_tensor(name, data_type, shape, values.reshape(-1).tolist())

    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node("Transpose", ["k"], ["t"], "moved", perm=[0, 2, 3, 1]),
        helper.make_node("Transpose", ["t"], ["b"], "back", perm=[0, 3, 1, 2]),
        helper.make_node("Mul", ["b", "k"], ["bk"], "folded"),
        helper.make_node("Add", ["c", "bk"], ["a"], "add"),
        helper.make_node("Cast", ["a"], ["f"], "to_single", to=TensorProto.FLOAT),
        helper.make_node("Tanh", ["f"], ["th"], "tanh"),
        helper.make_node("Cast", ["th"], ["h"], "from_single", to=data_type),
        helper.make_node("Flatten", ["h"], ["v"], "flat"),
        helper.make_node("MatMul", ["v", "m"], ["p"], "product"),
        helper.make_node("Softmax", ["p"], ["y"], "softmax"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", data_type, [1, 3, 6, 6])],
        [helper.make_tensor_value_info("y", data_type, [1, 5])],
        [tensor("w", 4, 3, 3, 3), tensor("k", 1, 4, 1, 1), tensor("m", 64, 5)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def single(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a float32 model with the same values."""
    same = network(TensorProto.FLOAT)
    for tensor, other in zip(same.graph.initializer, proto.graph.initializer, strict=True):
        array = numpy_helper.to_array(other).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return same


@pytest.mark.parametrize(
    "data_type", [TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE]
)
def test_weights_of_any_width(data_type: int) -> None:
    proto = network(data_type)
    inputs = random_inputs(network(TensorProto.FLOAT))
    (want,) = run_onnxruntime(single(proto), inputs).values()
    (got,) = run(import_model(proto), inputs).values()
    assert got.dtype == np.float32
    # Only folded constants are rounded to the width of the model.
    tolerance = 1e-6 if data_type == TensorProto.DOUBLE else HALF
    assert np.allclose(got.astype(np.float64), want.astype(np.float64), rtol=tolerance)


def test_bfloat16_is_stored_in_two_bytes() -> None:
    proto = network(TensorProto.BFLOAT16)
    raw = network(TensorProto.BFLOAT16)
    for tensor in raw.graph.initializer:
        bits = np.array(tensor.int32_data, np.uint16)
        del tensor.int32_data[:]
        tensor.raw_data = bits.tobytes()
    assert str(import_model(raw)) == str(import_model(proto))


@pytest.mark.parametrize(
    ("data_type", "name"), [(TensorProto.FLOAT16, "float16"), (TensorProto.DOUBLE, "float64")]
)
def test_files_keep_the_models_type(tool: Tool, tmp_path: Path, data_type: int, name: str) -> None:
    proto = network(data_type)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    x = random_inputs(network(TensorProto.FLOAT))["x"].astype(name)
    np.savez(tmp_path / "in.npz", x=x)
    arguments = ("--inputs", "in.npz", "--outputs", "out.npz")
    assert tool("ceras-run", "m.onnx", *arguments).status == 0
    interpreted = array(tmp_path)
    assert tool("ceras-compile", "m.onnx", "-o", "out", "--target", "c").status == 0
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    # The types of the compiled functions, and of the model.
    for (end,) in (manifest["inputs"], manifest["outputs"]):
        assert [end["dtype"], end["model_dtype"]] == ["float32", name]
    assert tool("ceras-run", "out", *arguments).status == 0
    assert interpreted.dtype == array(tmp_path).dtype == np.dtype(name)
    if data_type == TensorProto.FLOAT16:
        (want,) = run_onnxruntime(proto, {"x": x}).values()
        assert want.dtype == np.float16
        off = np.abs(interpreted.astype(np.float64) - want.astype(np.float64))
        assert off.max() <= HALF * want.astype(np.float64).max()


def test_doubles_beyond_float32_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ends = "--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "out.npz")

    def status(constant: float, given: float) -> int:
        tensors = {"k": np.array([constant], np.float64)}
        shapes = {"x": (1, 2)}
        proto = model([node("Mul", "x k", "y")], shapes, ["y"], tensors, dtype=TensorProto.DOUBLE)
        (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
        np.savez(tmp_path / "in.npz", x=np.array([[1.0, given]]))
        return main([str(tmp_path / "m.onnx"), *ends])

    assert status(1e39, 1.0) == 3
    assert "unsupported: 1e+39 is beyond float32" in capsys.readouterr().err
    assert status(1.0, 1e39) == 1
    assert "array 'x' has 1e+39, which float32" in capsys.readouterr().err
    assert status(1.0, float("inf")) == 0
    assert array(tmp_path).tolist() == [[1.0, float("inf")]]


def array(folder: Path) -> Array:
    with np.load(folder / "out.npz") as file:
        return file["y"]
