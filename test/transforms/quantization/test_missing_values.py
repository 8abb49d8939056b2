"""Check networks with NaN for missing elements, which they replace."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import ceras_ir as ceras
from ceras_ir.network.function import inputs_with_missing_values, main_function

HEAD = """
  %c = graph.compare equal %x, %x : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<1x3xi1>
  %fill = graph.constant dense<[0.5, -1.0, 2.0]> : tensor<3xf32> : tensor<3xf32>
  %yes = graph.constant dense<true> : tensor<1xi1> : tensor<1xi1>
  %n = graph.binary xor %c, %yes : (tensor<1x3xi1>, tensor<1xi1>) -> tensor<1x3xi1>
"""
PRESENT = "%s = graph.select %c, %x, %fill : (tensor<1x3xi1>, tensor<1x3xf32>, tensor<3xf32>)"
MISSING = "%s = graph.select %n, %fill, %x : (tensor<1x3xi1>, tensor<3xf32>, tensor<1x3xf32>)"
TURNED = "%s = graph.select %n, %x, %fill : (tensor<1x3xi1>, tensor<1x3xf32>, tensor<3xf32>)"
SCALED = """%t = graph.binary mul %x, %fill : (tensor<1x3xf32>, tensor<3xf32>) -> tensor<1x3xf32>
  %d = graph.compare equal %t, %t : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<1x3xi1>
  %s = graph.select %d, %t, %fill : (tensor<1x3xi1>, tensor<1x3xf32>, tensor<3xf32>)"""
ADDED = "%s = graph.binary add %x, %fill : (tensor<1x3xf32>, tensor<3xf32>)"
OTHER = "%s = graph.select %c, %fill, %z : (tensor<1x3xi1>, tensor<3xf32>, tensor<1x3xf32>)"


def text(choice: str) -> str:
    """Return the text of the network, in which a layer uses the selected values."""
    return f"""
func.func @main(%x: tensor<1x3xf32>, %z: tensor<1x3xf32>) -> tensor<1x4xf32> {{
  {HEAD}
  {choice} -> tensor<1x3xf32>
  %w = graph.constant dense<[[0.3, -0.2, 0.1], [0.7, 0.4, -0.6], [-0.5, 0.9, 0.8],
    [0.2, 0.2, -0.9]]> : tensor<4x3xf32> : tensor<4x3xf32>
  %r = graph.matmul %s, %w : (tensor<1x3xf32>, tensor<4x3xf32>) -> tensor<1x4xf32>
  func.return %r : tensor<1x4xf32>
}}
"""


@pytest.mark.parametrize(
    ("choice", "lacking"),
    [
        (PRESENT, {"input0", "input1"}),
        (MISSING, {"input0", "input1"}),
        (SCALED, {"input0", "input1"}),
        # The values that are selected for missing elements.
        (TURNED, {"input1"}),
        (ADDED, {"input1"}),
        # The replacement may be NaN.
        (OTHER, {"input0"}),
    ],
    ids=["present", "missing", "scaled", "turned", "added", "other"],
)
def test_which_inputs_may_lack_elements(tmp_path: Path, choice: str, lacking: set[str]) -> None:
    (tmp_path / "n.mlir").write_text(text(choice))
    model = ceras.load(tmp_path / "n.mlir")
    assert inputs_with_missing_values(main_function(model.module)) == lacking


@pytest.mark.needs("nnet")
@pytest.mark.parametrize("choice", [PRESENT, MISSING, SCALED], ids=["present", "missing", "scaled"])
def test_what_is_missing_counts_as_what_replaces_it(tmp_path: Path, choice: str) -> None:
    """The integers equal the integers for data in which NaN was replaced in advance."""
    (tmp_path / "n.mlir").write_text(text(choice))
    random = np.random.default_rng(3)
    x = random.normal(size=(40, 1, 3)).astype(np.float32)
    gaps = random.random(x.shape) < 0.2
    fill = np.array([0.5, -1.0, 2.0], np.float32)
    filled = np.where(gaps, np.ones(3, np.float32) if choice is SCALED else fill, x)
    lacking = np.where(gaps, np.float32("nan"), x)
    model = ceras.load(tmp_path / "n.mlir")
    results: list[NDArray[np.float32]] = []
    for data in (filled, lacking):
        samples = {"input0": data, "input1": x}
        quantized = model.quantize(samples, target="nnet")
        (found,) = quantized.run(samples).values()
        results.append(found.astype(np.float32))
    assert np.array_equal(results[0], results[1])
    assert np.isfinite(results[0]).all()


@pytest.mark.needs("workbench")
def test_data_of_others_has_to_be_complete(tmp_path: Path) -> None:
    (tmp_path / "n.mlir").write_text(text(ADDED))
    model = ceras.load(tmp_path / "n.mlir")
    x = np.random.default_rng(3).normal(size=(40, 1, 3)).astype(np.float32)
    lacking = x.copy()
    lacking[7, 0, 1] = np.nan
    with pytest.raises(
        ceras.InputError, match=r"'input0' has NaN .* only if the network replaces it"
    ):
        model.quantize({"input0": lacking, "input1": x}, target="c")
    with pytest.raises(ceras.InputError, match="sample 7 of 'input0' has NaN"):
        ceras.compare(
            model, inputs={"input0": lacking, "input1": x}, calibration={"input0": x, "input1": x}
        )
