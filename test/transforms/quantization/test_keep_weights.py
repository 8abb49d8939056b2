"""Quantize networks in which only weights are integers, and compare these integers."""

from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ceras_ir.dialects import graph
from ceras_ir.driver.verify.tool import main as verify_main
from ceras_ir.frontends.onnx import import_model
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.stages import BuildOptions, front_stages, run_stages
from ceras_ir.targets.registry import find_target

Array = npt.NDArray[np.generic]

INT4, UINT4 = ml_dtypes.int4, ml_dtypes.uint4


def network(
    *, powers: bool, per_channel: bool, signed: bool = True, point: int | None = None
) -> tuple[onnx.ModelProto, list[Array]]:
    """
    Build a residual block, a Relu and a product with weights of 4 bits. Return the model and the
    weights as int64, minus 8 if they are unsigned: [O, I, 3, 3], [O, I, 3, 3] and [K, N].
    """
    rng, kind = np.random.default_rng(0), INT4 if signed else UINT4
    tensors: dict[str, Array] = {"shape": np.array([1, -1])}
    weights: list[Array] = []
    for i, (shape, axis) in enumerate([((6, 6, 3, 3), 0), ((6, 6, 3, 3), 0), ((96, 5), 1)]):
        centred = rng.integers(-8, 8, shape)
        count = (shape[axis],) if per_channel else ()
        exponents = np.exp2(-rng.integers(4, 7, count).astype(np.float64))
        factors = 1.0 if powers else rng.uniform(1, 2, count)
        tensors[f"w{i}"] = (centred + (0 if signed else 8)).astype(kind)
        tensors[f"s{i}"] = np.array(exponents * factors, np.float32)
        tensors[f"z{i}"] = np.full(count, 0 if signed else 8).astype(kind)
        if point is not None:
            tensors[f"z{i}"] = np.full(count, point).astype(kind)
        weights.append(centred)
    nodes = [
        *(
            helper.make_node("DequantizeLinear", [f"w{i}", f"s{i}", f"z{i}"], [f"f{i}"], axis=axis)
            for i, axis in enumerate((0, 0, 1))
        ),
        helper.make_node("Conv", ["x", "f0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "f1"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c", "x"], ["d"]),
        helper.make_node("Reshape", ["d", "shape"], ["e"]),
        helper.make_node("MatMul", ["e", "f2"], ["y"]),
    ]
    proto = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 6, 4, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 5))],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(proto, opset_imports=opsets, ir_version=10), weights


def stored(model: onnx.ModelProto, target: str) -> Iterator[tuple[int, Array]]:
    """Yield the bits and the integers of the weights of each layer after quantization."""
    module = import_model(model)
    options = BuildOptions(target=find_target(target)(), quantize="int8")
    run_stages(load_context(), module, front_stages(options))
    for op in main_function(module).body.block.ops:
        if isinstance(op, graph.LinearOperation):
            assert op.is_quantized
            yield graph.stored_element(op.weights).width, graph.known_array(op.weights)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("powers", [True, False])
def test_integers_of_the_model(powers: bool, per_channel: bool, signed: bool):
    model, weights = network(powers=powers, per_channel=per_channel, signed=signed)
    found = list(stored(model, "interp"))
    assert [bits for bits, _ in found] == [4, 4, 4]
    for expected, (_, integers) in zip(weights, found, strict=True):
        order = (0, 2, 3, 1) if expected.ndim == 4 else (1, 0)
        if expected.ndim == 2:  # The inputs of the product are in another order.
            assert sorted(integers.reshape(-1)) == sorted(expected.reshape(-1))
        else:
            np.testing.assert_array_equal(integers, expected.transpose(order))


@pytest.mark.needs("vta")
@pytest.mark.parametrize(("powers", "per_channel"), [(True, True), (False, False), (True, False)])
def test_a_target_with_shifts(powers: bool, per_channel: bool, capsys: pytest.CaptureFixture[str]):
    model, _ = network(powers=powers, per_channel=per_channel)
    assert [bits for bits, _ in stored(model, "vta")] == [8, 8, 8]
    name = "widen-weights" if powers else "keep-weights"
    verb = "stored as int8: target vta" if powers else "quantized to int8 again"
    assert f"{name}: note: 3 layers with 4-bit weights are {verb}" in capsys.readouterr().err


def test_zero_points_need_more_bits(capsys: pytest.CaptureFixture[str]):
    model, _ = network(powers=True, per_channel=False, point=3)
    assert [bits for bits, _ in stored(model, "interp")] == [8, 8, 8]
    assert "3 layers with 4-bit weights are quantized to int8 again" in capsys.readouterr().err


@pytest.mark.needs("nnet", "vta", "onnx", "dataflow")
@pytest.mark.parametrize("powers", [True, False])
def test_all_levels_are_exact(powers: bool, tmp_path: Path):
    model, _ = network(powers=powers, per_channel=True)
    path, data = tmp_path / "model.onnx", tmp_path / "data.npz"
    path.write_bytes(model.SerializeToString())
    np.savez(data, x=np.random.default_rng(1).normal(size=(8, 1, 6, 4, 4)).astype(np.float32))
    targets = "c,nnet,vta,onnx,dataflow"
    assert verify_main([str(path), "--calibrate", str(data), "--targets", targets]) == 0
