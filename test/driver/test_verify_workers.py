"""Test `ceras-verify --workers`: equal verdicts for any number, and damaged inputs."""

from pathlib import Path

import numpy as np
import pytest
from driver_networks import MIXING

from ceras_ir.backends.c.runner import CompiledC
from ceras_ir.driver.verify.tool import main

pytestmark = pytest.mark.slow


@pytest.fixture
def files(tmp_path: Path) -> Path:
    random = np.random.default_rng(4)
    (tmp_path / "n.mlir").write_text(MIXING)
    images = random.uniform(-1, 1, (300, 4, 4, 2)).astype(np.float32)
    np.savez(tmp_path / "a.npz", image=images[:32])
    np.savez(tmp_path / "b.npz", image=images)
    return tmp_path


def verify(files: Path, *more: str, inputs: str = "b.npz") -> int:
    argv = [str(files / "n.mlir"), "--calibrate", str(files / "a.npz"), "--targets", "c"]
    return main([*argv, "--inputs", str(files / inputs), *more])


def test_verdicts_do_not_depend_on_workers(files: Path, capsys: pytest.CaptureFixture[str]):
    found: list[str] = []
    for more in ((), ("--workers", "1"), ("--workers", "2")):
        assert verify(files, *more) == 0
        found.append(capsys.readouterr().out)
    assert found[0] == found[1] == found[2]
    assert "300 sample(s)" in found[0] and "c: machine                       exact" in found[0]


def test_what_differs_is_found_in_the_second_shard(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """The machine is wrong on a single sample."""
    run, seen = CompiledC.run, 0

    def wrong(self: CompiledC, samples: object) -> object:
        nonlocal seen
        for outputs in run(self, samples):  # pyright: ignore
            seen += 1
            yield {k: np.add(v, int(seen == 290)) for k, v in outputs.items()}

    monkeypatch.setattr(CompiledC, "run", wrong)
    assert verify(files, "--workers", "1") == 1
    assert "differs on sample 289" in capsys.readouterr().out


def test_damaged_inputs_are_named(files: Path, capsys: pytest.CaptureFixture[str]):
    (files / "torn.npz").write_bytes((files / "b.npz").read_bytes()[:9000])
    assert verify(files, "--workers", "1", inputs="torn.npz") == 1
    assert "torn.npz: error: not a readable .npz file" in capsys.readouterr().err


@pytest.mark.parametrize("more", [(), ("--workers", "1")])
def test_inputs_that_are_not_finite_are_refused(
    files: Path, more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    image = np.load(files / "b.npz")["image"]
    image[290, 1, 2, 0] = np.nan
    np.savez(files / "c.npz", image=image)
    assert verify(files, *more, inputs="c.npz") == 1
    assert "sample 290 of 'image' has NaN or infinite elements" in capsys.readouterr().err


@pytest.mark.parametrize("flag", [("--workers", "2"), ("--scheduler", "tcp://127.0.0.1:1")])
def test_workers_need_inputs(
    files: Path, flag: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    assert main([str(files / "n.mlir"), "--targets", "c", *flag]) == 2
    assert "--inputs" in capsys.readouterr().err
