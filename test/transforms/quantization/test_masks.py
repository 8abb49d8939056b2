"""Test quantized attention with masks: scores keep their steps with any fill value."""

import re
from pathlib import Path

import numpy as np
import pytest
from noise_by_hand import ratio_by_hand
from numpy.typing import NDArray
from slow_cases import first_fast

import ceras_ir as ceras

SOURCE = """
func.func @main(%x: tensor<4x8xf32>, %m: tensor<1x4xi64>) -> tensor<4x4xf32> {
  %k = graph.constant dense<KEYS> : tensor<4x8xf32> : tensor<4x8xf32>
  %v = graph.constant dense<VALUES> : tensor<4x4xf32> : tensor<4x4xf32>
  %one = graph.constant dense<1> : tensor<1xi64> : tensor<1xi64>
  %i = graph.constant dense<FILL> : tensor<1xf32> : tensor<1xf32>
  %z = graph.constant dense<0.0> : tensor<1xf32> : tensor<1xf32>
  %c = graph.compare equal %m, %one : (tensor<1x4xi64>, tensor<1xi64>) -> tensor<1x4xi1>
  %0 = graph.select %c, %z, %i : (tensor<1x4xi1>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x4xf32>
  %1 = graph.matmul %x, %k : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  %2 = graph.binary add %1, %0 : (tensor<4x4xf32>, tensor<1x4xf32>) -> tensor<4x4xf32>
  %3 = graph.softmax %2 {axis = 1 : i64} : tensor<4x4xf32>
  %4 = graph.matmul %3, %v : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %4 : tensor<4x4xf32>
}
"""
GIVEN = re.sub(
    r"(?s)  %one =.*?(?=  %1 =)", "", SOURCE.replace("%m: tensor<1x4xi64>", "%0: tensor<1x4xf32>")
)
"""The same network with the mask as an input."""

FILLS = {"-inf": "0xFF800000", "least": "-3.4028235e38", "bert": "-1.0e4", "swin": "-100.0"}


def masked(folder: Path, fill: str, source: str = SOURCE) -> Path:
    random = np.random.default_rng(5)
    text = source.replace("FILL", fill)
    text = text.replace("KEYS", str(random.normal(size=(4, 8)).round(3).tolist()))
    path = folder / "masked.mlir"
    path.write_text(text.replace("VALUES", str(random.normal(size=(4, 4)).round(3).tolist())))
    return path


def data(count: int) -> dict[str, NDArray[np.generic]]:
    """Draw data with 1 to 4 tokens present."""
    random = np.random.default_rng(6)
    lengths = random.integers(1, 5, count)
    return {
        "input0": random.normal(size=(count, 4, 8)).astype(np.float32),
        "input1": (np.arange(4) < lengths[:, None]).astype(np.int64),
    }


def adding(fill: float, present: NDArray[np.generic]) -> NDArray[np.float32]:
    """Return the mask that is added to the scores of tokens: 0, or `fill` for missing tokens."""
    return np.where(np.equal(present, 1), 0, fill).astype(np.float32)[:, None]


def result(model: ceras.Model, samples: dict[str, NDArray[np.generic]]) -> NDArray[np.float64]:
    (found,) = model.run(samples).values()
    return found.astype(np.float64)


@pytest.mark.parametrize("fill", first_fast(1, FILLS))
def test_scores_beside_a_mask(tmp_path: Path, fill: str) -> None:
    model, samples = ceras.load(masked(tmp_path, FILLS[fill])), data(40)
    expected, actual = result(model, samples), result(model.quantize(samples, target="c"), samples)
    assert ratio_by_hand(expected, actual) > 30


@pytest.mark.parametrize("fill", first_fast(1, [-1e4, -100.0, float(np.finfo(np.float32).min)]))
@pytest.mark.parametrize("target", ["c", "vta"])
def test_scores_beside_an_input_that_masks(tmp_path: Path, fill: float, target: str) -> None:
    """The mask is not quantized, so scores keep their steps. It was 6.6 dB."""
    model, samples = ceras.load(masked(tmp_path, "", GIVEN)), data(40)
    samples["input1"] = np.where(np.equal(samples["input1"], 1), 0, fill).astype(np.float32)[
        :, None
    ]
    quantized = model.quantize(samples, target=target)
    expected, actual = result(model, samples), result(quantized, samples)
    assert ratio_by_hand(expected, actual) > 30


def test_a_mask_of_infinities_is_told_what_to_be(tmp_path: Path) -> None:
    model, samples = ceras.load(masked(tmp_path, "", GIVEN)), data(40)
    samples["input1"] = np.where(np.equal(samples["input1"], 1), 0, -np.inf).astype(np.float32)[
        :, None
    ]
    with pytest.raises(ceras.InputError, match=r"'input1' has NaN or infinite elements: .* -10000"):
        model.quantize(samples, target="c")


@pytest.mark.needs("workbench")
@pytest.mark.slow
def test_infinite_values_are_no_noise(tmp_path: Path) -> None:
    """Selections, indices and infinite values are compared directly."""
    model, samples = ceras.load(masked(tmp_path, FILLS["-inf"])), data(40)
    found = ceras.compare(model, inputs=samples, calibration=samples)
    assert found.decibels > 30
    assert all(np.isfinite(layer.signal) for layer in found.layers)
    assert not any(np.isnan(layer.accumulated) for layer in found.layers)


def test_made_up_samples_that_hide_all(tmp_path: Path) -> None:
    """The softmax of a row without scores is undefined: the message asks for data."""
    model = ceras.load(masked(tmp_path, FILLS["-inf"]))
    with pytest.warns(ceras.CerasWarning), pytest.raises(ceras.InputError, match="give calibr"):
        model.quantize(target="c")
