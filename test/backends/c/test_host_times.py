"""Check predicted times on a computer: bytes that the cache does not hold are loaded."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from ceras_ir.backends.c.target import CTarget
from ceras_ir.pipeline.build import build
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions

INPUTS, OUTPUTS = 96, 80
BOARD = """\
title = "Test"
compiler = "cc"
flags = []
products_per_us = 1000
bytes_per_us = 1000
cache_bytes = {}
memory_bytes_per_us = 50
"""


def times(folder: Path, cache_bytes: int) -> dict[str, float]:
    """Return the predicted microseconds of the layers of two matrix products, by name."""
    rng = np.random.default_rng(0)
    constants = [
        numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name)
        for name, shape in (("v", (INPUTS, OUTPUTS)), ("w", (OUTPUTS, INPUTS)))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "v"], ["hidden"], "first"),
        helper.make_node("MatMul", ["hidden", "w"], ["y"], "second"),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, INPUTS]) for n in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=9)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    (folder / "board.toml").write_text(BOARD.format(cache_bytes))
    options = BuildOptions(CTarget(board=str(folder / "board.toml")), quantize="none")
    layers = build(read_network(str(folder / "m.onnx")), options).report["layers"]
    assert isinstance(layers, list)
    rows = cast("list[dict[str, Any]]", layers)
    return {layer["name"]: layer["microseconds"] for layer in rows}


def test_weights_beyond_the_cache_are_loaded_in_each_run(tmp_path: Path) -> None:
    """The input of the network is loaded too, and the hidden values are not."""
    all_bytes = 4 * 2 * INPUTS * OUTPUTS
    fast, slow = times(tmp_path, 16 * all_bytes), times(tmp_path, 2 * all_bytes // 3)
    weights = 4 * INPUTS * OUTPUTS / 50
    assert slow["second"] - fast["second"] == pytest.approx(weights, abs=0.01)
    assert slow["first"] - fast["first"] == pytest.approx(weights + 4 * INPUTS / 50, abs=0.01)
    # A product of floats takes more than three products of bytes.
    assert fast["first"] > 3 * INPUTS * OUTPUTS / 1000
