"""
Compare some random networks with weights of 1 to 8 bits; `python test/fuzz_narrow.py` runs more.
"""

import re
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from fuzz_narrow import difference, judge, make, references, tolerance
from narrow_networks import narrow_network

from ceras_ir.frontends.onnx import import_model
from ceras_ir.support.diagnostics import UnsupportedError

SEEDS = range(6)


@pytest.mark.parametrize("seed", range(24))
def test_formulas_equal_other_programs(seed: int, tmp_path: Path):
    if (case := make(seed, tmp_path)) is None:
        pytest.skip("float32 leaves the results open")
    for _, results in references(case):
        for x, got in zip(case.inputs, results, strict=True):
            expected = case.network.run(x)
            assert not difference(got, expected, tolerance(case.network, expected))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_levels_and_targets(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    case, counts = make(seed, tmp_path), Counter[str]()
    assert case is not None
    case.save()
    assert list(judge(case, "c,nnet,vta", counts)) == []
    assert counts["c"] == 1


def test_networks_have_weights_of_all_widths():
    found = set[str]()
    for seed in range(60):
        with suppress(UnsupportedError):  # INT4 values are not weights.
            text = str(import_model(narrow_network(seed).model))
            found |= set(re.findall(r"!quant.uniform<[iu](\d):", text))
    assert found == set("12345678")
