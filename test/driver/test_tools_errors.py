"""Check the message and the status of errors in ceras-compile, ceras-run and ceras-verify."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from conftest import Result, Tool
from numpy.typing import NDArray
from onnx import TensorProto, helper
from onnx_models import conv_model

from ceras_ir.data.array_archive import save_arrays


def refused(done: Result, status: int, *words: str) -> None:
    """Check that the run has `status`, prints `words`, and prints no traceback."""
    assert done.status == status, done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 40
    for word in words:
        assert word in done.stderr
    assert done.stdout == ""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(conv_model((1, 2, 6, 6), 3, (3, 3)).SerializeToString())
    return path


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    path = tmp_path / "inputs.npz"
    np.savez(path, x=np.zeros((2, 2, 6, 6), np.float32))
    return path


def test_missing_model(tmp_path: Path, tool: Tool):
    out = tmp_path / "out"
    done = tool("ceras-compile", tmp_path / "none.onnx", "-o", out, "--target", "c")
    refused(done, 1, "none.onnx: error:")
    assert not out.exists()


def test_missing_folder(tmp_path: Path, inputs: Path, tool: Tool):
    (tmp_path / "compiled").mkdir()
    done = tool("ceras-run", "compild", "--inputs", inputs)
    refused(done, 1, "compild: error: expected a model ending in .onnx")
    assert done.stderr.endswith("; no such file or folder; did you mean 'compiled'?\n")


def test_truncated_model(tmp_path: Path, model: Path, tool: Tool):
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(model.read_bytes()[:-40])
    out = tmp_path / "out"
    done = tool("ceras-compile", cut, "-o", out, "--target", "c")
    refused(done, 1, "cut.onnx")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cut.onnx", "model.onnx"]


def test_empty_model(tmp_path: Path, tool: Tool):
    (tmp_path / "empty.onnx").touch()
    refused(tool("ceras-verify", tmp_path / "empty.onnx"), 1, "empty.onnx")


def test_all_unsupported_operators_at_once(tmp_path: Path, tool: Tool):
    graph = helper.make_graph(
        [
            helper.make_node("Multinomial", ["x"], ["a"], "first"),
            helper.make_node("Relu", ["a"], ["b"], "fine"),
            helper.make_node("NonZero", ["b"], ["y"], "second"),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4))],
        [helper.make_tensor_value_info("y", TensorProto.INT64, None)],
    )
    path = tmp_path / "odd.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    path.write_bytes(model.SerializeToString())
    done = tool("ceras-compile", path, "-o", tmp_path / "out", "--target", "c")
    refused(done, 3, "unsupported", "node 'first' (Multinomial)", "node 'second' (NonZero)")
    assert "fine" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_calibration_of_the_wrong_shape(tmp_path: Path, model: Path, tool: Tool):
    data = tmp_path / "data.npz"
    np.savez(data, x=np.zeros((4, 2, 6, 7), np.float32))
    done = tool(
        "ceras-compile", model, "-o", tmp_path / "out", "--target", "c", "--calibrate", data
    )
    refused(done, 1, "data.npz: error:", "'x'", "[4, 2, 6, 7]", "[N, 2, 6, 6]")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"y": np.zeros((2, 2, 6, 6))}, "no input is named 'y'"),
        ({}, "no array for input 'x'"),
        ({"x": np.zeros((0, 2, 6, 6))}, "no samples"),
        ({"x": np.zeros((2, 2, 6, 6), np.complex64)}, "complex64"),
    ],
)
def test_unfit_inputs(
    tmp_path: Path, model: Path, arrays: dict[str, NDArray[np.generic]], words: str, tool: Tool
):
    data = tmp_path / "data.npz"
    save_arrays(str(data), arrays)
    done = tool("ceras-run", model, "--inputs", data, "--outputs", tmp_path / "out.npz")
    refused(done, 1, "data.npz: error:", words)
    assert not (tmp_path / "out.npz").exists()


def test_a_constant_that_is_an_input(tmp_path: Path, tool: Tool):
    """Keras exports the mean of a normalization as an input."""
    (tmp_path / "n.mlir").write_text("""
        func.func @main(%x: tensor<1x4xf32> {graph.name = "x"},
            %mean: tensor<1x1xf32> {graph.name = "mean"}) -> tensor<1x4xf32> {
          %y = graph.binary sub %x, %mean
              : (tensor<1x4xf32>, tensor<1x1xf32>) -> tensor<1x4xf32>
          func.return %y : tensor<1x4xf32>
        }""")
    save_arrays(str(tmp_path / "x.npz"), {"x": np.ones((2, 4), np.float32)})
    done = tool("ceras-run", "n.mlir", "--inputs", "x.npz", "--outputs", "y.npz")
    refused(done, 1, "no array for input 'mean'; found x; if it is a constant, --set NAME=NUMBER")
    save_arrays(str(tmp_path / "mean.npz"), {"mean": np.ones((2, 1), np.float32)})
    done = tool("ceras-run", "n.mlir", "--inputs", "mean.npz", "--outputs", "y.npz")
    assert done.stderr.endswith("found mean: add an array 'x' of shape [N, 4]\n")


def test_inputs_that_are_no_archive(tmp_path: Path, model: Path, tool: Tool):
    data = tmp_path / "data.npz"
    for content in (b"not a zip file", b"\x08\x07\x12\x07pytorch"):  # ONNX files begin in this way.
        data.write_bytes(content)
        done = tool("ceras-run", model, "--inputs", data, "--outputs", tmp_path / "out.npz")
        refused(done, 1, "data.npz: error: not an .npz file")
        assert "Python objects" not in done.stderr


def test_pickles_are_not_loaded(tmp_path: Path, model: Path, tool: Tool):
    data = tmp_path / "data.npz"
    np.savez(data, x=np.array([{"a": 1}], object))
    plain = tmp_path / "plain.npz"
    plain.write_bytes(pickle.dumps({"a": 1}))
    for path in (data, plain):
        done = tool("ceras-run", model, "--inputs", path, "--outputs", tmp_path / "out.npz")
        refused(done, 1, f"{path.name}: error:", "it holds Python objects")


def test_output_folder_that_is_a_file(tmp_path: Path, model: Path, tool: Tool):
    (tmp_path / "out").write_text("precious")
    done = tool("ceras-compile", model, "-o", tmp_path / "out", "--target", "c")
    refused(done, 1, "out: error: is a file")
    assert (tmp_path / "out").read_text() == "precious"


def test_folder_that_is_not_ours(tmp_path: Path, inputs: Path, tool: Tool):
    done = tool("ceras-run", tmp_path, "--inputs", inputs, "--outputs", tmp_path / "out.npz")
    refused(done, 1, "manifest.json")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--target", "vta", "--quantize", "none"], "int8"),
        (["--target", "c", "--io", "int8", "--quantize", "none"], "--quantize int8"),
        (["--target", "cuda"], "unknown target 'cuda'"),
        (["--target", "C"], "(targets: arduino, c, dataflow, mlir, nnet, onnx, vta)"),
        pytest.param(
            ["--target", "interp"],
            "unknown target 'interp' (targets: arduino, c,",
            marks=pytest.mark.needs("dataflow", "nnet", "onnx", "vta"),
        ),
        (["--target", "c", "--batch", "0"], "at least 1"),
        (["--target", "c", "--batch", "x"], "at least 1, got 'x'"),
        ([], "--target"),
    ],
)
def test_wrong_usage(tmp_path: Path, model: Path, arguments: list[str], words: str, tool: Tool):
    done = tool("ceras-compile", model, "-o", tmp_path / "out", *arguments)
    refused(done, 2, words)


def test_a_folder_has_its_target(tmp_path: Path, inputs: Path, tool: Tool):
    out = tmp_path / "out.npz"
    done = tool("ceras-run", tmp_path, "--inputs", inputs, "--outputs", out, "--target", "c")
    refused(done, 2, "remove --target")


def test_a_folder_stays_as_it_was_compiled(tmp_path: Path, inputs: Path, tool: Tool):
    out = tmp_path / "out.npz"
    options = ["--inputs", inputs, "--outputs", out]
    refused(tool("ceras-run", tmp_path, *options, "--quantize", "none"), 2, "remove --quantize")
    refused(tool("ceras-run", tmp_path, *options, "--batch", "4"), 2, "remove --batch")


def test_broken_text(tmp_path: Path, inputs: Path, tool: Tool):
    path = tmp_path / "broken.mlir"
    path.write_text("func.func @main(%x: tensor<4xf32>) {\n  %0 = graph.nothing %x\n}\n")
    done = tool("ceras-run", path, "--inputs", inputs, "--outputs", tmp_path / "out.npz")
    refused(done, 1, "broken.mlir:2:")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--budget", "-1"), "argument --budget: expected a number of at least 0, got '-1'"),
        (("--budget", "nan"), "argument --budget: expected a number of at least 0, got 'nan'"),
        (("--recipe", ""), "argument --recipe: expected names separated by commas, got ''"),
        (("--int16", ""), "argument --int16: expected names separated by commas, got ''"),
        (("--float", "a,"), "argument --float: expected names separated by commas, got 'a,'"),
        (("--regions", "foo"), "regions must be NAME:BYTES or NAME:BYTES:BYTES_PER_US, got 'foo'"),
        (("--regions", "a:0"), "regions: region 'a' must have 1 to 2^48 bytes, got 0"),
        (("--input-image", "nhwc", "--image-std", "0"), "--image-scale and --image-std divide"),
        (("--at", "nowhere", "fuse"), "--at: there is no level 'nowhere'"),
    ],
)
def test_wrong_options_are_not_the_models(
    options: tuple[str, ...], message: str, tmp_path: Path, model: Path, tool: Tool
):
    to_int8 = ("--target", "c", "--quantize", "int8")
    done = tool("ceras-compile", model, "-o", tmp_path / "out", *to_int8, *options)
    refused(done, 2, f"ceras-compile: error: {message}")
    assert "samples" not in done.stderr, "it was found after calibration"


@pytest.mark.needs("vta")
@pytest.mark.slow
def test_a_warning_about_the_data_is_said_once(model: Path, tmp_path: Path, tool: Tool):
    np.savez(tmp_path / "one.npz", x=np.arange(72, dtype=np.float32).reshape(1, 2, 6, 6))
    # There are two quantized graphs: VTA has a shift for each layer.
    done = tool(
        *("ceras-verify", model, "--calibrate", "one.npz", "--targets", "c,vta", "--floor", "-100")
    )
    assert done.status == 0
    assert done.stdout.count("quantized graph ") == 2
    assert done.stderr.count("warning: only 1 calibration sample: ") == 1
