"""Check the quantization with constant data, and the refusal of invalid data."""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from conftest import Tool
from numpy.typing import NDArray

from ceras_ir.command.entry_point import Command
from ceras_ir.data.array_archive import save_arrays
from ceras_ir.driver.compile import main as compile_main
from ceras_ir.driver.run import main as run_main
from ceras_ir.driver.verify.tool import main as verify_main
from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.pipeline.pass_options import build
from ceras_ir.pipeline.verification import verify_module
from ceras_ir.transforms.quantization.quantize import QuantizePass
from ceras_ir.transforms.quantization_options import (
    CHOOSE_ROW_EXPONENTS,
    CHOOSE_ZERO_POINTS,
    EQUALIZE_CHANNELS,
    FIT_INPUTS,
    NO_PASSES,
    OPTIONAL_PASSES,
    ROUND_WEIGHTS,
    ObserverName,
)

pytestmark = pytest.mark.slow

NETWORK = """
!map = tensor<1x4x4x2xf32>
!weights = tensor<2x3x3x2xf32>
!vector = tensor<2xf32>
func.func @main(%x: !map {graph.name = "image"})
    -> (!map {graph.name = "live"}, !map {graph.name = "dead"}) {
  %w = graph.constant dense<WEIGHTS> : !weights : !weights
  %b = graph.constant dense<[0.25, BIAS]> : !vector : !vector
  %0 = graph.conv2d %x, %w bias %b : !vector
      {padding = array<i64: 1, 1, 1, 1>, activation = #graph.function<relu>}
      : (!map, !weights) -> !map
  %1 = graph.conv2d %0, %w bias %b : !vector {padding = array<i64: 1, 1, 1, 1>}
      : (!map, !weights) -> !map
  %c = graph.constant dense<-1000.0> : !vector : !vector
  %2 = graph.binary add %1, %c {activation = #graph.function<relu>} : (!map, !vector) -> !map
  %3 = graph.conv2d %2, %w {padding = array<i64: 1, 1, 1, 1>} : (!map, !weights) -> !map
  func.return %1, %3 : !map, !map
}
"""
LIVE = np.random.default_rng(1).normal(0, 0.4, (3, 3, 2)).round(2)
WEIGHTS = np.stack([LIVE, np.zeros_like(LIVE)]).tolist()
"""The weights of two channels; the second channel ignores the input."""

SHAPE = (6, 4, 4, 2)
DATA: dict[str, NDArray[np.float32]] = {
    "constant": np.full(SHAPE, 3.0, np.float32),
    "zero": np.zeros(SHAPE, np.float32),
    "one channel zero": np.stack([np.ones(SHAPE[:3]), np.zeros(SHAPE[:3])], 3).astype(np.float32),
    "tiny": np.full(SHAPE, 1e-38, np.float32),
    "ordinary": np.random.default_rng(0).normal(size=SHAPE).astype(np.float32),
}
RECIPES = [
    NO_PASSES,
    *OPTIONAL_PASSES,
    *(",".join(p for p in OPTIONAL_PASSES if p != left_out) for left_out in ("", *OPTIONAL_PASSES)),
]
OPTIONS = [
    *(f"recipe={recipe} budget=1" for recipe in RECIPES),
    *(f"observer={observer}" for observer in get_args(ObserverName)),
    "target=vta budget=1",
    "tail=int8 budget=1",
    "budget=0",
]


def network(bias: str) -> str:
    return NETWORK.replace("WEIGHTS", str(WEIGHTS)).replace("BIAS", bias)


@pytest.mark.parametrize(("data", "bias"), [*((d, "0.5") for d in DATA), ("constant", "0.0")])
def test_what_is_constant_or_dead_is_quantized(data: str, bias: str, tmp_path: Path) -> None:
    """
    Each recipe gives valid integers for zero weights, constant values and a relu that is always
    zero. A value that is always zero remains exactly zero.
    """
    save_arrays(str(tmp_path / "c.npz"), {"image": DATA[data]})
    reference = parse_text(load_context(), network(bias), "network.mlir")
    sample = {"image": DATA[data][:1]}
    expected = run(reference, sample)
    for options in OPTIONS:
        module = reference.clone()
        quantize = build(QuantizePass, f"calibration={tmp_path / 'c.npz'} {options}")
        quantize.apply(load_context(), module)
        verify_module(module)
        got = run(module, sample)
        assert not np.asarray(got["dead"]).any(), options
        live, real = np.asarray(got["live"], float), np.asarray(expected["live"], float)
        # Three roundings to seven bits, of values up to the maximum, add up.
        assert np.abs(live - real).max() <= np.abs(real).max() * 3 / 64, options


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "recipe",
    [
        (EQUALIZE_CHANNELS, ROUND_WEIGHTS),
        (FIT_INPUTS, CHOOSE_ZERO_POINTS, CHOOSE_ROW_EXPONENTS),
        (),
    ],
)
def test_squares_may_overflow(recipe: tuple[str, ...], tmp_path: Path) -> None:
    data = (DATA["ordinary"] * 1e30).astype(np.float32)
    save_arrays(str(tmp_path / "c.npz"), {"image": data})
    reference = parse_text(load_context(), network("0.5"), "network.mlir")
    module = reference.clone()
    QuantizePass(str(tmp_path / "c.npz"), recipe=recipe).apply(load_context(), module)
    for sample in data:
        expected, got = (run(m, {"image": sample[None]})["live"] for m in (reference, module))
        real = np.asarray(expected, float)
        assert np.abs(np.asarray(got, float) - real).max() <= np.abs(data).max() * 3 / 64


EMPTY: dict[str, tuple[dict[str, NDArray[np.generic]], str]] = {
    "no arrays": ({}, "no array for input 'image'"),
    "no samples": ({"image": np.zeros((0, 4, 4, 2), np.float32)}, "the file has no samples"),
    "one NaN": ({"image": np.where(np.arange(32) == 5, np.nan, 1.0).reshape(1, 4, 4, 2)}, "NaN"),
    "rank": ({"image": np.zeros((2, 32), np.float32)}, "expected [N, 4, 4, 2]"),
    "layout": ({"image": np.zeros((2, 2, 4, 4), np.float32)}, "expected [N, 4, 4, 2]"),
    "text": ({"image": np.full((2, 4, 4, 2), "a")}, "expected float32"),
    "complex": ({"image": np.zeros((2, 4, 4, 2), complex)}, "expected float32"),
    "times": ({"image": np.zeros((2, 4, 4, 2), "M8[s]")}, "expected float32"),
}


@pytest.mark.parametrize("case", EMPTY)
def test_what_is_no_data_is_refused(tool: Tool, tmp_path: Path, case: str) -> None:
    option = " recipe=none" if len(case) % 2 else ""
    arrays, message = EMPTY[case]
    (tmp_path / "n.mlir").write_text(network("0.5"))
    save_arrays(str(tmp_path / "bad.npz"), arrays)
    done = tool("ceras-opt", "n.mlir", f"--quantize=calibration=bad.npz{option}", "-o", "o.mlir")
    assert (done.status, done.stdout) == (1, "")
    assert "bad.npz: error: " in done.stderr and message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "o.mlir").exists()


COMMANDS: dict[str, tuple[str, ...]] = {
    "compile": ("ceras-compile", "n.mlir", "-o", "out", "--target", "nnet", "--calibrate", "BAD"),
    "run": ("ceras-run", "n.mlir", "--outputs", "out", "--inputs", "BAD"),
    "calibrated run": (
        *("ceras-run", "n.mlir", "--outputs", "out", "--inputs", "good.npz"),
        *("--quantize", "int8", "--calibrate", "BAD"),
    ),
    "verify": ("ceras-verify", "n.mlir", "--calibrate", "BAD"),
    "compare": ("ceras-compare", "n.mlir", "--inputs", "BAD", "--html", "out"),
    "calibrated compare": (
        *("ceras-compare", "n.mlir", "--inputs", "good.npz", "--html", "out"),
        *("--calibrate", "good.npz,BAD"),
    ),
}


compare_main = Command("ceras-compare", "", "ceras_ir.workbench.compare.tool")

MAINS = {
    "ceras-compile": compile_main,
    "ceras-run": run_main,
    "ceras-verify": verify_main,
    "ceras-compare": compare_main,
}


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(name, marks=[pytest.mark.needs("workbench")] * ("compare" in name))
        for name in COMMANDS
    ],
)
def test_every_command_refuses_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("n.mlir").write_text(network("0.5"))
    save_arrays("good.npz", {"image": DATA["ordinary"]})
    cases = {f"{name}.npz": EMPTY[name] for name in ("no samples", "one NaN", "layout", "text")}
    for name, (arrays, _) in cases.items():
        save_arrays(name, arrays)
    Path("no images").mkdir()
    Path("nothing.npz").write_bytes(b"")
    messages = {name: message for name, (_, message) in cases.items()}
    messages |= {"nothing.npz": "not a readable .npz file", "missing.npz": "no such file"}
    messages["no images"] = "no images in the folder"
    if command == "run":
        del messages["one NaN.npz"]  # A network may be run on NaN.
    for name, message in messages.items():
        tool, *words = (word.replace("BAD", name) for word in COMMANDS[command])
        assert MAINS[tool](words) == 1, name
        said = capsys.readouterr()
        # Messages of levels before the quantized graph are printed immediately.
        assert said.out == "" or command == "verify"
        assert message in said.err and name in said.err and said.err.count("\n") == 1
        assert not Path("out").exists()


PRODUCT = """
!map = tensor<8x8xf32>
func.func @main(%x: !map {graph.name = "x"}) -> (!map {graph.name = "scores"}) {
  %t = graph.constant dense<1.0e-20> : tensor<1x1xf32> : tensor<1x1xf32>
  %0 = graph.binary mul %x, %t : (!map, tensor<1x1xf32>) -> !map
  %1 = graph.matmul %0, %0 : (!map, !map) -> !map
  %2 = graph.softmax %1 {axis = 1 : i64} : !map
  func.return %2 : !map
}
"""
"""Scores far below the steps of a softmax operand, from a layer with nearly zero weights."""


@pytest.mark.needs("nnet", "vta")
def test_products_far_below_their_result_vanish(tmp_path: Path) -> None:
    model = tmp_path / "model.mlir"
    model.write_text(PRODUCT)
    data = str(tmp_path / "data.npz")
    save_arrays(data, {"x": np.random.default_rng(0).normal(size=(20, 8, 8)).astype(np.float32)})
    options = ["--calibrate", data, "--inputs", data, "--samples", "2"]
    assert verify_main([str(model), "--targets", "c,nnet,vta", *options]) == 0


SCALAR = """
func.func @main(%x: tensor<f32> {graph.name = "x"}) -> (tensor<f32> {graph.name = "y"}) {
  %c = graph.constant dense<1.0> : tensor<f32> : tensor<f32>
  %0 = graph.binary add %x, %c : (tensor<f32>, tensor<f32>) -> tensor<f32>
  func.return %0 : tensor<f32>
}
"""


@pytest.mark.needs("nnet", "vta")
def test_a_scalar_stays_one_in_integers(tmp_path: Path) -> None:
    model = tmp_path / "model.mlir"
    model.write_text(SCALAR)
    assert verify_main([str(model), "--targets", "c,nnet,vta", "--samples", "2"]) == 0
