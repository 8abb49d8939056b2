"""Run a sample of ONNX's node suite in the interpreter and C; `make fuzz-node-suite` runs all."""

import pytest
from frontends.fuzz_node_suite import difference, node_cases, outcomes
from generated.routes import quick_compiler
from numpy import array, float32, int8

EVERY, FIRST = 60, 7

pytestmark = pytest.mark.slow


def test_a_sample_is_right() -> None:
    right = 0
    # A single test, because ONNX needs half a minute to create the cases.
    with quick_compiler():
        for case in node_cases(EVERY, FIRST):
            for run, outcome in outcomes(case):
                assert not outcome.startswith("wrong"), f"{case.name} ({run}): {outcome}"
                right += outcome == "right"
    assert right > 50


def test_differences_are_found() -> None:
    tolerance = 1e-3, 1e-6
    real, whole = array([1.0, 2.0], float32), array([1, 2], int8)
    assert not difference({"y": real + float32(1e-4)}, {"y": real}, tolerance)
    assert "differs by" in difference({"y": real + float32(1e-2)}, {"y": real}, tolerance)
    assert "expected [1, 2]" in difference({"y": whole[::-1]}, {"y": whole}, tolerance)
    assert "int32" in difference({"y": whole.astype("int32")}, {"y": whole}, tolerance)
    assert "shape" in difference({"y": whole[:1]}, {"y": whole}, tolerance)
