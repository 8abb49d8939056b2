"""
Compare thresholds with the float operations that they replace, for sums at and around ties.

The expected results are computed by NumPy in float32, as the model defines them.
"""

from importlib import import_module

import numpy as np
import onnx
import pytest
from c_harness import check
from c_tiles import BUILDS
from finn_networks import NETWORKS, QuantizedBuilder, inputs
from numpy.typing import NDArray

from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.stages import BuildOptions, front_stages, run_stages
from ceras_ir.targets.registry import find_target

Array = NDArray[np.float32]

K, N = 9, 12
"""The inputs and outputs of the tested layer."""


def network(
    bits: int, weight_bits: int, seed: int, *, signed: bool
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """
    Return a product, batch normalization and quantization, and the constants. The factors of the
    batch normalization are multiples of a power of two, so that many sums are ties.
    """
    b, rng = QuantizedBuilder(seed), np.random.default_rng(seed)
    x = b.quantized("input", "q", 4, 1.0, narrow=False)
    scale = rng.choice([0.25, 0.5, 1.0], (N, 1))
    w = b.weights("fc", (N, K), weight_bits, scale)
    x = b.node("Gemm", "fc", [x, w], transB=1)
    factor = rng.choice([-0.5, -0.25, 0.0, 0.125, 0.25, 0.5, 0.3], N).astype(np.float32)
    offset = rng.choice([-1.5, -0.5, 0.0, 0.25, 0.5, 0.7], N).astype(np.float32)
    x = b.node("Mul", "mul", [x, b.constant("factor", factor)])
    x = b.node("Add", "add", [x, b.constant("offset", offset)])
    if not signed:
        x = b.node("Relu", "relu", [x])
    x = b.quantized(x, "y", bits, 0.5, signed=signed, narrow=seed % 2 == 0)
    constants = {i.name: onnx.numpy_helper.to_array(i) for i in b.initializers}
    found = {"w": constants["fc.weight"], "factor": factor, "offset": offset}
    return b.network((1, K), x, N), found


def expected(x: Array, constants: dict[str, Array], bits: int, *, signed: bool, narrow: bool):
    sums = x.astype(np.float64) @ constants["w"].astype(np.float64).T
    real = sums.astype(np.float32) * constants["factor"] + constants["offset"]
    if bits == 1:
        return np.where(real >= 0, 0.5, -0.5)
    low = -(1 << bits - 1) + narrow if signed else 0
    high = (1 << bits - 1) - 1 if signed else (1 << bits) - 1
    return np.clip(np.rint(real / np.float32(0.5)), low, high) * 0.5


@pytest.mark.parametrize("target", ["interp", "c"])
@pytest.mark.parametrize(
    ("bits", "weight_bits", "signed"),
    [(1, 1, True), (1, 4, True), (2, 2, False), (2, 3, True), (3, 1, False), (4, 8, True)],
)
def test_results_equal_those_of_the_model(bits: int, weight_bits: int, signed: bool, target: str):
    for seed in range(2):
        proto, constants = network(bits, weight_bits, seed, signed=signed)
        module = import_model(proto)
        options = BuildOptions(find_target(target)()).resolved(module)
        run_stages(load_context(), module, front_stages(options))
        text = str(module)
        assert text.count("graph.threshold") == 1
        assert f"!quant.uniform<i{bits}:f32, 0.5" in text
        rng = np.random.default_rng(seed)
        x = np.zeros((1, K), np.float32)
        for _ in range(20):
            x = rng.integers(-9, 9, (1, K)).astype(np.float32)
            stored = np.clip(x, -8, 7)
            wanted = expected(stored, constants, bits, signed=signed, narrow=seed % 2 == 0)
            np.testing.assert_array_equal(run(module, {"input": x})["y"], wanted)
        if target == "c":
            check(module, {"input": x})


def test_wide_results_need_few_thresholds():
    """A layer of 9 weights per output has no place for 127 thresholds, but for 15."""
    for bits, count in ((4, 1), (7, 0)):
        proto, _ = network(bits, 4, 0, signed=True)
        module = import_model(proto)
        options = BuildOptions(find_target("c")()).resolved(module)
        run_stages(load_context(), module, front_stages(options))
        assert str(module).count("graph.threshold") == count


@pytest.mark.parametrize(("bits", "count"), [(3, 1), (7, 0)])
def test_a_float_bias_needs_thresholds(bits: int, count: int):
    """Integer sums cannot represent the bias, which is below their unit."""
    b = QuantizedBuilder(bits)
    x = b.quantized("input", "q", 4, 1.0, narrow=False)
    w = b.weights("fc", (N, K), 3, 1.0)
    bias = np.linspace(-0.4, 0.4, N).astype(np.float32)
    x = b.node("Gemm", "fc", [x, w, b.constant("bias", bias)], transB=1)
    x = b.quantized(x, "y", bits, 0.5)
    module = import_model(b.network((1, K), x, N))
    options = BuildOptions(find_target("c")()).resolved(module)
    values = np.random.default_rng(1).integers(-8, 8, (1, K)).astype(np.float32)
    before = run(module, {"input": values})["y"]
    run_stages(load_context(), module, front_stages(options))
    assert str(module).count("graph.threshold") == count
    np.testing.assert_array_equal(run(module, {"input": values})["y"], before)


def test_binary_search_of_many_thresholds():
    """More than 15 thresholds of a channel are searched."""
    b = QuantizedBuilder(1)
    x = b.quantized("input", "q", 8, 0.5)
    w = b.weights("fc", (4, 300), 2, 1.0)
    x = b.node("Gemm", "fc", [x, w], transB=1)
    x = b.norm(x, "norm", 4, 400.0)
    x = b.quantized(x, "y", 6, 0.125)
    module = import_model(b.network((1, 300), x, 4))
    options = BuildOptions(find_target("c")()).resolved(module)
    values = np.random.default_rng(1).normal(0, 20, (1, 300)).astype(np.float32)
    before = run(module, {"input": values})["y"]
    run_stages(load_context(), module, front_stages(options))
    assert "tensor<62x4xi32>" in str(module)
    np.testing.assert_array_equal(run(module, {"input": values})["y"], before)
    check(module, {"input": values})


@pytest.mark.parametrize("name", ["kws_w3a3", "cnv_w1a1", "cnv_w2a2"])
def test_networks_of_finn(name: str):
    """All layers with batch normalization compare sums with thresholds."""
    module = import_model(NETWORKS[name].build(NETWORKS[name].bits))
    before = module.clone()
    options = BuildOptions(find_target("c")()).resolved(module)
    run_stages(load_context(), module, front_stages(options))
    bits = NETWORKS[name].bits
    assert str(module).count("graph.threshold") == (3 if name.startswith("kws") else 8)
    assert f"!quant.uniform<i{bits}:f32" in str(module)
    x = inputs(name, 1)
    found, wanted = (next(iter(run(m, {"input": x}).values())) for m in (module, before))
    error = np.abs(found.astype(np.float64) - wanted.astype(np.float64)).max()
    # The last layer of the keyword spotter is a float product, whose sums are rounded.
    assert error <= (1e-6 if name.startswith("kws") else 0)
    check(module, {"input": x}, flags=BUILDS["tiles"])


@pytest.mark.parametrize("name", ["kws_w3a3", "cnv_w1a1", "cnv_w2a2"])
def test_execution_by_qonnx(name: str):
    """The compiled networks give the results of pip's qonnx."""
    pytest.importorskip("qonnx", reason="compares with pip's qonnx")
    proto = NETWORKS[name].build(NETWORKS[name].bits)
    wrapper = import_module("qonnx.core.modelwrapper").ModelWrapper(proto)
    shaped = wrapper.transform(import_module("qonnx.transformation.infer_shapes").InferShapes())
    module = import_model(proto)
    options = BuildOptions(find_target("c")()).resolved(module)
    run_stages(load_context(), module, front_stages(options))
    for x in inputs(name, 3)[:, None]:
        results = import_module("qonnx.core.onnx_exec").execute_onnx(shaped, {"input": x})
        error = np.abs(
            next(iter(run(module, {"input": x}).values())) - next(iter(results.values()))
        )
        assert error.max() <= (1e-6 if name.startswith("kws") else 0)
