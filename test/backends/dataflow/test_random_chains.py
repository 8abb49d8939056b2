"""Run some of the chains of `fuzz.py`; `make fuzz-dataflow COUNT=300` runs more."""

import pytest
from backends.dataflow.fuzz import run_seed
from dataflow_circuits import needs_verilator


@needs_verilator
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
def test_random_chain(seed: int):
    run_seed(seed)
