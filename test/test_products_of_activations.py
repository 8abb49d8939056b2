"""Products of two activations, and of a constant with one, in integers on every target."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Tool
from onnx_models import model, node

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
    """A hidden state of zeros times weights, and a constant times what is computed."""
    nodes = [
        node("MatMul", "x w", "a"),
        node("MatMul", "zero w", "b"),
        node("Add", "a b", "c"),
        node("MatMul", "mix c", "y"),
    ]
    tensors = {"w": WEIGHTS[0], "zero": np.zeros((1, 8), np.float32), "mix": WEIGHTS[1]}
    return model(nodes, {"x": (8, 8)}, ["y"], tensors).SerializeToString()


@pytest.mark.slow
@pytest.mark.parametrize("build", [attention, first_constant])
def test_exact_everywhere(build: Callable[[], bytes], tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(build())
    shape = (40, 19, 8) if build is attention else (40, 8, 8)
    data = np.random.default_rng(2).uniform(-1, 1, shape).astype(np.float32)
    np.savez(tmp_path / "c.npz", x=data)
    done = tool("ceras-verify", "m.onnx", "--calibrate", "c.npz", "--targets", "c,nnet,vta")
    assert done.status == 0, done.stderr
    assert "differs" not in done.stdout and done.stdout.count("machine") == 3
