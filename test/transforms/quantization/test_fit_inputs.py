"""Check that `fit-inputs` fits the range, and that layers compute the same values."""

from math import ceil, inf, ldexp, log2
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.transforms.quantization.fit_inputs import MIN_STEP_RATIO, FitInputsPass, fitting_step

RNG = np.random.default_rng(0)
LOG_UNIFORM = np.exp2(RNG.uniform(-20, 20, (200, 2)))


@pytest.mark.parametrize("sides", [(-1, 0), (0, 1), (-1, 1)])
def test_range_and_zero_take_all_numbers(sides: tuple[int, int]) -> None:
    for drawn in LOG_UNIFORM:
        low, high = float(drawn[0] * sides[0]), float(drawn[1] * sides[1])
        step = fitting_step(low, high)
        if step is None:
            continue
        # With the zero point of choose-zero-points, both bounds are representable.
        assert ceil(-low / step) + high / step <= 255
        # The step is little above the smallest, and below the next power of two.
        assert (high - low) / 255 <= step <= (high - low) / 253
        assert ldexp(1.0, ceil(log2(step))) > MIN_STEP_RATIO * step / (1 + 1e-4)


@pytest.mark.parametrize(
    "range_",
    [(0, 1), (0, 255), (-1, 1), (-128, 127), (0, 0), (0, inf), (-2, 2), (0, 1e-38), (0, 1e38)],
)
def test_ranges_of_powers_of_two_stay(range_: tuple[float, float]) -> None:
    assert fitting_step(*range_) is None


CONVOLUTION = """
func.func @main(%x: tensor<1x4x5x2xf32> {graph.name = "x"}) -> tensor<1x2x3x3xf32> {
  %w = graph.constant dense<WEIGHTS> : tensor<3x3x3x2xf32> : tensor<3x3x3x2xf32>
  %b = graph.constant dense<[0.5, -1.0, 2.0]> : tensor<3xf32> : tensor<3xf32>
  %0 = graph.conv2d %x, %w bias %b : tensor<3xf32>
    {padding = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>}
    : (tensor<1x4x5x2xf32>, tensor<3x3x3x2xf32>) -> tensor<1x2x3x3xf32>
  func.return %0 : tensor<1x2x3x3xf32>
}
"""


def results(module: ModuleOp, samples: NDArray[np.float32]) -> NDArray[np.float64]:
    found = [next(iter(run(module, {"x": sample}).values())) for sample in samples]
    return np.stack([array.astype(np.float64) for array in found])


def test_layers_compute_the_same(tmp_path: Path) -> None:
    """The divisor of an input multiplies the weights, and padding remains zero."""
    x = RNG.integers(-100, 30, (4, 1, 4, 5, 2)).astype(np.float32) * np.float32(0.3)
    np.savez(tmp_path / "c.npz", x=x)
    weights = RNG.normal(size=(3, 3, 3, 2)).astype(np.float32)
    text = CONVOLUTION.replace("WEIGHTS", str(weights.tolist()))
    module = parse_text(load_context(), text, "text")
    before = results(module, x)
    FitInputsPass(str(tmp_path / "c.npz")).apply(load_context(), module)
    module.verify()
    assert "graph.binary" in str(module)
    np.testing.assert_allclose(results(module, x), before, rtol=1e-5, atol=1e-4)
