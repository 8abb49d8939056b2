"""
Compile a network with SiLU, a depthwise layer, an addition and an average, from ONNX to the stream.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from ceras_ir.driver.compile import main as compile_main
from ceras_ir.driver.verify.tool import main as verify_main

pytestmark = pytest.mark.slow

SLOW_HOST = {"HOST_MACS_PER_US": 1, "HOST_BYTES_PER_US": 1}
"""With such a slow CPU, all operations are faster on VTA."""


@pytest.fixture(name="model")
def _model(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    shapes = {"w1": (20, 3, 3, 3), "w2": (20, 1, 3, 3), "w3": (8, 20, 1, 1), "w4": (10, 8)}
    constants = [
        numpy_helper.from_array((0.3 * rng.normal(size=shape)).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1"], ["a"], name="stem", pads=[1] * 4),
        node("Sigmoid", ["a"], ["b"], name="stem_sigmoid"),
        node("Mul", ["a", "b"], ["c"], name="stem_swish"),
        node("Conv", ["c", "w2"], ["d"], name="depthwise", group=20, pads=[1] * 4),
        node("Sigmoid", ["d"], ["e"], name="depthwise_sigmoid"),
        node("Mul", ["d", "e"], ["f"], name="depthwise_swish"),
        node("Add", ["c", "f"], ["g"], name="sum"),
        node("Conv", ["g", "w3"], ["h"], name="pointwise"),
        node("GlobalAveragePool", ["h"], ["i"], name="average"),
        node("Flatten", ["i"], ["j"], name="flatten"),
        node("Gemm", ["j", "w4"], ["y"], name="classifier", transB=1),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 7, 7])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])
    graph = helper.make_graph(nodes, "silu", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (path := tmp_path / "silu.onnx").write_bytes(model.SerializeToString())
    samples = rng.normal(size=(4, 3, 7, 7)).astype(np.float32)
    np.savez(tmp_path / "samples.npz", x=samples)
    return path


def slow_host(folder: Path) -> str:
    """Write a board file with the usual buffers and a slow CPU."""
    from ceras_ir.backends.vta.machine.board import load_board

    path = folder / "slow_host.json"
    path.write_text(json.dumps(load_board("de10nano").config() | SLOW_HOST))
    return str(path)


def arguments(model: Path, *more: str) -> list[str]:
    data = str(model.parent / "samples.npz")
    return [str(model), "--recipe", "none", "--calibrate", data, *more]


@pytest.mark.parametrize("silu", ["piecewise", "table"])
def test_every_level(model: Path, silu: str):
    """Check the board with a fast CPU, and the board on which VTA runs almost all operations."""
    for board in ("de10nano", slow_host(model.parent)):
        options = ["--silu", silu, "--targets", "vta", "--board", board, "--samples", "1"]
        assert verify_main(arguments(model, *options)) == 0


def test_the_model_chooses(model: Path):
    """
    The ALU is chosen if the host is slow, and tables if it is fast; `ceras-verify` chooses the
    same.
    """
    folder, slow = model.parent / "chosen", slow_host(model.parent)
    for board, op in ((slow, "shift_swish"), ("de10nano", "lookup")):
        options = ["--target", "vta", "-o", str(folder), "--board", board]
        assert compile_main(arguments(model, *options)) == 0
        layers = json.loads((folder / "report.json").read_text())["layers"]
        assert [layer["op"] for layer in layers if layer["op"] in ("shift_swish", "lookup")] == [
            op,
            op,
        ]
    options = ["--targets", "nnet,vta", "--board", slow, "--samples", "1"]
    assert verify_main(arguments(model, *options)) == 0


def test_each_target_is_offered_its_own(model: Path, capsys: pytest.CaptureFixture[str]):
    """
    The board of VTA does not describe the FPGA of nnet, which has other passes: there are two
    networks.
    """
    data, slow = str(model.parent / "samples.npz"), slow_host(model.parent)
    options = ["--calibrate", data, "--targets", "nnet,vta", "--board", slow, "--samples", "1"]
    assert verify_main([str(model), *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("quantized graph") for line in lines) == 2


@pytest.mark.parametrize("way", ["im2col", "kn2row"])
def test_convolutions_at_every_level(model: Path, way: str, capsys: pytest.CaptureFixture[str]):
    options = ["--targets", "vta", "--board", "de10nano", "--samples", "1", "--convolution", way]
    assert verify_main(arguments(model, *options)) == 0
    assert "vta: machine                     exact" in capsys.readouterr().out


def test_report_says_what_both_sides_take(model: Path):
    folder = model.parent / "out"
    options = ["--silu", "piecewise", "--target", "vta", "-o", str(folder)]
    assert compile_main(arguments(model, *options, "--board", slow_host(model.parent))) == 0
    layers = json.loads((folder / "report.json").read_text())["layers"]
    on_vta = [layer["op"] for layer in layers if layer["device"] == "vta"]
    swished = ["conv2d", "shift_swish"]
    expected = [*swished, *swished, "binary add", "conv2d", "pool2d average", "matmul"]
    assert on_vta == expected
    for layer in layers:
        if layer["op"] == "shift_swish":
            assert "swish by the ALU" in layer["modelled"] and "cycles" not in layer
        elif layer["device"] == "vta":
            assert layer["cycles"] > 0
