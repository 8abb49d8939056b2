"""Compare weights of few bits, and top-k elements, with ONNX's reference and ONNX Runtime."""

from collections.abc import Mapping

import ml_dtypes
import numpy as np
import onnx
import pytest
from c_harness import Array, check
from onnx import TensorProto, helper, numpy_helper
from onnx_models import run_onnxruntime

from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.support.diagnostics import UnsupportedError


def model(
    nodes: list[onnx.NodeProto],
    x: Array,
    tensors: dict[str, Array],
    outputs: Mapping[str, int],
    opset: int = 21,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("block", [0, 4])
@pytest.mark.parametrize("raw", [True, False])
def test_dequantized_halves(signed: bool, block: int, raw: bool):
    rng = np.random.default_rng(0)
    low, kind = (-8, ml_dtypes.int4) if signed else (0, ml_dtypes.uint4)
    numbers = rng.integers(low, low + 16, (7, 9))
    scale_shape = (7, 3) if block else (9,)
    tensors: dict[str, Array] = {
        "w": numbers.astype(kind),
        # ONNX Runtime's quantizer uses the sign of the extreme weight, and no step for zeros.
        "s": (rng.uniform(-1, 1, scale_shape) * (rng.random(scale_shape) > 0.2)).astype(np.float32),
        "z": rng.integers(low, low + 16, scale_shape).astype(kind),
    }
    x = rng.normal(size=(2, 7)).astype(np.float32)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=1, block_size=block),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    proto = model(nodes, x, tensors, {"y": TensorProto.FLOAT})
    if not raw:
        for tensor in proto.graph.initializer[:1]:
            listed = list(tensor.raw_data)
            tensor.ClearField("raw_data")
            tensor.int32_data.extend(listed)
    scale, point = tensors["s"].astype(np.float32), tensors["z"].astype(np.float32)
    if block:
        scale, point = (np.repeat(each, block, 1)[:, :9] for each in (scale, point))
    expected = x @ ((numbers - point) * scale).astype(np.float32)
    assert np.allclose(run(import_model(proto), {"x": x})["y"], expected, atol=1e-5)


def test_four_bits_are_weights_alone():
    x = np.ones((2, 2), np.float32)
    tensors = {"s": np.ones((), np.float32), "z": np.zeros((), ml_dtypes.int4)}
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    with pytest.raises(UnsupportedError, match="values are stored as int4"):
        import_model(model([node], x, tensors, {"y": TensorProto.INT4}))


# ONNX Runtime has no weights of 8 bits with zero points in float.
@pytest.mark.parametrize(
    ("points", "bits"),
    [(points, bits) for points in ("none", "packed", "float") for bits in (2, 4, 8)][:-1],
)
@pytest.mark.parametrize(("k", "size"), [(64, 16), (40, 32)])
def test_matmul_n_bits(points: str, k: int, size: int, bits: int):
    rng, n = np.random.default_rng(1), 5
    blocks = -(-k // size)
    tensors: dict[str, Array] = {
        "w": rng.integers(0, 256, (n, blocks, size * bits // 8)).astype(np.uint8),
        "s": rng.uniform(0.1, 1, n * blocks).astype(np.float32),
    }
    if points == "packed":
        tensors["z"] = rng.integers(0, 256, n * -(-blocks * bits // 8)).astype(np.uint8)
    elif points == "float":
        tensors["z"] = rng.uniform(0, (1 << bits) - 1, n * blocks).astype(np.float32)
    node = helper.make_node(
        "MatMulNBits", ["x", *tensors], ["y"], domain="com.microsoft", K=k, N=n, bits=bits,
        block_size=size,
    )  # fmt: skip
    x = rng.normal(size=(3, k)).astype(np.float32)
    proto = model([node], x, tensors, {"y": TensorProto.FLOAT})
    expected = run_onnxruntime(proto, {"x": x})["y"]
    found = run(import_model(proto), {"x": x})["y"]
    assert np.allclose(found, expected, rtol=1e-4, atol=1e-3 * float(np.abs(expected).max()))


# Elements of four bits may have blocks along any axis; bytes only along the last.
@pytest.mark.parametrize("has_points", [False, True])
@pytest.mark.parametrize(
    ("kind", "bits", "axes"),
    [(kind, 4, axes) for kind in (ml_dtypes.int4, ml_dtypes.uint4) for axes in ((0, 1), (1, 0))]
    + [(np.uint8, bits, (0, 1)) for bits in (2, 4, 8)],
)
def test_gather_block_quantized(
    kind: type[np.generic], bits: int, axes: tuple[int, int], has_points: bool
):
    rng, blocks = np.random.default_rng(3), [20, 40]
    per_byte = 8 // bits if kind is np.uint8 else 1
    blocks[axes[1]] = -(-blocks[axes[1]] // 16)

    def table(rows: int, columns: int) -> Array:
        high = 256 if kind is np.uint8 else 8
        return rng.integers(0, high, (rows, -(-columns // per_byte))).astype(kind)

    x = rng.integers(-20, 20, (2, 5))
    tensors: dict[str, Array] = {
        "w": table(20, 40), "s": rng.uniform(0.1, 1, blocks).astype(np.float32)
    }  # fmt: skip
    if has_points:
        tensors["z"] = table(*blocks)
    node = helper.make_node(
        "GatherBlockQuantized", ["w", "x", *list(tensors)[1:]], ["y"], domain="com.microsoft",
        bits=bits, block_size=16, gather_axis=axes[0], quantize_axis=axes[1],
    )  # fmt: skip
    proto = model([node], x, tensors, {"y": TensorProto.FLOAT})
    expected = run_onnxruntime(proto, {"x": x})["y"]
    assert np.allclose(run(import_model(proto), {"x": x})["y"], expected, atol=1e-4)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8])
def test_top_k(largest: int, axis: int, dtype: type[np.generic]):
    """Include ties and infinities."""
    x = np.random.default_rng(2).integers(-3, 4, (6, 9, 7)).astype(dtype)
    if dtype is np.float32:
        x[0, 0, :4], x[1, 1, :2] = -np.inf, np.inf
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=axis, largest=largest)
    kinds = {"v": int(helper.np_dtype_to_tensor_dtype(x.dtype)), "i": int(TensorProto.INT64)}
    proto = model([node], x, {"k": np.array([5])}, kinds)
    order = np.argsort(np.multiply(x, -1 if largest else 1), axis, kind="stable")
    indices = np.take(order, range(5), axis)
    module = import_model(proto)
    found = run(module, {"x": x})
    assert np.array_equal(found["i"], indices)
    assert np.array_equal(found["v"], np.take_along_axis(x, indices, axis))
    check(module, {"x": x})


@pytest.mark.parametrize(("n", "k"), [(1025, 1), (2560, 8), (1100, 500), (8400, 8400)])
@pytest.mark.parametrize("largest", [0, 1])
def test_top_k_of_many(n: int, k: int, largest: int):
    """Include frequent ties."""
    x = np.random.default_rng(n).integers(-40, 40, (3, n)).astype(np.float32)
    x[0, -1], x[1, :600] = -np.inf, np.inf
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], largest=largest)
    kinds = {"v": int(TensorProto.FLOAT), "i": int(TensorProto.INT64)}
    module = import_model(model([node], x, {"k": np.array([k])}, kinds))
    indices = np.argsort(-x if largest else x, -1, kind="stable")[:, :k]
    found = run(module, {"x": x})
    assert np.array_equal(found["i"], indices)
    assert np.array_equal(found["v"], np.take_along_axis(x, indices, -1))
