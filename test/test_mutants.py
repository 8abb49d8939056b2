"""Run a small sample of the mutants of `make fuzz-ir`: each command has to report the error."""

import sys

import pytest
from mutants.forked import Outcome
from mutants.fuzz import outcomes
from slow_cases import slow

COUNTS = {"ir": 8, "onnx": 4, "folder": 2, "npz": 4, "study": 8, "bytes": 8}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it forks")
@pytest.mark.parametrize("kind", ["ir", "onnx", *map(slow, ("folder", "npz", "study", "bytes"))])
def test_a_sample(kind: str):
    first = 10_000
    bad = [o for o in outcomes(kind, range(first, first + COUNTS[kind])) if not o.good]
    assert not bad, bad[0].errors


def test_what_counts_as_good():
    assert all(Outcome("", status, "f: error: no").good for status in (0, 1, 2, 3))
    assert not any(Outcome("", status, "").good for status in (-11, -14, 70, 99))
    assert not Outcome("", 1, "Traceback (most recent call last):").good
