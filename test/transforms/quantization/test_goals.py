"""Check that a goal for the noise at the outputs is met, or that the message says why it is not."""

import re
from pathlib import Path

import numpy as np
import pytest

from ceras_ir.data.array_archive import save_arrays
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.transforms.quantization.analysis.output_noise import output_ratio
from ceras_ir.transforms.quantization.quantize import QuantizePass

NETWORK = """
func.func @main(%x: tensor<1x8xf32>) -> tensor<1x8xf32> {{
  %w = graph.constant dense<{weights[0]}> : tensor<8x8xf32> : tensor<8x8xf32>
  %v = graph.constant dense<{weights[1]}> : tensor<8x8xf32> : tensor<8x8xf32>
  %0 = graph.matmul %x, %w {{activation = #graph.function<relu>}}
      : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32>
  %1 = graph.matmul %0, %v : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32>
  func.return %1 : tensor<1x8xf32>
}}
"""
MARGIN_DB = 2.0
"""The difference of the ratios on two sets of samples."""


@pytest.mark.parametrize(
    ("goal", "budget", "reason"),
    [
        (25, 0.9, "the goal is met"),
        (50, 0.9, "the goal is met"),
        (60, 0.2, "no other value fits in --budget"),
        (120, 0.99, "all values with noise have 16 bits"),
    ],
)
def test_goal_is_met_or_the_reason_is_printed(
    goal: float, budget: float, reason: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(1)
    # Int8 represents these weights exactly, so that only stored values are rounded.
    weights = [(random.integers(-64, 65, (8, 8)) / 64).tolist() for _ in range(2)]
    module = parse_text(load_context(), NETWORK.format(weights=weights), "m.mlir")
    floats, arrays = module.clone(), random.normal(0, 1, (104, 8)).astype(np.float32)
    data = str(tmp_path / "c.npz")
    save_arrays(data, {"input0": arrays[:64]})
    recipe = ("choose-precision",)
    quantize = QuantizePass(data, recipe=recipe, goal=goal, budget=budget, observer="minmax")
    quantize.apply(load_context(), module)
    text = capfd.readouterr().err
    found = re.search(r"measured (?:.* -> )?([0-9.]+) dB \(.*: ([0-9.]+) dB; (.*?)\)", text)
    assert found is not None, text
    assert float(found[2]) == goal
    assert found[3] == reason, text
    assert (float(found[1]) >= goal) == (reason == "the goal is met")
    ratio = output_ratio(floats, module, [{"input0": array[None]} for array in arrays[64:]])
    assert abs(ratio - float(found[1])) < MARGIN_DB


@pytest.mark.parametrize(
    ("target", "goal", "is_met"), [("c", 36, True), ("c", 120, False), ("nnet", 36, False)]
)
def test_images_may_take_half_more_time_on_a_host_to_meet_the_goal(
    target: str, goal: float, is_met: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The result has the extents of the input, so it counts as an image or sound."""
    random = np.random.default_rng(1)
    weights = [random.uniform(-1, 1, (8, 8)).astype(np.float32).tolist() for _ in range(2)]
    module = parse_text(load_context(), NETWORK.format(weights=weights), "m.mlir")
    data = str(tmp_path / "c.npz")
    save_arrays(data, {"input0": random.normal(0, 1, (64, 8)).astype(np.float32)})
    recipe = ("choose-precision",)
    QuantizePass(data, recipe=recipe, goal=goal, target=target).apply(load_context(), module)
    text = capfd.readouterr().err
    found = re.search(r"for ([0-9.]+)% of the modelled time", text)
    percent = float(found[1]) if found else 0.0
    assert (10 < percent <= 50) if is_met else percent <= 10, text
    assert ("the goal is met" in text) == is_met
