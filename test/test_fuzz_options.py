"""
Some of the random networks of images and options; `python test/fuzz_options.py` runs more.
"""

from pathlib import Path

import pytest
from fuzz_options import judge

FOUND = (59, 265)
"""Swish of shifts: a result in 16 bits, and a zero point from the maxima behind it."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(12), *FOUND])
def test_levels_agree(seed: int, tmp_path: Path) -> None:
    assert judge(seed, tmp_path) is None
