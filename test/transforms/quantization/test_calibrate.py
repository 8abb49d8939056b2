"""Check the accepted and refused forms of calibration data."""

from pathlib import Path

import numpy as np
import pytest
from conftest import Tool

from ceras_ir.data.array_archive import save_arrays
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.transforms.quantization import channel_scales
from ceras_ir.transforms.quantization.channel_scales import EqualizeChannelsPass

pytestmark = pytest.mark.slow

NETWORK = """
func.func @main(%x: tensor<1x2x3xf32> {graph.name = "image"},
                %y: tensor<2x3xf32> {graph.name = "gain"}) -> tensor<1x2x3xf32> {
  %z = graph.binary mul %x, %y {activation = #graph.function<swish>}
      : (tensor<1x2x3xf32>, tensor<2x3xf32>) -> tensor<1x2x3xf32>
  func.return %z : tensor<1x2x3xf32>
}
"""

IMAGE = np.arange(30, dtype=np.uint8).reshape(5, 2, 3)
GAIN = np.full((5, 2, 3), 0.5, np.float32)


def test_some_of_the_samples_count(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "n.mlir").write_text(NETWORK)
    np.savez(tmp_path / "data.npz", image=IMAGE, gain=GAIN)
    for option, count, last in (("", 5, 29), (" samples=2", 2, 17)):
        done = tool("ceras-opt", "n.mlir", f"--calibrate=calibration=data.npz{option}")
        assert done.status == 0
        assert f"warning: only {count} calibration samples" in done.stderr
        assert f"graph.range = array<f32: 0.000000e+00, {last:.6e}>" in done.stdout.replace(
            f"{float(last)}", f"{last:.6e}"
        )


def test_ranges_in_the_text_need_no_data(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "n.mlir").write_text(NETWORK)
    np.savez(tmp_path / "data.npz", image=IMAGE, gain=GAIN)
    direct = tool("ceras-opt", "n.mlir", "--quantize=calibration=data.npz recipe=none")
    calibrated = tool("ceras-opt", "n.mlir", "--calibrate=calibration=data.npz", "-o", "c.mlir")
    again = tool("ceras-opt", "c.mlir", "--quantize=recipe=none")
    assert (direct.status, calibrated.status, again.status) == (0, 0, 0)
    assert again.stderr == ""
    assert again.stdout == direct.stdout
    float_ = tool("ceras-compile", "c.mlir", "--target", "c", "-o", "float")
    assert "--quantize int8 uses the calibrated ranges" in float_.stderr
    integers = tool("ceras-compile", "c.mlir", "--target", "c", "-o", "out", "--quantize", "int8")
    assert (
        "calibrated" not in integers.stderr and "requantizations at run time: " in integers.stdout
    )


def test_data_in_which_nothing_changes_is_doubtful(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "n.mlir").write_text(NETWORK)
    for image, warned in ((np.zeros_like(IMAGE), True), (IMAGE, False)):
        np.savez(tmp_path / "data.npz", image=image, gain=GAIN)
        done = tool("ceras-opt", "n.mlir", "--calibrate=calibration=data.npz")
        assert done.status == 0
        assert ("input 'image' is 0 everywhere" in done.stderr) == warned


def test_synthetic_data_is_announced_and_repeatable(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "n.mlir").write_text(NETWORK)
    first, second, other = (
        tool("ceras-opt", "n.mlir", f"--quantize=seed={seed}") for seed in (0, 0, 1)
    )
    assert "synthetic samples (seed 0)" in first.stderr
    assert "synthetic samples (seed 1)" in other.stderr
    assert first.stdout == second.stdout


BROKEN = {
    "missing input": ({"image": IMAGE}, "no array for input 'gain'"),
    "unknown input": ({"image": IMAGE, "gain": GAIN, "z": GAIN}, "no input is named 'z'"),
    "shape": ({"image": IMAGE[:, :1], "gain": GAIN}, "expected [N, 2, 3]"),
    "NaN": ({"image": IMAGE, "gain": GAIN * np.float32("nan")}, "NaN or infinite"),
    "infinite": ({"image": IMAGE, "gain": GAIN * np.float32("inf")}, "NaN or infinite"),
    "too large": (
        {"image": IMAGE, "gain": GAIN.astype(float) * 1e300},
        "which float32 cannot hold",
    ),
    "empty": ({"image": IMAGE[:0], "gain": GAIN[:0]}, "no samples"),
    "lengths": ({"image": IMAGE, "gain": GAIN[:3]}, "different numbers of samples"),
    "type": ({"image": IMAGE.astype(complex), "gain": GAIN}, "complex"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_bad_data(tool: Tool, tmp_path: Path, case: str) -> None:
    arrays, message = BROKEN[case]
    (tmp_path / "n.mlir").write_text(NETWORK)
    save_arrays(str(tmp_path / "bad.npz"), arrays)
    done = tool("ceras-opt", "n.mlir", "--quantize=calibration=bad.npz", "-o", "out.mlir")
    assert done.status == 1
    assert "bad.npz: error: " in done.stderr and message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out.mlir").exists()


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 not a zip", b"text"])
def test_bad_file(tool: Tool, tmp_path: Path, content: bytes | None) -> None:
    (tmp_path / "n.mlir").write_text(NETWORK)
    if content is not None:
        (tmp_path / "bad.npz").write_bytes(content)
    done = tool("ceras-opt", "n.mlir", "--quantize=calibration=bad.npz")
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr.startswith("bad.npz: error: ") and done.stderr.count("\n") == 1


def test_one_array_without_a_name(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "n.mlir").write_text(NETWORK)
    np.save(tmp_path / "bad.npy", IMAGE)
    done = tool("ceras-opt", "n.mlir", "--quantize=calibration=bad.npy")
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr == (
        "bad.npy: error: not an .npz file: it holds an array without a name; store it with the "
        "name of the input: np.savez('bad.npz', image=np.load('bad.npy'))\n"
    )


def test_an_overflowing_layer_is_named(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "n.mlir").write_text(NETWORK)
    np.savez(tmp_path / "data.npz", image=np.full((1, 2, 3), 3e38), gain=np.full((1, 2, 3), 3e38))
    done = tool("ceras-opt", "n.mlir", "--quantize=calibration=data.npz")
    assert done.status == 1
    assert "graph.binary" in done.stderr and "not finite" in done.stderr
    assert done.stderr.count("\n") == 1


LOGARITHM = """
func.func @main(%x: tensor<1x4xf32> {graph.name = "x"}) -> tensor<1x2xf32> {
  %zero = graph.constant dense<0.0> : tensor<1x4xf32> : tensor<1x4xf32>
  %w = graph.constant dense<1.0> : tensor<2x4xf32> : tensor<2x4xf32>
  %0 = graph.compare less %zero, %x : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xi1>
  %1 = graph.unary <log> %x : tensor<1x4xf32>
  %2 = graph.select %0, %1, %zero
      : (tensor<1x4xi1>, tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  %3 = graph.matmul %2, %w : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<1x2xf32>
  func.return %3 : tensor<1x2xf32>
}
"""


def test_what_a_choice_leaves_out_may_be_no_number(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "n.mlir").write_text(LOGARITHM)
    np.savez(tmp_path / "data.npz", x=np.linspace(-2, 2, 64, dtype=np.float32).reshape(16, 4))
    done = tool("ceras-opt", "n.mlir", "--quantize=calibration=data.npz")
    assert done.status == 0
    assert "graph.unary <log>" in done.stdout and "graph.matmul" in done.stdout


@pytest.mark.parametrize("option", ["samples=0", "seed=-1", "samples=many", "observer=best"])
def test_bad_options(tool: Tool, tmp_path: Path, option: str) -> None:
    (tmp_path / "n.mlir").write_text(NETWORK)
    done = tool("ceras-opt", "n.mlir", f"--quantize={option}")
    assert (done.status, done.stdout) == (2, "")
    assert option.partition("=")[0] in done.stderr


def test_a_module_without_a_network(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "n.mlir").write_text("func.func @other() {\n  func.return\n}\n")
    done = tool("ceras-opt", "n.mlir", "--fuse", "--quantize")
    assert done.status == 1
    assert "no function @main" in done.stderr


@pytest.mark.parametrize(("extent", "collections"), [(4, 0), (1001, 1)])
def test_memory_of_small_networks_is_not_looked_through(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, extent: int, collections: int
) -> None:
    """Python's garbage collection took most of the time, and more with other loaded modules."""
    seen: list[bool] = []
    monkeypatch.setattr(channel_scales, "release_memory", lambda: seen.append(True))
    text = f"""
    !x = tensor<1x1xf32>
    func.func @main(%x: !x {{graph.name = "x"}}) -> (!x {{graph.name = "y"}}) {{
      %w = graph.constant dense<1.0> : tensor<{extent}x{extent}xf32> : tensor<{extent}x{extent}xf32>
      func.return %x : !x
    }}
    """
    module = parse_text(load_context(), text, "n.mlir")
    save_arrays(str(tmp_path / "c.npz"), {"x": np.ones((3, 1), np.float32)})
    EqualizeChannelsPass(str(tmp_path / "c.npz")).apply(load_context(), module)
    assert len(seen) == collections
