"""Run a small sample of the mutants of `make fuzz-ir`: each command has to report the error."""

import shutil
import sys

import pytest
from mutants.forked import Outcome
from mutants.fuzz import COMPILED, outcomes

FILES = (
    *("folder", "npz", "study", "bytes"),
    *("frontend", "nnet", "data", "plugin", "option", "where"),
)
"""The kinds that share the compiled folders."""

COUNTS = {"ir": 8, "onnx": 4, "npz": 3, "study": 4, "bytes": 5, "frontend": 4, "data": 4}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it forks")
@pytest.mark.parametrize("kinds", [("ir",), ("onnx",), pytest.param(FILES, marks=pytest.mark.slow)])
def test_a_sample(kinds: tuple[str, ...]):
    first = 10_000
    try:
        for kind in kinds:
            bad = [
                o for o in outcomes(kind, range(first, first + COUNTS.get(kind, 2))) if not o.good
            ]
            assert not bad, bad[0].errors
    finally:
        shutil.rmtree(COMPILED, ignore_errors=True)


def test_what_counts_as_good():
    assert all(Outcome("", status, "f: error: no").good for status in (0, 1, 2, 3))
    assert not any(Outcome("", status, "").good for status in (-11, -14, 70, 99))
    assert not Outcome("", 1, "Traceback (most recent call last):").good
