"""Test comparison in shards: figures independent of the number of workers, damaged inputs."""

from pathlib import Path

import numpy as np
import pytest
from driver_networks import MIXING

from ceras_ir.data import shards
from ceras_ir.workbench.compare.tool import main

pytestmark = pytest.mark.slow


@pytest.fixture
def files(tmp_path: Path) -> Path:
    random = np.random.default_rng(4)
    (tmp_path / "n.mlir").write_text(MIXING)
    images = random.uniform(-1, 1, (632, 4, 4, 2)).astype(np.float32)
    np.savez(tmp_path / "a.npz", image=images[:32])
    np.savez(tmp_path / "b.npz", image=images[32:])
    np.savez(tmp_path / "labels.npz", labels=np.arange(600) % 3)
    return tmp_path


def compare(files: Path, *more: str, inputs: str = "b.npz") -> int:
    argv = [str(files / "n.mlir"), "--calibrate", str(files / "a.npz")]
    return main([*argv, "--inputs", ",".join(str(files / n) for n in inputs.split(",")), *more])


def metrics(text: str) -> list[str]:
    """Return the lines of the end metrics."""
    names = ("signal to noise", "mean squared", "agreement", "top-1")
    return [line for line in text.splitlines() if line.startswith(names)]


def test_figures_do_not_depend_on_workers(files: Path, capsys: pytest.CaptureFixture[str]):
    labels = "--labels", str(files / "labels.npz")
    found: list[list[str]] = []
    for more in ((), ("--jobs", "1"), ("--jobs", "2")):
        assert compare(files, *labels, *more) == 0
        found.append(metrics(capsys.readouterr().out))
    assert len(found[0]) == 4
    # The first run uses the interpreter; the others use C in three shards, sequential or parallel.
    assert found[1] == found[2]
    assert [line.split()[-2:] for line in found[0][2:]] == [
        line.split()[-2:] for line in found[1][2:]
    ]


def test_what_cannot_be_read_is_named(files: Path, capsys: pytest.CaptureFixture[str]):
    torn = files / "torn.npz"
    torn.write_bytes((files / "b.npz").read_bytes()[:9000])
    assert compare(files, "--jobs", "1", inputs="b.npz,torn.npz") == 1
    assert "torn.npz: error: not a readable" in capsys.readouterr().err
    assert compare(files, "--jobs", "1", "--bad-shards", "skip", inputs="b.npz,torn.npz") == 0
    said = capsys.readouterr()
    assert "torn.npz" in said.err and "1 shards could not be read" in said.err
    assert "600 sample(s)" in said.out
    assert shards.MAX_SHARD_SAMPLES == 256


def test_labels_stay_with_their_samples(files: Path, capsys: pytest.CaptureFixture[str]):
    """Skipping a damaged file also skips its labels, if the header states the number of samples."""
    with np.load(files / "b.npz") as arrays:
        images = arrays["image"]
    for name, part in (("first", images[:300]), ("second", images[300:])):
        np.savez(files / f"{name}.npz", image=part)
    np.savez(files / "behind.npz", labels=np.arange(600)[300:] % 3)
    assert compare(files, "--jobs", "1", "--labels", str(files / "behind.npz"),
                   inputs="second.npz") == 0  # fmt: skip
    expected = metrics(capsys.readouterr().out)
    data = bytearray((files / "first.npz").read_bytes())
    data[5000] ^= 1
    (files / "first.npz").write_bytes(data)
    skip = "--jobs", "1", "--bad-shards", "skip", "--labels", str(files / "labels.npz")
    assert compare(files, *skip, inputs="first.npz,second.npz") == 0
    assert metrics(capsys.readouterr().out) == expected
    (files / "first.npz").write_bytes(data[:5000])
    assert compare(files, *skip, inputs="first.npz,second.npz") == 1
    said = capsys.readouterr().err
    assert "first.npz: error: not a readable" in said and "the number of labels for" in said
