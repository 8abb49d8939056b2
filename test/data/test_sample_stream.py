"""Check that streamed samples are equal to loaded samples."""

from pathlib import Path

import numpy as np
import pytest

from ceras_ir.data.sample_stream import stream_samples
from ceras_ir.data.samples import load_samples
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.support.diagnostics import InputError

INPUTS = (TensorInfo("a", (1, 2, 3), "float32"), TensorInfo("b", (2, 2), "float32"))


def write(path: Path, count: int, seed: int, *, compressed: bool = False) -> str:
    random = np.random.default_rng(seed)
    a = random.integers(0, 255, (count, 2, 3)).astype(np.uint8)
    b = random.normal(0, 1, (count, 2, 2))
    if compressed:
        np.savez_compressed(path, a=a, b=b)
    else:
        np.savez(path, a=a, b=b)
    return str(path)


@pytest.mark.parametrize("compressed", [False, True])
def test_same_samples(tmp_path: Path, compressed: bool) -> None:
    path = write(tmp_path / "x.npz", 5, 1, compressed=compressed)
    count, samples = stream_samples(path, INPUTS, 4)
    found, expected = list(samples), list(load_samples(path, INPUTS))
    assert count == len(found) == 4
    for sample, reference in zip(found, expected, strict=False):
        for name, array in reference.items():
            assert sample[name].dtype == array.dtype
            np.testing.assert_array_equal(sample[name], array)


def test_several_files_count_as_one(tmp_path: Path) -> None:
    first, second = write(tmp_path / "x.npz", 3, 1), write(tmp_path / "y.npz", 4, 2)
    count, samples = stream_samples(f"{first},{second}", INPUTS, 5)
    found = list(samples)
    assert count == len(found) == 5
    expected = load_samples(second, INPUTS)[1]
    np.testing.assert_array_equal(found[4]["b"], expected["b"])


def test_fortran_order_and_single_samples_are_loaded(tmp_path: Path) -> None:
    b = np.asfortranarray([[1.0, 2.0], [3.0, 4.0]])
    np.savez(tmp_path / "x.npz", a=np.ones((1, 2, 3), np.float32), b=b)
    count, samples = stream_samples(str(tmp_path / "x.npz"), INPUTS, 9)
    (sample,) = samples
    assert count == 1
    np.testing.assert_array_equal(sample["b"], b)


@pytest.mark.parametrize("wrong", ["missing", "shape", "second"])
def test_wrong_files_are_refused(tmp_path: Path, wrong: str) -> None:
    good, bad = write(tmp_path / "x.npz", 3, 1), tmp_path / "y.npz"
    if wrong == "missing":
        np.savez(bad, a=np.ones((3, 2, 3)))
    else:
        np.savez(bad, a=np.ones((3, 2, 3)), b=np.ones((3, 2, 9)))
    with pytest.raises(InputError) as caught:
        stream_samples(f"{good},{bad}" if wrong == "second" else str(bad), INPUTS, 4)
    assert caught.value.file == str(bad)
