"""Check networks at several lengths in the Python API."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from length_networks import NETWORKS

import ceras_ir as ceras

TOKENS = np.arange(32).reshape(2, 16)


@pytest.fixture
def network(tmp_path: Path) -> ceras.ModelLengths:
    path = tmp_path / "tagger.onnx"
    path.write_bytes(NETWORKS["tagger"][0]().SerializeToString())
    return ceras.load_lengths(path, {"tokens": "1x8..24:8"})


def test_float(network: ceras.ModelLengths):
    assert network.lengths == (8, 16, 24)
    assert network.inputs[0].shape == (1, 24) and network.outputs[0].shape == (1, 24, 7)
    assert network.at(16).inputs[0].shape == (1, 16)
    expected = network.run(TOKENS)["tags"]
    assert np.array_equal(expected, network.at(16).run(TOKENS)["tags"])
    compiled = network.compile("c")
    assert np.allclose(compiled.run({"tokens": TOKENS})["tags"], expected, atol=1e-6)

    def each() -> Iterator[np.ndarray]:
        yield from TOKENS

    assert np.allclose(compiled.run(each())["tags"], expected, atol=1e-6)


def test_int8(network: ceras.ModelLengths):
    random = np.random.default_rng(0)
    quantized = network.quantize(random.integers(0, 40, (32, 24)), target="c")
    expected = quantized.run(TOKENS)["tags"]
    assert np.array_equal(quantized.compile("c").run(TOKENS)["tags"], expected)
    assert np.array_equal(quantized.at(16).compile("c").run(TOKENS)["tags"], expected)
    assert np.allclose(expected, network.run(TOKENS)["tags"], atol=0.5)


def test_errors(network: ceras.ModelLengths, tmp_path: Path):
    path = tmp_path / "tagger.onnx"
    with pytest.raises(ceras.UsageError, match="no length 9: there are 8, 16, 24"):
        network.at(9)
    with pytest.raises(ceras.InputError, match="has length 9; the lengths are 8, 16, 24"):
        network.run(np.zeros((1, 9), np.int64))
    with pytest.raises(ceras.InputError, match=r"has length 8: samples .* largest length, 24"):
        network.quantize(np.zeros((4, 8), np.int64))
    with pytest.raises(ceras.UsageError, match="use load for a single shape"):
        ceras.load_lengths(path, {"tokens": [(1, 8)]})
    with pytest.raises(ceras.UsageError, match="must end above 2"):
        ceras.load_lengths(path, {"tokens": "1x2..1"})
    with pytest.raises(ceras.UsageError, match="compiles a single length"):
        network.compile("arduino", board="uno_r4_wifi")
    with pytest.raises(ceras.UsageError, match="--tune needs a single length"):
        network.compile("c", tune=True)


def test_board(network: ceras.ModelLengths):
    compiled = network.compile("c", board="uno_r4_wifi")
    assert np.allclose(compiled.run(TOKENS)["tags"], network.run(TOKENS)["tags"], atol=1e-6)
    assert compiled.manifest.content["board"] == "uno_r4_wifi"
