"""When two levels count as equal."""

from math import inf, isnan, nan

import numpy as np
import pytest

from ceras_ir.driver.differences import (
    compare_outputs,
    describe_noise,
    relative_difference,
    signal_to_noise,
)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("actual", "expected", "difference"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.5], [1.0, 2.0], 0.25),
        ([nan, inf, -inf, 2.0], [nan, inf, -inf, 1.0], 1.0),
        ([nan, 1.0], [1.0, 1.0], inf),
        ([1.0, 1.0], [1.0, nan], inf),
        ([inf, 1.0], [-inf, 1.0], inf),
        ([1e30, 1.0], [inf, 1.0], inf),
        ([], [], 0.0),
    ],
)
def test_floats(actual: list[float], expected: list[float], difference: float) -> None:
    a, e = (np.array(v, np.float32) for v in (actual, expected))
    assert relative_difference(a, e) == difference
    found = compare_outputs({"y": a}, {"y": e}, exact=False)
    assert (found is None) == (difference == 0.0)


@pytest.mark.filterwarnings("error")
def test_ratios() -> None:
    one, many = np.ones(1, np.float32), np.array([1.0, inf], np.float32)
    assert signal_to_noise([one], [one]) == inf
    assert signal_to_noise([one * 11], [one * 10]) == pytest.approx(20)
    assert isnan(signal_to_noise([many], [many]))


def test_noise_is_told_of_each_output() -> None:
    """One of whole numbers, as labels are, would hide how near the others are."""
    floats = [{"scores": np.full(4, 10.0, np.float32), "label": np.array([100])}] * 2
    near = [outputs | {"scores": outputs["scores"] * np.float32(1.1)} for outputs in floats]
    assert describe_noise(near, floats) == "signal to noise 34.1 dB (scores 20.0, label inf)"
    one = [[{"scores": outputs["scores"]} for outputs in of] for of in (near, floats)]
    assert describe_noise(*one) == "signal to noise 20.0 dB"
    many = [{f"y{i}": np.full(1, 10.0 + i * by, np.float32) for i in range(6)} for by in (0, 1)]
    found = describe_noise(many[1:], many[:1])
    assert found.endswith("dB (y5 6.0, y4 8.0, y3 10.5, y2 14.0, and others less noisy)")
