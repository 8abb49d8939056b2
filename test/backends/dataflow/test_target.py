"""Check target dataflow on the command line: files, reports and refusals."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from conftest import Tool
from dataflow_circuits import needs_verilator
from finn_networks import QuantizedBuilder
from onnx import ModelProto, NodeProto
from onnx_models import model, node, norm_parameters, weights

MODELS = Path(__file__).parents[4] / "shared" / "models"


def network(kind: str = "Relu") -> ModelProto:
    """Return a network of a convolution, a function, maximum pooling and a matrix product."""
    rng = np.random.default_rng(0)
    return model(
        [
            node("Conv", "x w b", "y", "wide", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            node(kind, "y", "z", "function"),
            node("MaxPool", "z", "p", "maxima", kernel_shape=[2, 2], strides=[2, 2]),
            node("Flatten", "p", "f", "flat"),
            node("Gemm", "f v", "s", "scores", transB=1),
        ],
        {"x": (1, 2, 6, 6)},
        ["s"],
        {"w": weights(rng, 4, 2, 3, 3), "b": weights(rng, 4), "v": weights(rng, 5, 36)},
    )


@pytest.fixture
def net(tmp_path: Path) -> str:
    (tmp_path / "net.onnx").write_bytes(network().SerializeToString())
    return "net.onnx"


@pytest.mark.slow
def test_layers_of_one_node_have_figures_of_their_own(tool: Tool, tmp_path: Path):
    """A fused function is a table after the convolution, with the name of the convolution."""
    (tmp_path / "net.onnx").write_bytes(network("Sigmoid").SerializeToString())
    done = tool("ceras-compile", "net.onnx", "--target", "dataflow", "--dsp", "64", "-o", "out")
    assert done.status == 0, done.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    there = [layer for layer in report["layers"] if layer["device"] == "dataflow"]
    assert [layer["op"] for layer in there if layer["name"] == "wide"] == ["conv2d", "lookup"]
    assert all(layer["cycles"] > 0 for layer in there if layer["op"] == "conv2d")
    parts = sum(layer.get("multipliers", 0) for layer in there)
    assert parts == report["totals"]["estimated"]["dsp"]


@pytest.mark.slow
def test_a_folder_is_a_project(tool: Tool, tmp_path: Path, net: str):
    done = tool("ceras-compile", net, "--target", "dataflow", "--dsp", "16", "-o", "out")
    assert done.status == 0, done.stderr
    out = tmp_path / "out"
    sources = {path.name for path in (out / "hdl").glob("*.sv")}
    assert {"pipeline.sv", "convolution.sv", "max_pool.sv"} <= sources
    top = (out / "hdl" / "pipeline.sv").read_text()
    for memory in (out / "hdl").glob("*.mem"):
        assert f'"{memory.name}"' in top
    report = json.loads((out / "report.json").read_text())
    totals = report["totals"]
    assert totals["estimated"]["dsp"] <= 16 and "yosys" not in totals
    assert 0 < totals["cycles_per_frame"] <= totals["latency_cycles"]
    waiting = tool("ceras-run", "out", "--stall", "100", "--inputs", "x.npz", "--outputs", "y.npz")
    assert waiting.status == 2 and "--stall must be in [0, 100)" in waiting.stderr
    layers = {layer["name"]: layer for layer in report["layers"] if layer["device"] == "dataflow"}
    assert {"wide", "maxima", "scores"} <= set(layers)
    assert layers["wide"]["cycles"] <= totals["cycles_per_frame"]
    assert (
        sum(layer.get("multipliers", 0) for layer in layers.values()) == totals["estimated"]["dsp"]
    )


@needs_verilator
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "bits"), [("Relu", 8), ("Relu", 3), ("Sigmoid", 8)])
def test_levels_and_the_circuit_agree(tool: Tool, tmp_path: Path, kind: str, bits: int):
    (tmp_path / "net.onnx").write_bytes(network(kind).SerializeToString())
    options = ["--targets", "c,dataflow", "--dsp", "16", "--stall", "40", "--seed", "3"]
    # Few bits are exact, but not accurate.
    options += ["--weight-bits", str(bits), "--floor", "-20"] * (bits < 8)
    done = tool("ceras-verify", "net.onnx", *options)
    assert done.status == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["dataflow:", "machine", "exact"] in lines and ["c:", "machine", "exact"] in lines


@needs_verilator
@pytest.mark.slow
def test_a_compiled_folder_runs(tool: Tool, tmp_path: Path, net: str):
    x = np.random.default_rng(1).normal(size=(3, 2, 6, 6)).astype(np.float32)
    np.savez(tmp_path / "in.npz", x=x)
    calibration = ["--calibrate", "in.npz"]
    compiled = ["--target", "dataflow", "--dsp", "16", *calibration, "-o", "out"]
    assert tool("ceras-compile", net, *compiled).status == 0
    ends = ["--inputs", "in.npz", "--outputs"]
    done = tool("ceras-run", "out", *ends, "circuit.npz")
    assert done.status == 0, done.stderr
    assert tool("ceras-run", net, *calibration, "--target", "vta", *ends, "vta.npz").status == 0
    a, b = (np.load(tmp_path / f"{name}.npz")["s"] for name in ("circuit", "vta"))
    assert a.shape == (3, 5)
    # Other scales, so that only the network is the same.
    assert np.abs(a - b).max() < 0.2 * np.abs(b).max()


def inverted_residuals() -> ModelProto:
    """Build a small MobileNetV2: depthwise layers between products, with and without a residual."""
    rng = np.random.default_rng(3)
    nodes: list[NodeProto] = []
    tensors: dict[str, npt.ArrayLike] = {"low": np.float32(0), "high": np.float32(6)}

    def layer(x: str, y: str, kernel: int, shape: tuple[int, int], stride: int = 1, end: str = ""):
        """Append convolution, normalization and, unless the block is linear, ReLU6."""
        outputs, inputs = shape
        tensors[f"{y}_w"] = weights(rng, outputs, inputs, kernel, kernel)
        size = {"kernel_shape": [kernel] * 2, "pads": [kernel // 2] * 4, "strides": [stride] * 2}
        group = outputs if inputs == 1 else 1
        nodes.append(node("Conv", f"{x} {y}_w", f"{y}_c", y, group=group, **size))
        names = [f"{y}_{part}" for part in ("scale", "shift", "mean", "variance")]
        tensors.update(zip(names, norm_parameters(rng, outputs), strict=True))
        sums = y if end == "linear" else f"{y}_n"
        nodes.append(node("BatchNormalization", " ".join([f"{y}_c", *names]), sums))
        if sums != y:
            nodes.append(node("Clip", f"{sums} low high", y))

    layer("x", "stem", 3, (8, 3), stride=2)
    layer("stem", "depth0", 3, (8, 1))
    layer("depth0", "narrow0", 1, (8, 8), end="linear")
    layer("narrow0", "wide1", 1, (24, 8))
    layer("wide1", "depth1", 3, (24, 1))
    layer("depth1", "narrow1", 1, (8, 24), end="linear")
    nodes.append(node("Add", "narrow1 narrow0", "sum1"))
    layer("sum1", "wide2", 1, (24, 8))
    layer("wide2", "depth2", 3, (24, 1), stride=2)
    layer("depth2", "narrow2", 1, (12, 24), end="linear")
    layer("narrow2", "head", 1, (20, 12))
    tensors["v"] = weights(rng, 5, 20)
    nodes += [
        node("GlobalAveragePool", "head", "mean"),
        node("Flatten", "mean", "flat"),
        node("Gemm", "flat v", "y", transB=1),
    ]
    return model(nodes, {"x": (1, 3, 16, 16)}, ["y"], tensors)


def report_of_exact(network: ModelProto, tool: Tool, folder: Path) -> dict[str, Any]:
    """Check that the circuit of `network` is exact under stalls, and return its report."""
    (folder / "net.onnx").write_bytes(network.SerializeToString())
    options = ["--targets", "dataflow", "--dsp", "60", "--stall", "30", "--seed", "0"]
    done = tool("ceras-verify", "net.onnx", *options)
    assert done.status == 0, done.stdout + done.stderr
    assert ["dataflow:", "machine", "exact"] in [line.split() for line in done.stdout.splitlines()]
    done = tool("ceras-compile", "net.onnx", "--target", "dataflow", "--dsp", "60", "-o", "out")
    assert done.status == 0, done.stderr
    return json.loads((folder / "out" / "report.json").read_text())


@needs_verilator
@pytest.mark.slow
def test_depthwise_layers(tool: Tool, tmp_path: Path):
    """All layers have blocks, and the circuit computes the integers of the quantized graph."""
    report = report_of_exact(inverted_residuals(), tool, tmp_path)
    devices = {layer["name"]: layer["device"] for layer in report["layers"]}
    for name in ("stem", "depth0", "depth1", "depth2", "head"):
        assert devices[name] == "dataflow"


def neck() -> ModelProto:
    """
    Build a neck with an output for each of two scales: halves of channels, three joined streams, a
    repeated map.
    """
    rng = np.random.default_rng(4)
    nodes: list[NodeProto] = []
    tensors: dict[str, npt.ArrayLike] = {
        "scales": np.array([1, 1, 2, 2], np.float32),
        "half": np.array([4, 4], np.int64),
    }

    def layer(x: str, y: str, shape: tuple[int, int], kernel: int = 3, stride: int = 1):
        tensors[f"{y}_w"] = weights(rng, *shape, kernel, kernel)
        size = {"kernel_shape": [kernel] * 2, "pads": [kernel // 2] * 4, "strides": [stride] * 2}
        nodes.append(node("Conv", f"{x} {y}_w", f"{y}_c", y, **size))
        nodes.append(node("Relu", f"{y}_c", y))

    layer("x", "fine", (6, 3))
    layer("fine", "coarse", (8, 6), stride=2)
    nodes.append(node("Split", "coarse half", "kept changed", "halves", axis=1))
    layer("changed", "inner", (4, 4))
    nodes.append(node("Concat", "kept changed inner", "three", "three", axis=1))
    layer("three", "mixed", (6, 12), kernel=1)
    resized = {"mode": "nearest", "nearest_mode": "floor"}
    mode = {"coordinate_transformation_mode": "asymmetric"}
    nodes.append(node("Resize", "mixed - scales", "large", "large", **resized, **mode))
    nodes.append(node("Concat", "large fine", "both", "both", axis=1))
    layer("both", "head", (5, 12))
    layer("head", "y", (4, 5), stride=2)
    layer("mixed", "z", (3, 6))
    return model(nodes, {"x": (1, 3, 12, 12)}, ["y", "z"], tensors)


@needs_verilator
@pytest.mark.slow
def test_a_neck(tool: Tool, tmp_path: Path):
    """All layers are in the circuit, and each result leaves through a port."""
    report = report_of_exact(neck(), tool, tmp_path)
    inside = [layer["op"] for layer in report["layers"] if layer["device"] == "dataflow"]
    assert [inside.count(op) for op in ("conv2d", "concat", "slice", "resize")] == [7, 2, 2, 1]
    entry = json.loads((tmp_path / "out" / "manifest.json").read_text())["dataflow"]
    assert [port[1:] for port in entry["outputs"]] == [[6, 6, 4], [6, 6, 3]]
    layers = [layer for layer in report["layers"] if layer["device"] == "dataflow"]
    assert sum(layer["memories"] for layer in layers) == report["totals"]["estimated"]["ram18"]


@needs_verilator
@pytest.mark.slow
def test_functions_of_channels(tool: Tool, tmp_path: Path):
    """Functions with a table per channel are in the circuit, and all values have 8 bits."""
    rng = np.random.default_rng(5)
    scale = (2.0 ** rng.uniform(-2, 2, (6, 1, 1, 1))).astype(np.float32)
    window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    proto = model(
        [
            node("Conv", "x w", "y", "wide", **window),
            node("Sigmoid", "y", "z", "gate"),
            node("Mul", "y z", "s", "silu"),
            node("Conv", "s d", "t", "deep", group=6, **window),
            node("Relu", "t", "u"),
            node("Conv", "u v", "o", "last", kernel_shape=[1, 1]),
        ],
        {"x": (1, 2, 6, 6)},
        ["o"],
        {
            "w": weights(rng, 6, 2, 3, 3) * scale,
            "d": weights(rng, 6, 1, 3, 3),
            "v": weights(rng, 3, 6, 1, 1),
        },
    )
    (tmp_path / "net.onnx").write_bytes(proto.SerializeToString())
    np.savez(tmp_path / "x.npz", x=rng.normal(size=(12, 2, 6, 6)).astype(np.float32))
    options = ["--calibrate", "x.npz", "--dsp", "40"]
    run = ["--targets", "dataflow", "--stall", "30", "--seed", "0"]
    done = tool("ceras-verify", "net.onnx", *options, *run)
    assert done.status == 0, done.stdout + done.stderr
    done = tool("ceras-compile", "net.onnx", "--target", "dataflow", *options, "-o", "out")
    assert done.status == 0, done.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    devices = [(layer["op"], layer["device"]) for layer in report["layers"]]
    for op in ("conv2d", "lookup"):
        assert {device for name, device in devices if name == op} == {"dataflow"}
    assert any((tmp_path / "out" / "hdl").glob("*_numbers.mem"))


@needs_verilator
@pytest.mark.slow
def test_long_rows(tool: Tool, tmp_path: Path):
    """Rows of 1100 columns become columns of the circuit; windows and factors differ by axis."""
    rng = np.random.default_rng(6)
    resized = {"mode": "nearest", "nearest_mode": "floor"}
    mode = {"coordinate_transformation_mode": "asymmetric"}
    proto = model(
        [
            node("Conv", "x w", "y", "tall", kernel_shape=[2, 5], pads=[1, 2, 0, 2]),
            node("Relu", "y", "z"),
            node("MaxPool", "z", "p", "maxima", kernel_shape=[1, 4], strides=[1, 4]),
            node("Slice", "p begin end axes", "s", "part"),
            node("Resize", "s - scales", "r", "wide", **resized, **mode),
            node("Conv", "r v", "t", "last", kernel_shape=[3, 2], strides=[1, 3]),
        ],
        {"x": (1, 2, 3, 1100)},
        ["t"],
        {
            "w": weights(rng, 4, 2, 2, 5),
            "v": weights(rng, 3, 4, 3, 2),
            "begin": np.array([5]),
            "end": np.array([260]),
            "axes": np.array([3]),
            "scales": np.array([1, 1, 1, 2], np.float32),
        },
    )
    report_of_exact(proto, tool, tmp_path)
    entry = json.loads((tmp_path / "out" / "manifest.json").read_text())["dataflow"]
    assert entry["turned"] and entry["input"][1:] == [1100, 3, 2]
    assert [port[1:] for port in entry["outputs"]] == [[170, 1, 3]]


NETWORKS = {
    "mnist_conv": ["--dsp", "40"],
    "resnet8_float": ["--dsp", "120"],
}


@needs_verilator
@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_real_networks(tool: Tool, name: str):
    """The networks have pooling, residuals, a sum of two paths, and an average."""
    path = MODELS / f"{name}.onnx"
    if not path.exists():
        pytest.skip("the models are not there")
    options = ["--targets", "dataflow", "--stall", "20", *NETWORKS[name]]
    done = tool("ceras-verify", path, *options)
    assert done.status == 0, done.stdout + done.stderr
    assert ["dataflow:", "machine", "exact"] in [line.split() for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--board", "none"], 2, "target dataflow has no board 'none'"),
        (["--dsp", "0", "--board", "none"], 2, "target dataflow has no board 'none'"),
        (["--jobs", "0"], 2, "--jobs is an option of target vta, not dataflow"),
        (["--dsp", "many"], 2, "expected an integer, got 'many'"),
        (["--dsp", "-1"], 2, "--dsp must be >= 0, got -1"),
        (["--dsp", "1"], 3, "unsupported: the network needs at least"),
    ],
)
def test_refusals(
    tool: Tool, tmp_path: Path, net: str, options: list[str], status: int, message: str
):
    done = tool("ceras-compile", net, "--target", "dataflow", *options, "-o", "out")
    assert done.status == status, done.stderr
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_layer_without_a_block_is_named(tool: Tool, tmp_path: Path):
    """Without a pipeline, the message has the reason for each operation."""
    proto = model([node("Softmax", "x", "y", "soft", axis=1)], {"x": (1, 8)}, ["y"])
    (tmp_path / "net.onnx").write_bytes(proto.SerializeToString())
    done = tool("ceras-compile", "net.onnx", "--target", "dataflow", "-o", "out")
    assert done.status == 3
    assert "node 'soft'" in done.stderr and "unsupported as a block" in done.stderr


def test_a_damaged_manifest_is_refused(tool: Tool, tmp_path: Path, net: str):
    assert tool("ceras-compile", net, "--target", "dataflow", "-o", "out").status == 0
    np.savez(tmp_path / "in.npz", x=np.zeros((1, 2, 6, 6), np.float32))
    path = tmp_path / "out" / "manifest.json"
    content = json.loads(path.read_text())
    for key, value, message in (
        ("folder", "../hdl", "'folder' must be inside the compiled folder"),
        ("input", [0, 1], "must be four numbers"),
        ("outputs", None, "must be four numbers"),
        ("outputs", [[0, 1, 1]], "must be four numbers"),
        ("port_bytes", 0, "'port_bytes' must be in [1, 64]"),
    ):
        path.write_text(json.dumps(content | {"dataflow": content["dataflow"] | {key: value}}))
        done = tool("ceras-run", "out", "--inputs", "in.npz", "--outputs", "out.npz")
        assert done.status == 1 and message in done.stderr, done.stderr


def few_bits(bits: int) -> ModelProto:
    """
    Return two convolutions and two products with weights and activations of `bits` bits and batch
    normalization. Activations are unsigned after the first, and their scale is no power of two.
    """
    b = QuantizedBuilder(bits)
    x, channels = b.quantized("input", "image", 8, 2.0**-7, narrow=False), 2
    for i in range(2):
        w = b.weights(f"conv{i}", (5, channels, 3, 3), bits, 0.3)
        x = b.norm(b.node("Conv", f"conv{i}", [x, w], kernel_shape=[3, 3]), f"n{i}", 5, 1.0)
        x = b.quantized(x, f"act{i}", bits, 0.7, signed=bits == 1 or i == 0)
        if i == 0:
            x = b.node("MaxPool", "pool", [x], kernel_shape=[2, 2], strides=[2, 2])
        channels = 5
    x = b.node("Flatten", "flatten", [x])
    for i, out in enumerate((6, 3)):
        x = b.node("MatMul", f"fc{i}", [x, b.weights(f"fc{i}", (channels, out), bits, 1.0)])
        x = b.quantized(b.norm(x, f"m{i}", out, 2.0), f"act{i + 2}", bits, 1.0)
        channels = out
    return b.network((1, 2, 8, 8), x, 3)


@needs_verilator
@pytest.mark.slow
@pytest.mark.parametrize("bits", [1, 2, 3])
def test_few_bits(tool: Tool, tmp_path: Path, bits: int):
    """All layers are in the circuit, with streams of few bits, and all levels are equal."""
    (tmp_path / "net.onnx").write_bytes(few_bits(bits).SerializeToString())
    options = ["--target", "dataflow", "--board", "pynq_z2"]
    done = tool("ceras-compile", "net.onnx", *options, "-o", "out")
    assert done.status == 0, done.stderr
    layers = json.loads((tmp_path / "out" / "report.json").read_text())["layers"]
    linear = [layer for layer in layers if layer["op"] in ("conv2d", "matmul", "threshold")]
    assert len(linear) == 8 and {layer["device"] for layer in linear} == {"dataflow"}
    assert all(layer.get("multipliers", 0) == 0 for layer in linear)
    options = ["--targets", "c,dataflow", "--stall", "40", "--floor", "-1000"]
    done = tool("ceras-verify", "net.onnx", *options)
    assert done.status == 0, done.stdout + done.stderr
    assert ["dataflow:", "machine", "exact"] in [line.split() for line in done.stdout.splitlines()]
