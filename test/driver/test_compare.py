"""`ceras-compare`: what it measures, and what it refuses."""

from pathlib import Path

import numpy as np
import pytest
from conftest import Tool

from ceras_ir.driver.end_metrics import end_metrics

NETWORK = """
func.func @main(%x: tensor<1x4x4x2xf32> {graph.name = "image"})
    -> (tensor<1x3xf32> {graph.name = "scores"}) {
  %w = graph.constant dense<[[[[1.0, 0.01]]], [[[-0.5, 0.013]]], [[[0.25, -0.004]]]]>
      : tensor<3x1x1x2xf32> : tensor<3x1x1x2xf32>
  %y = graph.conv2d %x, %w {activation = #graph.function<relu>}
      : (tensor<1x4x4x2xf32>, tensor<3x1x1x2xf32>) -> tensor<1x4x4x3xf32> loc("mix")
  %p = graph.pool2d "average" %y {kernel = array<i64: 4, 4>}
      : (tensor<1x4x4x3xf32>) -> tensor<1x1x1x3xf32> loc("mean")
  %r = graph.reshape %p : (tensor<1x1x1x3xf32>) -> tensor<1x3xf32>
  func.return %r : tensor<1x3xf32>
}
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    random = np.random.default_rng(4)
    (tmp_path / "n.mlir").write_text(NETWORK)
    images = random.uniform(-1, 1, (24, 4, 4, 2)).astype(np.float32)
    np.savez(tmp_path / "a.npz", image=images[:16])
    np.savez(tmp_path / "b.npz", image=images[16:])
    np.savez(tmp_path / "labels.npz", labels=np.zeros(8, np.int64))
    return tmp_path


COMMON = ("ceras-compare", "n.mlir", "--calibrate", "a.npz", "--inputs", "b.npz")


def test_layers_metrics_and_page(tool: Tool, files: Path) -> None:
    done = tool(
        *COMMON, "--labels", "labels.npz", "--html", "o.html", "--recipe", "plain",
        "--against", "channels-bias",
    )  # fmt: skip
    assert (done.status, done.stderr) == (0, "")
    for word in ("mix", "mean", "conv2d", "8 sample(s), recipe plain", "top-1", "agreement"):
        assert word in done.stdout
    assert "channels-bias dB" in done.stdout
    page = (files / "o.html").read_text()
    assert page.count("<svg") == 3 and "http" not in page and "<script" not in page


def test_hook(tool: Tool, files: Path) -> None:
    (files / "m.py").write_text(
        "def metric(outputs, labels):\n"
        "    assert labels is None\n"
        "    return {'shape': outputs['scores'].shape[0] + 0.5}\n"
    )
    done = tool(*COMMON, "--metric", "m.py:metric")
    assert done.status == 0
    (row,) = (line.split() for line in done.stdout.splitlines() if line.startswith("shape"))
    assert row == ["shape", "8.5000", "8.5"]


REFUSED = {
    "count": (("--labels", "short.npz"), 1, "3 labels for 8 samples"),
    "type": (("--labels", "b.npz"), 1, "labels must be integers"),
    "no file": (("--labels", "none.npz"), 1, "no such file"),
    "recipe": (("--recipe", "best"), 2, "channels-rounding"),
    "samples": (("--samples", "0"), 2, "at least 1"),
    "hook": (("--metric", "n.mlir:f"), 2, "FILE.py:function"),
    "function": (("--metric", "m.py:f"), 1, "no function 'f'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(tool: Tool, files: Path, case: str) -> None:
    np.savez(files / "short.npz", labels=np.zeros(3, np.int64))
    (files / "m.py").write_text("")
    options, status, message = REFUSED[case]
    done = tool(*COMMON, *options, "--html", "o.html")
    assert (done.status, done.stdout) == (status, "")
    assert (
        message in done.stderr and done.stderr.count("\n") == status
    )  # Wrong usage: and where help is.
    assert not (files / "o.html").exists()


def test_segmentation_metrics() -> None:
    labels = np.array([[[0, 1], [1, 255]]])
    scores = np.zeros((1, 2, 2, 2), np.float32)
    scores[0, 1] = [[-1, 1], [-1, 1]]
    found = {m.name: m for m in end_metrics({"y": scores}, {"y": -scores}, labels, None)}
    # Float predicts [[0, 1], [0, 1]]; negated, [[1, 0], [1, 0]].
    assert found["IoU of class 0"].real == 1 / 2 and found["IoU of class 0"].quantized == 0
    assert found["IoU of class 1"].real == 1 / 2 and found["IoU of class 1"].quantized == 1 / 3
    assert found["agreement"].quantized == 0
