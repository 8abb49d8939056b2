"""Check that the sample models are valid, deterministic, and match their docstrings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx_models import (
    concat_branches,
    conv_model,
    gemm_model,
    mlp,
    model,
    node,
    pool_model,
    random_inputs,
    residual_block,
    run_onnxruntime,
    silu_block,
    value_shape,
)
from onnx_random import STEPS, random_network

SAMPLES: dict[str, tuple[Callable[[], onnx.ModelProto], tuple[int, ...]]] = {
    "conv": (conv_model, (1, 4, 6, 6)),
    "conv asymmetric": (lambda: conv_model(pads=[0, 1, 2, 3], strides=[1, 2]), (1, 4, 8, 5)),
    "conv depthwise": (
        lambda: conv_model((1, 6, 9, 9), 12, group=6, dilations=[2, 1], bias=False),
        (1, 12, 5, 7),
    ),
    "conv same": (lambda: conv_model(auto_pad="SAME_LOWER", strides=[3, 3]), (1, 4, 3, 3)),
    "conv relu": (lambda: conv_model(kernel=(1, 3), activation="Relu"), (1, 4, 8, 6)),
    "gemm": (gemm_model, (1, 3)),
    "gemm transposed": (lambda: gemm_model(trans_a=True, trans_b=False, batch=2), (2, 3)),
    "gemm scaled": (lambda: gemm_model(alpha=0.5, beta=2.0, bias=(1, -1)), (1, 3)),
    "gemm without bias": (lambda: gemm_model(bias=None), (1, 3)),
    "max pool": (lambda: pool_model(strides=[2, 2]), (1, 3, 4, 4)),
    "max pool ceil": (
        lambda: pool_model(kernel=(3, 3), strides=[2, 2], ceil_mode=1),
        (1, 3, 4, 4),
    ),
    "average pool": (
        lambda: pool_model("AveragePool", pads=[1, 0, 0, 1], count_include_pad=1),
        (1, 3, 8, 8),
    ),
    "global pool": (lambda: pool_model("GlobalAveragePool"), (1, 3, 1, 1)),
    "residual": (residual_block, (1, 8, 8, 8)),
    "silu": (silu_block, (1, 8, 8, 8)),
    "mlp": (lambda: mlp(40), (1, 3)),
    "mlp softmax": (lambda: mlp(5, 7, 2, batch=4, softmax=True), (4, 2)),
    "concat": (concat_branches, (1, 12, 8, 8)),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_sample(name: str) -> None:
    build, shape = SAMPLES[name]
    proto = build()
    (output,) = run_onnxruntime(proto, random_inputs(proto)).values()
    assert output.shape == shape == value_shape(proto, "y")
    assert np.ptp(output) > 0
    assert build() == proto


def test_mlp_of_one_size() -> None:
    assert mlp(40) == mlp(3, 40, 40, 3)


def test_symbolic_batch() -> None:
    proto = gemm_model(batch="batch")
    assert value_shape(proto, "y") == ("batch", 3)
    assert random_inputs(proto, batch=7)["x"].shape == (7, 5)


def test_silu_is_x_times_sigmoid() -> None:
    proto = silu_block()
    proto.graph.output.append(onnx.helper.make_empty_tensor_value_info("c"))
    values = run_onnxruntime(proto, random_inputs(proto))
    expected = values["c"] / (1 + np.exp(-values["c"]))
    np.testing.assert_allclose(values["y"], expected, rtol=1e-5)


def test_numbers_become_float32_and_int64() -> None:
    nodes = [node("Add", "x half", "s"), node("Reshape", "s shape", "y", "flat")]
    proto = model(nodes, {"x": (2, 3)}, ["y"], {"half": 0.5, "shape": [6]})
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(run_onnxruntime(proto, {"x": x})["y"], np.arange(6) + 0.5)
    assert [n.name for n in proto.graph.node] == ["s_add", "flat"]


def test_wrong_models_are_refused_unless_asked_for() -> None:
    nodes, inputs = [node("Add", "x k", "y")], {"x": (2, 3)}
    constants = {"k": np.zeros(4, np.float32)}
    with pytest.raises(onnx.shape_inference.InferenceError):
        model(nodes, inputs, ["y"], constants)
    assert model(nodes, inputs, ["y"], constants, infer=False).graph.node[0].op_type == "Add"
    custom = onnx.helper.make_node("Shrinkle", ["x"], ["y"], "odd", domain="example.org")
    assert model([custom], inputs, ["y"], infer=False, domains={"example.org": 1})


@pytest.mark.slow
def test_random_networks_run_and_cover_every_operator() -> None:
    seen: Counter[str] = Counter()
    for seed in range(150):
        proto = random_network(seed)
        for output in run_onnxruntime(proto, random_inputs(proto, seed)).values():
            assert np.isfinite(output).all()
            assert output.shape == value_shape(proto, proto.graph.output[0].name)
        seen.update({n.op_type for n in proto.graph.node})
    expected = (
        "Conv BatchNormalization Relu Clip Sigmoid Mul Add MaxPool AveragePool GlobalAveragePool "
        "Flatten Gemm Softmax Concat Transpose Reshape Resize"
    )
    assert set(seen) == set(expected.split())
    assert min(seen.values()) >= 10, seen


def test_random_network_is_a_function_of_its_seed() -> None:
    assert random_network(3) == random_network(3)
    assert random_network(3) != random_network(4)


@pytest.mark.parametrize("kind", STEPS)
def test_random_network_of_one_kind(kind: str) -> None:
    for seed in range(20):
        proto = random_network(seed, steps=2, kinds=["convolution", kind])
        assert run_onnxruntime(proto, random_inputs(proto))
        assert "Gemm" not in {n.op_type for n in proto.graph.node}
