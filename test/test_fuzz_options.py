"""Run some of the random networks and options; `python test/fuzz_options.py` runs more."""

from pathlib import Path

import pytest
from called import call
from fuzz_options import ROUTES, judge
from random_cases import FAMILIES, images

from ceras_ir.driver.verify.tool import main

pytestmark = pytest.mark.slow
SEEDS = range(2)
SHIFTS = (59, 265)
"""Seeds of images: swish of shifts with a 16-bit result, and with a zero point of a max pooling."""


@pytest.mark.sample(8)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("route", ROUTES)
def test_bits_agree(route: str, family: str, seed: int, tmp_path: Path) -> None:
    judge(route, family, seed, tmp_path)


@pytest.mark.parametrize("seed", SHIFTS)
def test_swish_of_shifts(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    images(seed).save(tmp_path)
    data = ("--calibrate", "data.npz", "--inputs", "data.npz", "--samples", "2", "--floor=-100")
    call(main, "model.onnx", *data, "--silu", "piecewise")
