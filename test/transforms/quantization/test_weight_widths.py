"""Choose widths of weights for a limit of bytes: `--flash` and `weight_bytes`."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from ceras_ir import load
from ceras_ir.api.presentation import CerasWarning
from ceras_ir.dialects import graph
from ceras_ir.driver.compile import main as compile_main
from ceras_ir.driver.verify.tool import main as verify_main
from ceras_ir.frontends.onnx import import_file
from ceras_ir.network.function import main_function, quantized_layers
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.pass_options import build
from ceras_ir.transforms.graph.fuse import FusePass
from ceras_ir.transforms.quantization.quantize import QuantizePass
from ceras_ir.transforms.quantization.set_weight_bits import SetWeightBitsPass
from ceras_ir.transforms.quantization.weight_widths import (
    WeightGroup,
    equal_widths,
    grouped,
    least_noise,
    measured_ratios,
)

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
MODEL, CALIBRATION = str(DIGITS / "digits.onnx"), str(DIGITS / "digits_calibration.npz")
WIDTHS = range(2, 9)
WEIGHTS = [(16, 9), (32, 144), (32, 288), (10, 32)]
"""The rows, and the weights of a row, of each layer."""


def fused() -> ModuleOp:
    """Return the network before the pass `set-weight-bits` of `quantize`."""
    module = import_file(MODEL)
    FusePass().apply(load_context(), module)
    for each in QuantizePass(target="c", weight_bits=("8",)).passes():
        if isinstance(each, SetWeightBitsPass):
            break
        each.apply(load_context(), module)
    return module


def constant_layers(module: ModuleOp) -> list[graph.LinearOperation]:
    return list(quantized_layers(main_function(module)))


def groups() -> list[WeightGroup]:
    return grouped(constant_layers(fused()), {}, WIDTHS)


def sizes(choice: list[int] | tuple[int, ...]) -> int:
    """Return the packed bytes of the layers; a row has whole bytes."""
    return sum(
        rows * -(-count * bits // 8) for (rows, count), bits in zip(WEIGHTS, choice, strict=True)
    )


@pytest.mark.parametrize("seed", range(6))
def test_no_other_choice_has_less_noise(seed: int) -> None:
    random = np.random.default_rng(seed)
    found = groups()
    for group in found:
        group.noise = {bits: float(random.random() * 4.0**-bits) for bits in WIDTHS}
    limit = int(random.integers(sizes([2] * 4), 16384))
    chosen = least_noise(found, limit)
    noises = {
        choice: sum(group.noise[b] for group, b in zip(found, choice, strict=True))
        for choice in product(WIDTHS, repeat=4)
        if sizes(choice) <= limit
    }
    assert sizes(chosen) <= limit
    assert noises[tuple(chosen)] == min(noises.values())


def test_limits_that_are_too_small_or_large() -> None:
    found = groups()
    for group in found:
        group.noise = {bits: 2.0**-bits for bits in WIDTHS}
    assert least_noise(found, 10) == least_noise(found, -5) == [2] * 4
    assert equal_widths(found, 10) is None
    assert least_noise(found, sizes([8] * 4)) == equal_widths(found, sizes([8] * 4)) == [8] * 4
    assert equal_widths(found, sizes([5] * 4) + 1) == [5] * 4


def test_given_widths_remain() -> None:
    module = fused()
    layers = constant_layers(module)
    options = f"weight_bytes=6000 weight_bits=3:wide*,8:residual* calibration={CALIBRATION}"
    build(SetWeightBitsPass, options).apply(load_context(), module)
    bits = [op.attributes.get("graph.weight_bits") for op in layers]
    assert "3 : i64" in str(bits[1]) and bits[2] is None


def test_the_choice_is_better_than_equal_widths(capsys: pytest.CaptureFixture[str]) -> None:
    module = fused()
    options = f"weight_bytes=6000 calibration={CALIBRATION}"
    build(SetWeightBitsPass, options).apply(load_context(), module)
    assert "weights in 5," in capsys.readouterr().err
    original = fused()
    found = grouped(constant_layers(original), {}, WIDTHS)
    chosen = [
        int(str(op.attributes.get("graph.weight_bits", "8")).split()[0])
        for op in constant_layers(module)
    ]
    samples = [{"image": row[None]} for row in np.load(CALIBRATION)["image"][:40]]
    equal = equal_widths(found, 6000)
    assert equal is not None and sizes(chosen) <= 6000
    ratios = measured_ratios(original, samples, found, [chosen, equal], 1)
    assert ratios[0] > ratios[1] + 3


def compiled(tmp_path: Path, *options: str) -> int:
    out = ["-o", str(tmp_path / "out"), "--target", "c", "--force"]
    return compile_main([MODEL, *out, *options])


@pytest.mark.parametrize(("size", "limit"), [("6K", 6144), ("20K", 20480)])
def test_the_network_fits(
    size: str, limit: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compiled(tmp_path, "--calibrate", CALIBRATION, "--flash", size) == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["totals"]["flash_bytes"] <= limit
    bits = [entry["weight_bits"] for entry in report["layers"] if "weight_bits" in entry]
    text = capsys.readouterr()
    assert (min(bits) < 8) == (limit < 16384) == ("weight_noise_db" in report["quantization"])
    assert ("signal to noise of rounding to nearest" in text.err) == (limit < 16384)
    assert ("rounded weights: signal to noise" in text.out) == (limit < 16384)
    assert ("bytes of flash fit with weights of 8 bits" in text.err) == (limit > 16384)


def test_other_tools_fit_the_network(capsys: pytest.CaptureFixture[str]) -> None:
    """`ceras-verify` and the Python API choose the widths of `ceras-compile`, with a warning."""
    with pytest.warns(CerasWarning, match="below the goal of scores of classes, 30 dB"):
        network = load(MODEL).quantize(CALIBRATION, target="c", flash=5000)
    flash = network.compile("c").totals["flash_bytes"]
    assert isinstance(flash, int) and flash <= 5000
    options = "--calibrate", CALIBRATION, "--flash", "5000", "--no-reference"
    assert verify_main([MODEL, *options]) == 0
    text = capsys.readouterr()
    assert "c: machine                       exact" in text.out and "nnet" not in text.out
    assert "set-weight-bits: note: weights in" in text.err
    assert verify_main([MODEL, *options, "--targets", "vta"]) == 2


def test_a_network_that_does_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--calibrate", CALIBRATION, "--budget", "0", "--io", "int8"]
    assert compiled(tmp_path, *given, "--flash", "3000") == 3
    error = capsys.readouterr().err
    assert "unsupported size: flash 4,3" in error and "the limit is 3,000" in error
    assert "What would fit: (1) --flash 5K" in error
    assert compiled(tmp_path, *given, "--flash", "5K") == 0


NO_PRODUCTS = """
func.func @main(%x: tensor<4096xf32>) -> tensor<4096xf32> {
  %c = graph.constant dense<CONSTANT> : tensor<4096xf32> : tensor<4096xf32>
  %y = graph.binary add %x, %c : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  func.return %y : tensor<4096xf32>
}
"""


def test_no_weights_whose_bits_can_be_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = np.random.default_rng(0).normal(0, 1, 4096).astype("<f4").tobytes().hex().upper()
    model, data = tmp_path / "sum.mlir", tmp_path / "c.npz"
    model.write_text(NO_PRODUCTS.replace("CONSTANT", f'"0x{values}"'))
    np.savez(data, allow_pickle=False, input0=np.ones((2, 4096), np.float32))
    given = [str(model), "-o", str(tmp_path / "out"), "--calibrate", str(data), "--flash", "1K"]
    assert compile_main([*given, "--target", "c"]) == 3
    assert "no layer has weights whose bits can be chosen" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--flash", "6K"], "--flash chooses widths by the noise on samples: add --calibrate"),
        (["--flash", "six"], "expected bytes such as 64K or 65536, got 'six'"),
        (["--flash", "0"], "expected at least a byte"),
        (
            ["--flash", "6K", "--target", "vta", "--calibrate", CALIBRATION],
            "target vta stores weights in bytes",
        ),
    ],
)
def test_wrong_usage(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        try:
            status = compiled(tmp_path, *options)
        except SystemExit as error:
            status = error.code
    assert status == 2 and message in capsys.readouterr().err
