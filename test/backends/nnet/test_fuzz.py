"""Run libFuzzer from the stored corpus for some seconds; `make fuzz-nnet` runs minutes."""

from pathlib import Path

import pytest
from backends.nnet.fuzz import fuzz


@pytest.mark.slow
def test_fuzzing_finds_nothing(tmp_path: Path):
    if not fuzz.has_compiler():
        pytest.skip("no clang++")
    program = fuzz.build(tmp_path)
    found = tmp_path / "found"
    found.mkdir()
    log = fuzz.fuzz(program, found, seconds=8)
    assert "stat::number_of_executed_units" in log
