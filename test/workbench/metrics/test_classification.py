"""Compare agreement, top-1, top-5 and intersection over union with values by hand."""

import numpy as np
import pytest
from numpy.typing import NDArray

from ceras_ir.support.diagnostics import InputError
from ceras_ir.workbench.metrics.choose import Judge, Judgement
from ceras_ir.workbench.metrics.figures import Chosen, Measured, gain, measured

Array = NDArray[np.float32]


def judged(real: Array, quantized: Array, labels: NDArray[np.integer]) -> dict[str, Measured]:
    judge = Judge(Judgement(None, labels))
    for one, other in zip(real, quantized, strict=True):
        judge.add({"y": one[None]}, {"y": other[None]})
    return {m.name: m for m in measured(judge.figures(), len(real))}


def test_top() -> None:
    """The first class of several with equal scores counts."""
    real = np.array([[1, 3, 2], [2, 2, 1], [0, 0, 5]], np.float32)
    found = judged(real, -real, np.array([1, 1, 1]))
    assert (found["top-1"].real, found["top-1"].quantized) == (1 / 3, 0)
    assert found["agreement"].quantized == 0 and "top-5" not in found
    # The differences are -1, 0, 0: their mean has a standard error of sqrt(2 / 9 / 3).
    assert found["top-1"].error == pytest.approx((2 / 27) ** 0.5, rel=0.4)


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_that_is_no_class_is_refused(label: int) -> None:
    with pytest.raises(InputError, match=f"label {label} is no class of output 'y': they are 0 to"):
        judged(np.eye(3, dtype=np.float32), np.eye(3, dtype=np.float32), np.array([0, label, 7]))


def test_segmentation_metrics() -> None:
    labels = np.array([[[0, 1], [1, 255]]])
    scores = np.zeros((1, 2, 2, 2), np.float32)
    scores[0, 1] = [[-1, 1], [-1, 1]]
    found = judged(scores, -scores, labels)
    # Float predicts [[0, 1], [0, 1]]; negated, [[1, 0], [1, 0]].
    assert found["IoU of class 0"].real == 1 / 2 and found["IoU of class 0"].quantized == 0
    assert found["IoU of class 1"].real == 1 / 2 and found["IoU of class 1"].quantized == 1 / 3
    assert found["agreement"].quantized == 0


@pytest.mark.parametrize("bound", [0.5, 0.0])
def test_segmentation_of_one_channel(bound: float) -> None:
    """The bound is 0.5 if scores are probabilities, otherwise 0."""
    labels = np.array([[[0, 1], [1, 1]]])
    real = np.array([[[[0.0, 0.3], [0.7, 1.0]]]], np.float32) - np.float32(0.5 - bound)
    found = judged(real, np.float32(2 * bound) - real, labels)
    # Float predicts [[0, 0], [1, 1]], the other [[1, 1], [0, 0]].
    assert found["IoU of class 0"].real == 1 / 2 and found["IoU of class 0"].quantized == 0
    assert found["IoU of class 1"].real == 2 / 3 and found["IoU of class 1"].quantized == 1 / 4
    assert found["agreement"].quantized == 0


def test_gains_of_exact_networks_are_finite() -> None:

    def noisy(_: Chosen) -> float:
        return 20.0

    def exact(_: Chosen) -> float:
        return float("inf")

    assert gain(noisy, exact, 4) == (280.0, 0.0)
