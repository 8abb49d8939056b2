"""Run some of the random networks with states; `python test/fuzz_states.py` runs more."""

from pathlib import Path

import pytest
from fuzz_states import judge


@pytest.mark.sample(5)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_states_are_kept(seed: int, tmp_path: Path):
    assert judge(seed, tmp_path) is None
