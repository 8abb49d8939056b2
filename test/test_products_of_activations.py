"""Compute products of two activations, or of a constant and one, in integers on all targets."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from attention_networks import heads
from conftest import Tool
from onnx_models import model, node
from onnx_random import random_network
from quantized_by_hand import trace, wrong_elements

import ceras_ir as ceras
from ceras_ir.data.array_archive import save_arrays
from ceras_ir.dialects import graph
from ceras_ir.driver.verify.tool import main as verify
from ceras_ir.network.function import main_function

WEIGHTS = np.random.default_rng(0).uniform(-1, 1, (3, 8, 8)).astype(np.float32)


def attention() -> bytes:
    nodes = [
        node("MatMul", "x wq", "q"),
        node("MatMul", "x wk", "k"),
        node("Transpose", "k", "kt", perm=[0, 2, 1]),
        node("MatMul", "q kt", "s"),
        node("Softmax", "s", "p", axis=-1),
        node("MatMul", "p k", "o"),
        node("MatMul", "o wo", "y"),
    ]
    weights = {"wq": WEIGHTS[0], "wk": WEIGHTS[1], "wo": WEIGHTS[2]}
    return model(nodes, {"x": (1, 19, 8)}, ["y"], weights).SerializeToString()


def first_constant() -> bytes:
    """Multiply a hidden state of zeros by weights, and a constant by a computed value."""
    nodes = [
        node("MatMul", "x w", "a"),
        node("MatMul", "zero w", "b"),
        node("Add", "a b", "c"),
        node("MatMul", "mix c", "y"),
    ]
    tensors = {"w": WEIGHTS[0], "zero": np.zeros((1, 8), np.float32), "mix": WEIGHTS[1]}
    return model(nodes, {"x": (8, 8)}, ["y"], tensors).SerializeToString()


def transformer(*, embedded: bool = False) -> bytes:
    """
    Build a block as exporters write it: normalization, attention, residual, GELU.

    If `embedded`, the block follows a product; otherwise it starts with the graph input, which is
    normalized in float.
    """
    random = np.random.default_rng(3)
    nodes = [
        node("MatMul", "x we", "h") if embedded else node("Identity", "x", "h"),
        node("LayerNormalization", "h g b", "n"),
        node("MatMul", "n wq", "q"),
        node("MatMul", "n wk", "k"),
        node("Transpose", "k", "kt", perm=[0, 2, 1]),
        node("MatMul", "q kt", "s"),
        node("Softmax", "s", "p", axis=-1),
        node("MatMul", "p k", "o"),
        node("Add", "h o", "r"),
        node("MatMul", "r w1", "f"),
        node("Div", "f root", "d"),
        node("Erf", "d", "e"),
        node("Add", "e one", "c"),
        node("Mul", "f c", "m"),
        node("Mul", "m half", "a"),
        node("MatMul", "a wo", "y"),
    ]
    tensors = {
        "we": np.eye(8, dtype=np.float32),
        "g": random.uniform(0.5, 2, 8).astype(np.float32),
        "b": random.uniform(-1, 1, 8).astype(np.float32),
        "wq": WEIGHTS[0],
        "wk": WEIGHTS[1],
        "w1": WEIGHTS[2],
        "wo": WEIGHTS[0].T.copy(),
        "root": np.float32(2) ** np.float32(0.5) * np.ones((), np.float32),
        "one": np.ones((), np.float32),
        "half": np.full((), 0.5, np.float32),
    }
    return model(nodes, {"x": (1, 19, 8)}, ["y"], tensors, opset=17).SerializeToString()


def root_mean_square() -> bytes:
    nodes = [
        node("Mul", "x x", "s"),
        node("ReduceMean", "s", "m", axes=[-1]),
        node("Add", "m e", "v"),
        node("Sqrt", "v", "d"),
        node("Div", "x d", "n"),
        node("Mul", "n g", "o"),
        node("MatMul", "o w", "y"),
    ]
    tensors = {
        "e": np.full((), 1e-5, np.float32),
        "g": np.linspace(0.5, 2, 8).astype(np.float32),
        "w": WEIGHTS[0],
    }
    return model(nodes, {"x": (1, 19, 8)}, ["y"], tensors).SerializeToString()


@pytest.mark.slow
def test_transformers_are_whole_in_integers(tmp_path: Path):
    (tmp_path / "m.onnx").write_bytes(transformer(embedded=True))
    data = np.random.default_rng(2).uniform(-1, 1, (40, 19, 8)).astype(np.float32)
    network = ceras.load(tmp_path / "m.onnx")
    quantized = network.quantize(data, target="c")
    module = quantized.module
    operations = list(main_function(module).body.block.ops)
    floats = [op.name for op in operations if isinstance(op, graph.QuantizeOp | graph.DequantizeOp)]
    assert floats == ["graph.quantize", "graph.dequantize"]
    kinds = {op.name for op in operations}
    assert {"graph.integer_normalize", "graph.integer_softmax", "graph.lookup"} <= kinds
    in_float = network.quantize(data, target="c", rows="float")
    assert any(op.name == "graph.normalize" for op in main_function(in_float.module).walk())
    samples = np.random.default_rng(5).uniform(-1, 1, (8, 1, 19, 8)).astype(np.float32)
    for sample in samples:
        real = network.run(sample)["y"]
        values = trace(module, {"x": sample})
        rows = (graph.IntegerNormalizeOp, graph.IntegerSoftmaxOp)
        for op in operations:
            assert not isinstance(op, rows) or not list(wrong_elements(op, values, 20))
        for stored in (quantized, in_float):
            error = np.subtract(stored.run(sample)["y"], real)
            assert np.square(error).sum() < 10**-2 * np.square(real).sum()


@pytest.mark.needs("nnet", "vta")
@pytest.mark.slow
@pytest.mark.parametrize("build", [attention, first_constant, transformer, root_mean_square])
def test_exact_everywhere(build: Callable[[], bytes], tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(build())
    shape = (40, 8, 8) if build is first_constant else (40, 19, 8)
    data = np.random.default_rng(2).uniform(-1, 1, shape).astype(np.float32)
    np.savez(tmp_path / "c.npz", x=data)
    done = tool("ceras-verify", "m.onnx", "--calibrate", "c.npz", "--targets", "c,nnet,vta")
    assert done.status == 0, done.stderr
    assert "differs" not in done.stdout and done.stdout.count("machine") == 3


@pytest.mark.needs("vta")
@pytest.mark.slow
@pytest.mark.parametrize(("tokens", "count", "width"), [(20, 2, 16), (197, 2, 32)], ids=str)
def test_heads_run_on_vta(tokens: int, count: int, width: int, tool: Tool, tmp_path: Path) -> None:
    """Check that both products of each head are exact at all levels, and faster than on the CPU."""
    (tmp_path / "m.onnx").write_bytes(heads(tokens, count, width))
    data = np.random.default_rng(2).normal(0, 1, (40, tokens, count * width))
    np.savez(tmp_path / "c.npz", x=data.astype(np.float32))
    done = tool("ceras-verify", "m.onnx", "--calibrate", "c.npz", "--targets", "vta")
    assert done.status == 0 and "differs" not in done.stdout, done.stdout
    options = ("--target", "vta", "--calibrate", "c.npz", "--budget", "0", "-o", "out")
    done = tool("ceras-compile", "m.onnx", *options)
    assert done.status == 0, done.stderr
    layers = json.loads((tmp_path / "out/report.json").read_text())["layers"]
    products = [layer for layer in layers if layer["op"] == "matmul"]
    # Count the projections of all heads, and two products for each head.
    assert len(products) == 2 + 2 * count
    assert {layer["device"] for layer in products} == {"vta"}
    assert all(layer["cycles"] > 0 for layer in products)


@pytest.mark.needs("vta")
@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 2, 5, 8, 17])
def test_random_attention_on_vta(seed: int, tmp_path: Path) -> None:
    """Draw heads, masks and positions; some products are too small for VTA."""
    network = random_network(seed, steps=2, kinds=("attention", "convolution"))
    (tmp_path / "n.onnx").write_bytes(network.SerializeToString())
    shape = [d.dim_value for d in network.graph.input[0].type.tensor_type.shape.dim]
    data = np.random.default_rng(seed).uniform(-1, 2, (8, *shape[1:])).astype(np.float32)
    save_arrays(str(tmp_path / "n.npz"), {network.graph.input[0].name: data})
    options = ["--calibrate", str(tmp_path / "n.npz"), "--samples", "2", "--targets", "vta"]
    assert verify([str(tmp_path / "n.onnx"), *options, "--floor", "-100"]) == 0


@pytest.mark.needs("onnx")
@pytest.mark.slow
@pytest.mark.parametrize("build", [transformer, root_mean_square])
def test_rows_in_float_are_the_same_in_onnx(
    build: Callable[[], bytes], tool: Tool, tmp_path: Path
) -> None:
    (tmp_path / "m.onnx").write_bytes(build())
    data = np.random.default_rng(2).uniform(-1, 1, (40, 19, 8)).astype(np.float32)
    np.savez(tmp_path / "c.npz", x=data)
    done = tool("ceras-verify", "m.onnx", "--calibrate", "c.npz", "--targets", "onnx")
    assert done.status == 0, done.stderr
    assert "differs" not in done.stdout and done.stdout.count("machine") == 1
