"""Check that the signal of an output is the variance over samples, for each quantity."""

import warnings
from math import inf, isnan
from pathlib import Path

import numpy as np
import pytest
from noise_by_hand import ratio_by_hand
from numpy.typing import NDArray
from onnx_models import model, node
from xdsl.dialects.func import FuncOp

import ceras_ir as ceras
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.transforms.quantization.analysis.output_noise import (
    Moments,
    OutputNoise,
    decibels,
    quantities_of_outputs,
    ratio_of,
)

RNG = np.random.default_rng(11)
Reals = NDArray[np.float64]


def noise_of_arrays(real: Reals, actual: Reals) -> OutputNoise:
    noise = OutputNoise()
    for one, other in zip(real, actual, strict=True):
        noise.add(one, other)
    return noise


@pytest.mark.parametrize("offset", [0.0, 1013.0, -1e6])
def test_an_offset_is_no_signal(offset: float) -> None:
    real = RNG.normal(0, 0.5, (50, 3)) + offset
    actual = np.rint(real * 4) / 4
    assert noise_of_arrays(real, actual).ratio == pytest.approx(
        ratio_by_hand(real, actual), abs=1e-6
    )


def test_offsets_may_differ_from_element_to_element() -> None:
    real = RNG.normal(size=(20, 2, 4, 4)) + RNG.uniform(-100, 100, (2, 4, 4))
    actual = real + RNG.normal(size=real.shape)
    found = noise_of_arrays(real, actual).ratio
    assert found == pytest.approx(ratio_by_hand(real, actual)) and abs(found) < 1


def test_a_ratio_that_is_not_available() -> None:
    one, many = np.ones((1, 4)), np.ones((5, 4))
    assert isnan(noise_of_arrays(one, one * 2).ratio)
    assert isnan(noise_of_arrays(many, many).ratio) and isnan(noise_of_arrays(many, many * 2).ratio)
    # Rounding errors of float32 are no variance.
    jitter = (many * 1013 * (1 + 2.0**-24 * RNG.integers(-1, 2, many.shape))).astype(np.float32)
    assert isnan(noise_of_arrays(jitter.astype(np.float64), many).ratio)
    varied = RNG.normal(size=(5, 4))
    assert noise_of_arrays(varied, varied).ratio == inf
    # An output that does not vary is left out of the mean.
    expected = [{"a": row, "b": one[0]} for row in varied]
    actual = [{"a": row * 1.1, "b": 2 * one[0]} for row in varied]
    assert ratio_of(expected, actual) == pytest.approx(ratio_by_hand(varied, varied * 1.1))


def test_infinities() -> None:
    real = np.array([[inf, 1.0], [inf, 2.0], [inf, 4.0]])
    assert noise_of_arrays(real, real).ratio == inf
    assert noise_of_arrays(real, np.where(real == 2.0, np.nan, real)).ratio == -inf
    assert decibels(1.0, inf) == -inf


def test_large_numbers_do_not_overflow() -> None:
    real = RNG.normal(size=(9, 4)).astype(np.float32) * np.float32(1e38)
    actual = (real * np.float32(1.01)).astype(np.float32)
    noise = OutputNoise()
    for one, other in zip(real, actual, strict=True):
        noise.add(one, other)
    assert noise.ratio == pytest.approx(ratio_by_hand(real, actual))


def test_parts_are_merged() -> None:
    rows = RNG.normal(5, 2, (23, 3))
    whole, parts = Moments(), Moments()
    whole.add(rows)
    for part in (rows[:1], rows[1:9], rows[9:9], rows[9:]):
        other = Moments()
        if len(part):
            other.add(part)
        parts.merge(other)
    for found in (whole, parts):
        assert np.allclose(found.mean, rows.mean(0))
        assert np.allclose(found.variance, rows.var(0, ddof=1))


def network(text: str) -> FuncOp:
    return main_function(parse_text(load_context(), text, "outputs.mlir"))


HEADS = """
func.func @main(%x: tensor<8x16xf32>) -> (tensor<8x7xf32> {graph.name = "found"}) {
  %w = graph.constant dense<0.5> : tensor<4x16xf32> : tensor<4x16xf32>
  %v = graph.constant dense<0.25> : tensor<3x16xf32> : tensor<3x16xf32>
  %0 = graph.matmul %x, %w : (tensor<8x16xf32>, tensor<4x16xf32>) -> tensor<8x4xf32>
  %1 = graph.matmul %x, %v : (tensor<8x16xf32>, tensor<3x16xf32>) -> tensor<8x3xf32>
  %2 = graph.unary <sigmoid> %1 : tensor<8x3xf32>
  %3 = graph.concat %0, %2 {axis = 1 : i64} : (tensor<8x4xf32>, tensor<8x3xf32>) -> tensor<8x7xf32>
  func.return %3 : tensor<8x7xf32>
}
"""


def test_boxes_and_scores_are_two_quantities() -> None:
    """The noise of the lost scores has the same weight as the noise of the boxes."""
    quantities = quantities_of_outputs(network(HEADS))["found"]
    real = np.concatenate([RNG.uniform(0, 640, (30, 8, 4)), RNG.uniform(0, 1, (30, 8, 3))], axis=2)
    actual = np.rint(real / 4) * 4
    noise = OutputNoise(quantities)
    for one, other in zip(real, actual, strict=True):
        noise.add(one, other)
    parts = slice(4), slice(4, 7)
    shares = [10 ** (-ratio_by_hand(real[..., p], actual[..., p]) / 10) for p in parts]
    assert shares[0] < 1e-3 and shares[1] > 1
    assert noise.ratio == pytest.approx(-10 * np.log10(np.mean(shares)))


CHANNELS = """
func.func @main(%x: tensor<1x16xf32>) -> (tensor<1x3xf32> {graph.name = "y"}) {
  %w = graph.constant dense<0.5> : tensor<3x16xf32> : tensor<3x16xf32>
  %0 = graph.matmul %x, %w : (tensor<1x16xf32>, tensor<3x16xf32>) -> tensor<1x3xf32>
  FUNCTION
}
"""
PLAIN = "func.return %0 : tensor<1x3xf32>"
RELU = "%1 = graph.unary <relu> %0 : tensor<1x3xf32>\n  func.return %1 : tensor<1x3xf32>"


@pytest.mark.parametrize(
    ("function", "scales", "several"),
    [
        (PLAIN, (10.0, 500.0, 0.3), True),
        # Logits are compared with each other.
        (PLAIN, (1.0, 3.0, 0.5), False),
        # A channel after a rectifier is almost always zero.
        (RELU, (10.0, 500.0, 0.3), False),
    ],
)
def test_channels_of_a_layer(function: str, scales: tuple[float, ...], several: bool) -> None:
    quantities = quantities_of_outputs(network(CHANNELS.replace("FUNCTION", function)))
    real = RNG.normal(size=(40, 1, 3)) * scales + 1000
    actual = np.rint(real / 4) * 4
    noise = OutputNoise(quantities.get("y"))
    for one, other in zip(real, actual, strict=True):
        noise.add(one, other)
    expected = ratio_by_hand(real, actual)
    if several:
        each = [10 ** (-ratio_by_hand(real[..., c], actual[..., c]) / 10) for c in range(3)]
        expected = -10 * np.log10(np.mean(each))
    assert noise.ratio == pytest.approx(expected)


REGRESSOR = """
!row = tensor<1x8xf32>
!one = tensor<1xf32>
!result = tensor<1x1xf32>
func.func @main(%x: !row {graph.name = "x"}) -> (!result {graph.name = "y"}) {
  %w = graph.constant dense<[[0.25, -0.5, 0.125, 0.3, -0.2, 0.4, -0.1, 0.05]]> : !row : !row
  %b = graph.constant dense<1013.0> : !one : !one
  %0 = graph.matmul %x, %w bias %b : !one : (!row, !row) -> !result loc("pressure")
  func.return %0 : !result
}
"""


@pytest.mark.parametrize("target", ["c", "nnet", "vta"])
def test_a_regressor_with_an_offset(target: str, tmp_path: Path) -> None:
    """A step of 8 bits is as large as eight standard deviations of 1013 +- 0.5."""
    path = tmp_path / "pressure.mlir"
    path.write_text(REGRESSOR)
    weights = np.array([0.25, -0.5, 0.125, 0.3, -0.2, 0.4, -0.1, 0.05])
    # Draws that depend on the order of tests would sometimes have a ratio below 20 dB.
    calibration, test = np.random.default_rng(0).normal(0, 0.6, (2, 40, 1, 8)).astype(np.float32)
    right = test.astype(np.float64) @ weights[:, None] + 1013
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        quantized = ceras.load(path).quantize({"x": calibration}, target=target)
    found = quantized.run({"x": test})["y"].reshape(right.shape)
    # A 16-bit result of the only layer would double the time of an accelerator.
    is_told = any("int8 is too coarse for this network" in str(w.message) for w in said)
    assert is_told == (target != "c") and (ratio_by_hand(right, found) > 20) != is_told


@pytest.mark.needs("nnet")
def test_a_network_without_a_ratio_is_quantized(tmp_path: Path) -> None:
    """The output is constant in float32, so that no decibels can be noted."""
    proto = model(
        [node("Sigmoid", "x", "s"), node("Add", "s b", "y")],
        {"x": (1, 4)},
        ["y"],
        {"b": np.float32(1e9)},
    )
    (path := tmp_path / "model.onnx").write_bytes(proto.SerializeToString())
    samples = RNG.normal(size=(16, 4)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ceras.CerasWarning)
        quantized = ceras.load(path).quantize(samples, target="nnet")
    (result,) = quantized.run(samples).values()
    np.testing.assert_allclose(np.asarray(result, np.float64), 1e9, rtol=0.01)
