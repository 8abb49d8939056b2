"""
Compare some random networks with weights of 1 to 8 bits; `python test/fuzz_narrow.py` runs more.
"""

import re
from collections import Counter
from contextlib import suppress
from pathlib import Path

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from fuzz_narrow import difference, judge, make, references, tolerance
from narrow_networks import narrow_network
from onnx_models import model, node, run_onnxruntime

from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
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


@pytest.mark.slow
@pytest.mark.parametrize("seed", (1, 2))
def test_ties(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    case, counts = make(seed, tmp_path, ties=True), Counter[str]()
    assert case is not None
    case.save()
    assert list(judge(case, "c,nnet", counts)) == []
    assert counts["ties"] > 0


@pytest.mark.parametrize("bits", (2, 3, 4))
@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers(kind: str, gates: int, bits: int):
    rng, end, size = np.random.default_rng(bits), 1 << bits - 1, 8
    x = rng.normal(size=(5, 1, 6)).astype(np.float32)
    stored = np.dtype(np.int8 if bits == 3 else getattr(ml_dtypes, f"int{bits}"))
    constants: dict[str, npt.ArrayLike] = {"s": np.float32(0.6 / end), "xs": np.float32(1 / 32)}
    constants |= {"ys": np.float32(1 / 127), "z": np.int8(0)}
    constants |= {"low": np.int8(-end), "high": np.int8(end - 1)}
    nodes = [node("QuantizeLinear", "x xs z", "xq"), node("DequantizeLinear", "xq xs z", "xd")]
    for name, length in (("w", 6), ("r", size)):
        integers = rng.integers(-end, end, (1, gates * size, length))
        constants[name] = integers.astype(stored)
        source = name
        if bits == 3:
            nodes.append(node("Clip", f"{name} low high", source := f"{name}c"))
        nodes.append(node("DequantizeLinear", f"{source} s", f"{name}d"))
    nodes.append(node(kind, "xd wd rd", "h", hidden_size=size))
    nodes += [node("QuantizeLinear", "h ys z", "yq"), node("DequantizeLinear", "yq ys z", "y")]
    used = {name for each in nodes for name in each.input}
    known = {name: array for name, array in constants.items() if name in used}
    proto = model(nodes, {"x": x.shape}, ["y"], known, opset=25 if bits == 2 else 21)
    (expected,) = run_onnxruntime(proto, {"x": x}).values()
    (got,) = run(import_model(proto), {"x": x}).values()
    assert np.abs(got.astype(np.float64) - expected).max() <= 1e-6


def test_networks_have_weights_of_all_widths():
    found = set[str]()
    for seed in range(60):
        with suppress(UnsupportedError):  # INT4 values are not weights.
            text = str(import_model(narrow_network(seed).model))
            found |= set(re.findall(r"!quant.uniform<[iu](\d):", text))
    assert found == set("12345678")
