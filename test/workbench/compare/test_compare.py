"""Test the measurements and the refusals of `ceras-compare`."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import Tool
from driver_networks import MIXING
from transforms.quantization.test_precision import CHAIN
from workbench.browser import APPEARANCE, CHROMIUM, DARK, NO_CHROMIUM, probed

pytestmark = pytest.mark.slow


@pytest.fixture
def files(tmp_path: Path) -> Path:
    random = np.random.default_rng(4)
    (tmp_path / "n.mlir").write_text(MIXING)
    images = random.uniform(-1, 1, (40, 4, 4, 2)).astype(np.float32)
    np.savez(tmp_path / "a.npz", image=images[:32])
    np.savez(tmp_path / "b.npz", image=images[32:])
    np.savez(tmp_path / "labels.npz", labels=np.zeros(8, np.int64))
    return tmp_path


CHANNELS, ROWS = "equalize-channels", "choose-row-exponents,round-weights"
COMMON = ("ceras-compare", "n.mlir", "--calibrate", "a.npz", "--inputs", "b.npz")


def test_layers_metrics_and_page(tool: Tool, files: Path) -> None:
    done = tool(
        *COMMON, "--labels", "labels.npz", "--html", "o.html", "--recipe", "none",
        "--against", CHANNELS,
    )  # fmt: skip
    assert (done.status, done.stderr) == (0, "")
    for word in ("mix", "mean", "conv2d", "8 sample(s), recipe ", "top-1", " ± ", "agreement"):
        assert word in done.stdout
    assert "requantizations at run time: 0 (0 before scale alignment)" in done.stdout
    assert "equalize-channels" in done.stdout
    page = (files / "o.html").read_text()
    # Two layers and a plot; the layers are also among the worst layers, which are drawn again.
    assert page.count("<svg") == 5 and not re.search(r'(src|href)="(?!#)', page)
    assert CHANNELS in page and 'id="layer1"' in page
    assert "of the noise at the outputs" in done.stdout and 'class="share"' in page


@pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)
@pytest.mark.parametrize("options", [(), (DARK,)])
def test_the_page_in_a_browser(tool: Tool, files: Path, options: tuple[str, ...]) -> None:
    assert tool(*COMMON, "--html", "o.html").status == 0
    for width in (800, 1300):
        found = probed(files, files / "o.html", width, APPEARANCE, *options)
        assert int(found["overflow"]) <= 0 and not found["overlaps"]
        assert float(found["contrast"]) > 3
        assert found["paper"] == ("rgb(12, 13, 15)" if options else "rgb(255, 255, 255)")


def of_chain(folder: Path) -> tuple[str, ...]:
    """Write two layers with very different channels, and return the command to compare them."""
    (folder / "n.mlir").write_text(CHAIN.replace("SMALL", "0.003").replace("LARGE", "64.0"))
    data = np.random.default_rng(0).normal(size=(56, 4)).astype(np.float32)
    np.savez(folder / "c.npz", input0=data[:32])
    np.savez(folder / "d.npz", input0=data[32:])
    return "ceras-compare", "n.mlir", "--calibrate=c.npz", "--inputs", "d.npz"


def test_arithmetic_of_a_target(tool: Tool, tmp_path: Path) -> None:
    """The measured network is compiled for the target, and costs are those of the target."""
    common = (*of_chain(tmp_path), "--budget=1")
    shares = list[float]()
    for options in ((), ("--target", "nnet"), ("--target", "vta", "--board", "pynq")):
        done = tool(*common, *options, "--propose")
        assert done.status == 0
        (share,) = re.findall(r"--float '.*modelled time ([+-]\d+)%", done.stdout)
        shares.append(int(share))
    assert 10 * shares[0] < min(shares[1:]), "hosts of accelerators take longer for floats"
    for options, word in (
        (("--target", "nnett"), "did you mean 'nnet'"),
        (("--board", "pynq"), "add --target"),
        (("--target", "vta", "--board", "pink"), "pink"),
    ):
        refused = tool(*common, *options)
        assert refused.status in (1, 2) and word in refused.stderr


def test_proposals_were_tried(tool: Tool, tmp_path: Path) -> None:
    """Check that proposals have the printed gain and a cost."""
    common = of_chain(tmp_path)
    options = ("--budget", "0", "--recipe", "none", "--observer", "minmax")
    done = tool(*common, *options, "--propose")
    assert (done.status, done.stderr) == (0, "")
    tried = done.stdout.partition("not used for calibration:")[2].splitlines()
    found = [line for line in tried if " ± " in line]
    for option in ("--observer mse", "--float '"):
        assert sum(f" {option}" in line for line in found) == 1
    # Proposals with a gain above twice their standard error are first.
    marks = [line.startswith("  + ") for line in found]
    assert marks == sorted(marks, reverse=True) and True in marks
    for line, mark in zip(found, marks, strict=True):
        gain, error = re.findall(r" ([+-][0-9.e+-]+|[+-]inf) ± ([0-9.e+-]+)", line)[0]
        assert (float(gain) > 2 * float(error)) == mark
        assert "modelled time " in line and "weights " in line
    refused = tool(*common[:-1], "c.npz", "--propose")
    assert refused.status == 2 and "that differ from the calibration data" in refused.stderr
    refused = tool("ceras-compare", "n.mlir", "--inputs", "d.npz", "--propose")
    assert refused.status == 2 and "--calibrate" in refused.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("func.return %x : !t", "signal to noise"),
        ('%y = graph.softmax %x {axis = 1 : i64} : !t loc("end")\n func.return %y : !t', "float"),
        ('%y = graph.unary <relu> %x : !t loc("one")\n func.return %y : !t', "one"),
    ],
)
def test_networks_with_hardly_a_layer(tool: Tool, tmp_path: Path, text: str, words: str) -> None:
    head = '!t = tensor<1x4xf32>\nfunc.func @main(%x: !t {graph.name = "x"}) -> '
    (tmp_path / "n.mlir").write_text(f'{head}(!t {{graph.name = "y"}}) {{\n  {text}\n}}\n')
    data = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=data)
    common = ("ceras-compare", "n.mlir", "--calibrate", "d.npz", "--inputs", "d.npz")
    for options in ((), ("--recipe", ROWS, "--budget", "1")):
        done = tool(*common, *options, "--html", "o.html")
        assert done.status == 0, done.stderr
        assert words in done.stdout and "Traceback" not in done.stderr
        assert "</html>" in (tmp_path / "o.html").read_text()


def test_hook(tool: Tool, files: Path) -> None:
    (files / "m.py").write_text(
        "def metric(outputs, labels):\n"
        "    assert labels is None\n"
        "    return {'shape': outputs['scores'].shape[0] + 0.5}\n"
    )
    done = tool(*COMMON, "--metric", "m.py:metric")
    assert done.status == 0
    (row,) = (line.split() for line in done.stdout.splitlines() if line.startswith("shape"))
    assert row == ["shape", "8.5", "8.5"]


def test_hook_with_labels_of_its_own(tool: Tool, files: Path) -> None:
    """Labels are passed to the function of the user unchanged, whatever their shape and type."""
    np.savez(files / "levels.npz", np.arange(16, dtype=np.float32).reshape(8, 2) / 4)
    (files / "m.py").write_text(
        "def metric(outputs, labels):\n"
        "    assert labels.shape == (8, 2) and labels.dtype == 'float32'\n"
        "    return {'level': labels.max()}\n"
    )
    done = tool(*COMMON, "--metric", "m.py:metric", "--labels", "levels.npz")
    assert done.status == 0, done.stderr
    assert rows(done.stdout)["level"] == ["level", "3.75", "3.75"]


FAILING = {
    "raises": (
        "def f(outputs, labels):\n    x = outputs['scores']\n    return outputs['score']\n",
        "m.py: error: the function 'f' of --metric failed in line 3: KeyError: 'score'",
    ),
    "nothing": ("def f(outputs, labels):\n    pass\n", "'f' of --metric failed: TypeError: float"),
    "file": ("import nowhere\n", "m.py: error: cannot be run: ModuleNotFoundError: No module"),
    "syntax": ("def f(:\n", "m.py: error: cannot be run: SyntaxError: invalid syntax"),
}


@pytest.mark.parametrize("case", FAILING)
def test_a_hook_that_fails(tool: Tool, files: Path, case: str) -> None:
    text, message = FAILING[case]
    (files / "m.py").write_text(text)
    done = tool(*COMMON, "--metric", "m.py:f")
    assert (done.status, done.stdout) == (1, "")
    assert message in done.stderr and "internal" not in done.stderr
    assert not list(files.glob("ceras-crash*"))


def rows(text: str) -> dict[str, list[str]]:
    """Map the first word of a line of a table to its words; the first such line counts."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    return {line[0]: line for line in reversed(lines)}


def test_two_variants(tool: Tool, files: Path) -> None:
    for name, recipe in (("plain", "none"), ("channels", CHANNELS)):
        quantize = f"--quantize=calibration=a.npz recipe={recipe}"
        done = tool(
            *("ceras-opt", "n.mlir", "--fuse", quantize, "--print-debuginfo"),
            "-o",
            f"{name}.mlir",
        )
        assert done.status == 0, done.stderr
    assert tool("ceras-opt", "plain.mlir", "-t", "onnx", "-o", "plain.onnx").status == 0
    inputs = ("--inputs", "b.npz", "--labels", "labels.npz")
    # An exported model is the same network.
    done = tool("ceras-compare", "plain.mlir", "plain.onnx", *inputs)
    assert (done.status, done.stderr) == (0, "")
    for layer in ("mix", "mean"):
        assert rows(done.stdout)[layer][-2:] == ["exact", "exact"]
    assert rows(done.stdout)["agreement"] == ["agreement", "1"]
    # Channels of another scale are the same channels: no layer differs much.
    done = tool("ceras-compare", "plain.mlir", "channels.mlir", *inputs, "--html", "o.html")
    assert (done.status, done.stderr) == (0, "")
    table = rows(done.stdout)
    last = [table[layer][-1].replace("exact", "inf") for layer in ("mix", "mean")]
    assert all(float(decibels) > 15 for decibels in last)
    assert len(table["top-1"]) == 5 and "scale before" in done.stdout
    page = (files / "o.html").read_text()
    assert "channels.mlir (quantized) against plain.mlir (quantized)" in page
    # Compare the float network with a variant, and then with a recipe.
    done = tool("ceras-compare", "n.mlir", "plain.mlir", *inputs)
    assert (done.status, "(float)" in done.stdout) == (0, True)
    recipe = ("--calibrate", "a.npz", "--recipe", "none")
    done = tool("ceras-compare", "n.mlir", "plain.mlir", *inputs, *recipe)
    assert rows(done.stdout)["mix"][-2:] == ["exact", "exact"]


def test_layers_that_really_differ_are_found(tool: Tool, files: Path) -> None:
    quantize = "--quantize=calibration=a.npz"
    done = tool("ceras-opt", "n.mlir", "--fuse", quantize, "--print-debuginfo")
    text = done.stdout
    (files / "a.mlir").write_text(text)
    constant = next(line for line in text.splitlines() if "xi8>" in line and "dense<" in line)
    (files / "b.mlir").write_text(
        text.replace(constant, constant.replace("dense<[[[[", "dense<[[[[-", 1))
    )
    done = tool("ceras-compare", "a.mlir", "b.mlir", "--inputs", "b.npz")
    assert done.status == 1 and "below --floor 10" in done.stderr
    table = rows(done.stdout)
    assert float(table["mix"][-2]) < 10
    # The isolated noise of the next layer is unchanged.
    assert table["mean"][-2] == "exact"


def test_float_networks_have_no_factors(tool: Tool, files: Path) -> None:
    """Channels of another network are not matched as multiples of the first network's."""
    done = tool("ceras-opt", "n.mlir", "--fuse", "--print-debuginfo")
    (files / "a.mlir").write_text(done.stdout)
    constant = next(line for line in done.stdout.splitlines() if "xf32>" in line and "[[[[" in line)
    signs = iter("+-" * constant.count("."))
    other = re.sub(r"(?<=[\[ ])-?(?=\d)", lambda _: next(signs).strip("+"), constant)
    (files / "b.mlir").write_text(done.stdout.replace(constant, other))
    done = tool("ceras-compare", "a.mlir", "b.mlir", "--inputs", "b.npz")
    assert done.status == 0, done.stderr
    table = rows(done.stdout)
    assert float(table["mix"][-2]) < 10
    # The layer that is equal in both networks is exact.
    assert table["mean"][-2] == "exact"


def test_two_models_are_refused_by_what_differs(tool: Tool, files: Path) -> None:
    (files / "m.mlir").write_text(MIXING.replace('"scores"', '"logits"'))
    done = tool("ceras-compare", "n.mlir", "m.mlir", "--inputs", "b.npz")
    assert done.status == 1 and "inputs and outputs must be the same" in done.stderr
    done = tool(
        "ceras-compare", "n.mlir", "n.mlir", "--inputs", "b.npz", "--against", "round-weights"
    )
    assert done.status == 2 and "there are two models" in done.stderr
    (files / "q.mlir").write_text(tool("ceras-opt", "n.mlir", "--quantize").stdout)
    done = tool("ceras-compare", "q.mlir", "--inputs", "b.npz")
    assert done.status == 1 and "as a second model" in done.stderr.replace("\n", " ")


def test_mistakes_are_said_before_the_work(tool: Tool, files: Path) -> None:
    done = tool(*COMMON, "--html", "no/folder/o.html")
    assert (done.status, done.stdout) == (1, "") and "cannot write" in done.stderr
    done = tool(*COMMON, "--labls", "labels.npz")
    assert done.status == 2 and "did you mean" in done.stderr
    np.savez(files / "empty.npz", image=np.zeros((0, 4, 4, 2), np.float32))
    done = tool("ceras-compare", "n.mlir", "--inputs", "empty.npz", "--html", "o.html")
    assert done.status == 1 and "no samples" in done.stderr
    image = np.zeros((3, 4, 4, 2), np.float32)
    image[2, 1, 1, 1] = np.nan
    np.savez(files / "nan.npz", image=image)
    done = tool(*COMMON[:-1], "nan.npz", "--html", "o.html")
    assert (done.status, done.stdout) == (1, "")
    assert "nan.npz: error: sample 2 of 'image' has NaN or infinite elements" in done.stderr
    assert not (files / "o.html").exists()
    # Samples that are not compared are not checked.
    assert tool(*COMMON[:-1], "nan.npz", "--samples", "2").status == 0
    (files / "slow.py").write_text(
        "def metric(outputs, labels):\n    raise KeyboardInterrupt  # what Ctrl-C does\n"
    )
    done = tool(*COMMON, "--metric", "slow.py:metric", "--html", "o.html")
    assert done.status == 130 and done.stderr.endswith("interrupted\n")
    assert not list(files.glob("*.html*"))


NOTE = "choose-precision: note: "
REFUSED = {
    "count": (("--labels", "short.npz"), 1, "3 labels for 8 samples"),
    "type": (("--labels", "b.npz"), 1, "labels must be integers"),
    "no file": (("--labels", "none.npz"), 1, "no such file"),
    "recipe": (("--recipe", "best"), 2, "equalize-channels"),
    "samples": (("--samples", "0"), 2, "at least 1"),
    "module": (("--metric", "n.mlir:f"), 2, "No module named 'n'"),
    "metric": (("--metric", "segmentaton"), 2, "did you mean 'segmentation'"),
    "no labels": (("--metric", "topk"), 2, "--metric topk needs --labels"),
    "kind": (("--metric", "segmentation", "--labels", "labels.npz"), 1, "shape [N, H, W]"),
    "boxes": (("--metric", "detection"), 1, "supports [1, boxes, 5 + classes]"),
    "json": (("--labels", "boxes.json"), 2, "for --metric detection"),
    "function": (("--metric", "m.py:f"), 1, "no function 'f'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(tool: Tool, files: Path, case: str) -> None:
    np.savez(files / "short.npz", labels=np.zeros(3, np.int64))
    (files / "boxes.json").write_text("{}")
    (files / "m.py").write_text("")
    options, status, message = REFUSED[case]
    done = tool(*COMMON, *options, "--html", "o.html")
    assert (done.status, done.stdout) == (status, "")
    told = [line for line in done.stderr.splitlines() if NOTE not in line]
    assert message in done.stderr and len(told) == status  # Wrong usage: and where help is.
    assert not (files / "o.html").exists()


def test_detection(tool: Tool, tmp_path: Path) -> None:
    """Compare with true boxes, or without them with the detections of the float network."""
    pytest.importorskip("pycocotools")
    # Each of four pixels has a box at a fixed position, and the score is the pixel.
    (tmp_path / "n.mlir").write_text("""
    func.func @main(%x: tensor<1x16x16x1xf32> {graph.name = "image"})
        -> (tensor<1x4x4xf32> {graph.name = "boxes"}, tensor<1x4x1xf32> {graph.name = "scores"}) {
      %p = graph.pool2d average %x {kernel = array<i64: 8, 8>, strides = array<i64: 8, 8>}
          : (tensor<1x16x16x1xf32>) -> tensor<1x2x2x1xf32> loc("mean")
      %w = graph.constant dense<0.1> : tensor<4x1x1x1xf32> : tensor<4x1x1x1xf32>
      %c = graph.conv2d %p, %w
          : (tensor<1x2x2x1xf32>, tensor<4x1x1x1xf32>) -> tensor<1x2x2x4xf32> loc("copies")
      %r = graph.reshape %c : (tensor<1x2x2x4xf32>) -> tensor<1x4x4xf32>
      %g = graph.constant dense<[[[0.0, 0.0, 8.0, 8.0], [8.0, 0.0, 16.0, 8.0],
          [0.0, 8.0, 8.0, 16.0], [8.0, 8.0, 16.0, 16.0]]]> : tensor<1x4x4xf32> : tensor<1x4x4xf32>
      %b = graph.binary add %r, %g
          : (tensor<1x4x4xf32>, tensor<1x4x4xf32>) -> tensor<1x4x4xf32> loc("decode")
      %s = graph.reshape %p : (tensor<1x2x2x1xf32>) -> tensor<1x4x1xf32>
      func.return %b, %s : tensor<1x4x4xf32>, tensor<1x4x1xf32>
    }
    """)
    images = np.zeros((40, 16, 16, 1), np.float32)
    for i, image in enumerate(images):
        image[8 * (i // 2 % 2) :, 8 * (i % 2) :][:8, :8] = 0.9
    np.savez(tmp_path / "a.npz", image=images)
    np.savez(tmp_path / "b.npz", image=images[:8])
    box = {"category_id": 1, "iscrowd": 0}
    content = {
        "images": [{"id": i, "file_name": "", "height": 16, "width": 16} for i in range(8)],
        "categories": [{"id": 1}],
        "annotations": [
            {**box, "image_id": i, "bbox": [8 * (i % 2), 8 * (i // 2 % 2), 8, 8]} for i in range(8)
        ],
    }
    (tmp_path / "l.json").write_text(json.dumps(content))
    done = tool(*COMMON, "--metric", "detection", "--labels", "l.json", "--propose")
    assert done.status == 0 and all(NOTE in line for line in done.stderr.splitlines())
    assert "AP +0 ± 0" in done.stdout
    (row,) = (line.split() for line in done.stdout.splitlines() if re.match(r"AP +[01]", line))
    assert [float(v) for v in row[1:3]] == pytest.approx([1, 1])
    done = tool(*COMMON, "--metric", "detection")
    assert done.status == 0 and "AP against the float network's" in done.stdout


def test_the_ratio_before_a_softmax(tool: Tool, files: Path) -> None:
    """The ratio before the softmax is that of the layer before, and of the network without it."""
    plain = (files / "n.mlir").read_text()
    result = re.search(r"return (%\w+) : (\S+)", plain)
    assert result is not None
    softmax = f"%soft = graph.softmax {result[1]} {{axis = 1 : i64}} : {result[2]}\n"
    (files / "s.mlir").write_text(
        plain.replace(f"func.{result[0]}", f"{softmax}  func.return %soft : {result[2]}")
    )
    inputs = ("--calibrate", "a.npz", "--inputs", "b.npz", "--budget=0")
    logits = tool("ceras-compare", "n.mlir", *inputs)
    assert "before softmax" not in logits.stdout
    done = tool(
        "ceras-compare", "s.mlir", *inputs, "--fail-if", "signal to noise before softmax (dB)<99"
    )
    assert done.status == 1
    found = dict(re.findall(r"^(signal to noise.*?\(dB\)) +(\S+)$", done.stdout, re.M))
    before = found["signal to noise before softmax (dB)"]
    assert rows(done.stdout)["mean"][-1] == f"{float(before):.1f}"
    assert float(before) == pytest.approx(float(rows(logits.stdout)["signal"][-1]), abs=0.5)
    assert f"signal_to_noise_before_softmax_db = {before}" in done.stderr
    verified = tool("ceras-verify", "s.mlir", *inputs, "--targets", "c", "--no-reference")
    assert re.search(r"signal to noise \S+ dB against float, after softmax$", verified.stdout, re.M)
    verified = tool("ceras-verify", "n.mlir", *inputs, "--targets", "c", "--no-reference")
    assert "after softmax" not in verified.stdout
