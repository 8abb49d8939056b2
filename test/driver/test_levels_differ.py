"""Check which results of two levels count as equal."""

from math import inf, nan

import numpy as np
import pytest

from ceras_ir.driver.differences import (
    compare_outputs,
    describe_noise,
    relative_difference,
)
from ceras_ir.transforms.quantization.analysis.output_noise import noise_of


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


def test_noise_is_told_of_each_output() -> None:
    """All outputs have the same weight: exact labels do not hide the noise of scores."""
    signs = (-1, 1, -1, 1)  # The variance is 4/3.
    floats = [{"scores": np.array([s], np.float32), "label": np.array([100 * s])} for s in signs]
    moved = np.float32((4 / 3 / 100) ** 0.5)  # The noise has a hundredth of the power: 20 dB.
    near = [outputs | {"scores": outputs["scores"] + moved} for outputs in floats]
    assert (
        describe_noise(noise_of(floats, near)) == "signal to noise 23.0 dB (scores 20.0, label inf)"
    )
    scores, exact = ([{"scores": each["scores"]} for each in of] for of in (near, floats))
    assert describe_noise(noise_of(exact, scores)) == "signal to noise 20.0 dB"
    alone = describe_noise(noise_of(exact[:1], scores[:1]))
    assert (
        alone == "signal to noise n/a (the ratio needs two or more samples with different outputs)"
    )
    many = [{f"y{i}": np.array([s], np.float32) for i in range(6)} for s in signs]
    noisy = [{n: a + moved * int(n[1]) for n, a in outputs.items()} for outputs in many]
    found = describe_noise(noise_of(many, noisy))
    assert found.endswith(
        "dB (y5 6.0, y4 8.0, y3 10.5, y2 14.0; the other outputs have less noise)"
    )
