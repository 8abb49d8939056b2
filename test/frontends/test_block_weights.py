"""Compare weights of few bits, and top-k elements, with ONNX's reference and ONNX Runtime."""

import re
from collections.abc import Mapping

import ml_dtypes
import numpy as np
import onnx
import pytest
from c_harness import Array, check
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx_models import run_onnxruntime

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import packed
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.support.diagnostics import InputError, UnsupportedError


def model(
    nodes: list[onnx.NodeProto],
    x: Array,
    tensors: dict[str, Array],
    outputs: Mapping[str, int],
    opset: int = 21,
) -> onnx.ModelProto:
    network = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(network, opset_imports=opsets, ir_version=10)


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


def test_outputs_have_at_least_eight_bits():
    x = np.ones((2, 2), np.float32)
    tensors = {"s": np.ones((), np.float32), "z": np.zeros((), ml_dtypes.int4)}
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    with pytest.raises(UnsupportedError, match="4-bit integers; dequantize them"):
        import_model(model([node], x, tensors, {"y": TensorProto.INT4}))


class MatMulNBits:
    """A random model of MatMulNBits, and the real weights."""

    def __init__(self, points: str, k: int, size: int, bits: int, level: int = 0) -> None:
        rng, n = np.random.default_rng(1), 5
        blocks = -(-k // size)
        self.size = size
        integers = rng.integers(0, 1 << bits, (n, blocks, size), np.uint8)
        scales = rng.uniform(0.1, 1, n * blocks).astype(np.float32)
        tensors: dict[str, Array] = {
            "w": packed(integers.reshape(n * blocks, size), bits).reshape(n, blocks, -1),
            "s": scales,
        }
        zero: NDArray[np.uint8 | np.float32] = np.full((n, blocks), 1 << bits - 1, np.uint8)
        if points == "packed":
            zero = rng.integers(0, 1 << bits, (n, blocks), np.uint8)
            tensors["z"] = packed(zero, bits).reshape(-1)
        elif points == "float":
            zero = rng.uniform(0, (1 << bits) - 1, (n, blocks)).astype(np.float32)
            tensors["z"] = zero.reshape(-1)
        node = helper.make_node(
            "MatMulNBits", ["x", *tensors], ["y"], domain="com.microsoft", K=k, N=n, bits=bits,
            block_size=size, accuracy_level=level,
        )  # fmt: skip
        self.x = rng.normal(size=(3, k)).astype(np.float32)
        self.proto = model([node], self.x, tensors, {"y": TensorProto.FLOAT})
        centred = integers.astype(np.float32) - zero.astype(np.float32)[..., None]
        real = centred * scales.reshape(n, blocks, 1)
        self.weights: NDArray[np.float32] = real.reshape(n, -1)[:, :k].astype(np.float32)

    def rounding(self) -> NDArray[np.float64]:
        """Return the error bound of results if each block of `x` is rounded to 8 bits."""
        total = np.zeros((len(self.x), len(self.weights)))
        for start in range(0, self.x.shape[1], self.size):
            x, w = (np.abs(v[:, start : start + self.size]) for v in (self.x, self.weights))
            total += np.multiply.outer(x.max(1) / 254, w.sum(1))
        return total


# ONNX Runtime has no weights of 8 bits with zero points in float.
@pytest.mark.parametrize(
    ("points", "bits"),
    [(points, bits) for points in ("none", "packed", "float") for bits in (2, 4, 8)][:-1],
)
@pytest.mark.parametrize(("k", "size"), [(64, 16), (40, 32)])
def test_matmul_n_bits(points: str, k: int, size: int, bits: int):
    case = MatMulNBits(points, k, size, bits)
    expected = run_onnxruntime(case.proto, {"x": case.x})["y"].astype(np.float32)
    module = import_model(case.proto)
    found = run(module, {"x": case.x})["y"].astype(np.float32)
    is_packed = any(isinstance(op, graph.BlockMatmulOp) for op in module.walk())
    assert is_packed == (points != "float")
    bound = case.rounding() if is_packed else 0
    assert (np.abs(found - expected) <= bound + 1e-5 * np.abs(expected).max()).all()


@pytest.mark.parametrize("size", [16, 32, 64])
def test_level_4_quantizes_the_input_too(size: int):
    """The order of sums, and rounding on some processors, may differ."""
    case = MatMulNBits("packed", 256, size, 4, 4)
    expected = run_onnxruntime(case.proto, {"x": case.x})["y"].astype(np.float32)
    found = run(import_model(case.proto), {"x": case.x})["y"].astype(np.float32)
    assert (np.abs(found - expected) <= 2 * case.rounding()).all()


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ("halves", np.float16, "f16"),
        ("halves", np.float32, "f16"),
        ("floats", np.float32, "f32"),
        ("large", np.float32, "f32"),
    ],
)
def test_scales_have_16_bits_if_that_is_exact(values: str, kind: type[np.generic], expected: str):
    case = MatMulNBits("none", 64, 16, 4)
    scales = np.random.default_rng(3).normal(size=20).astype(np.float32)
    if values != "floats":
        scales = scales.astype(np.float16).astype(np.float32)
        scales[:4] = 0, 2.0**-24, -(2.0**-15), 65504 if values == "halves" else 65536
    (tensor,) = (t for t in case.proto.graph.initializer if t.name == "s")
    tensor.CopyFrom(numpy_helper.from_array(scales.astype(kind), "s"))
    (op,) = (op for op in import_model(case.proto).walk() if isinstance(op, graph.BlockMatmulOp))
    assert str(graph.element_of(op.scales)) == expected
    assert (op.known_scales().reshape(-1) == scales).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"K": 63}, "K = 63, N = 5, block_size = 16"),
        ({"block_size": 3}, "K = 64, N = 5, block_size = 3"),
        ({"block_size": 32}, "scales of shape [20], expected [5, 2]"),
        ({"N": 6}, "weights of shape [5, 4, 8] and uint8"),
        ({"bits": 8}, "weights of shape [5, 4, 8] and uint8"),
        ({"bits": 3}, "bits is 3"),
    ],
)
def test_wrong_attributes(change: dict[str, int], message: str):
    case = MatMulNBits("packed", 64, 16, 4)
    (node,) = case.proto.graph.node
    for attribute in node.attribute:
        attribute.i = change.get(attribute.name, attribute.i)
    with pytest.raises((InputError, UnsupportedError), match=re.escape(message)):
        import_model(case.proto)


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("w", np.zeros(159, np.uint8), "weights of shape [159] and uint8"),
        ("w", np.zeros((5, 4, 8), np.int8), "weights of shape [5, 4, 8] and int8"),
        ("z", np.zeros(9, np.uint8), "zero points of shape [9], expected [5, 2] bytes"),
        ("z", np.zeros(19, np.float32), "zero points of shape [19], expected [5, 4]"),
        ("s", np.full(20, np.inf, np.float32), "scales must be finite"),
    ],
)
def test_wrong_operands(name: str, array: Array, message: str):
    case = MatMulNBits("packed", 64, 16, 4)
    for tensor in case.proto.graph.initializer:
        if tensor.name == name:
            tensor.CopyFrom(numpy_helper.from_array(array, name))
    with pytest.raises(InputError, match=re.escape(message)):
        import_model(case.proto)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("way", ["MatMul", "Gemm", "transposed", "Gather"])
@pytest.mark.parametrize("signed", [True, False])
def test_dequantized_blocks_remain_packed(way: str, bits: int, signed: bool):
    """Blocks are along the first axis for MatMul, and along the second for transposed weights."""
    rng, size, k, n = np.random.default_rng(5), 16, 40, 6
    low = -(1 << bits - 1) if signed else 0
    kind = np.dtype(f"{'' if signed else 'u'}int8") if bits == 8 else None
    if kind is None:
        kind = np.dtype(getattr(ml_dtypes, f"{'' if signed else 'u'}int{bits}"))
    rows, zero = (rng.integers(low, low + (1 << bits), shape) for shape in ((n, k), (n, 3)))
    steps = rng.normal(size=(n, 3)).astype(np.float32)
    is_turned = way == "MatMul"
    arrays = [a.T if is_turned else a for a in (rows.astype(kind), steps, zero.astype(kind))]
    tensors: dict[str, Array] = dict(zip("wsz", arrays, strict=True))
    nodes = [
        helper.make_node(
            "DequantizeLinear", ["w", "s", "z"], ["d"], axis=0 if is_turned else 1, block_size=size
        )
    ]
    at, x = np.array([0, 5, -1]), rng.normal(size=(2, k)).astype(np.float32)
    given: Array = at if way == "Gather" else x
    match way:
        case "MatMul":
            nodes.append(helper.make_node("MatMul", ["x", "d"], ["y"]))
        case "Gemm":
            nodes.append(helper.make_node("Gemm", ["x", "d"], ["y"], transB=1))
        case "transposed":
            nodes.append(helper.make_node("Transpose", ["d"], ["t"]))
            nodes.append(helper.make_node("MatMul", ["x", "t"], ["y"]))
        case _:
            nodes.append(helper.make_node("Gather", ["d", "x"], ["y"]))
    proto = model(nodes, given, tensors, {"y": TensorProto.FLOAT}, opset=25 if bits == 2 else 21)
    module = import_model(proto)
    assert any(isinstance(op, graph.BlockOperation) for op in module.walk())
    found = run(module, {"x": given})["y"].astype(np.float32)
    points, scales = (np.repeat(each, size, 1)[:, :k] for each in (zero, steps))
    real = (rows - points).astype(np.float32) * scales
    if way == "Gather":
        np.testing.assert_array_equal(found, real[at])
    else:
        reach = np.abs(x).max() / 254 * np.abs(real).sum(1)
        difference = np.subtract(found, x @ real.T)
        assert (np.abs(difference) <= reach + 1e-5).all()


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
