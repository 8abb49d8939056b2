"""Test `ceras-compare --fail-if`, a gate on the printed metrics."""

from pathlib import Path

import numpy as np
import pytest
from conftest import Tool
from driver_networks import MIXING

COMPARE = ("ceras-compare", "n.mlir", "--calibrate", "a.npz", "--inputs", "b.npz", "--budget=0")


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> Path:
    random = np.random.default_rng(4)
    (tmp_path / "n.mlir").write_text(MIXING)
    images = random.uniform(-1, 1, (36, 4, 4, 2)).astype(np.float32)
    np.savez(tmp_path / "a.npz", image=images[:32])
    np.savez(tmp_path / "b.npz", image=images[32:])
    return tmp_path


def test_all_met_conditions_are_reported(tool: Tool, files: Path) -> None:
    conditions = ("agreement<=100%", "signal_to_noise_db<300dB", "top-1<=1")
    np.savez(files / "labels.npz", labels=np.zeros(4, np.int64))
    flags = [word for text in conditions for word in ("--fail-if", text)]
    done = tool(*COMPARE, "--labels", "labels.npz", "--html", "o.html", *flags)
    assert done.status == 1 and "mean squared error" in done.stdout
    first, second, third = done.stderr.splitlines()
    assert first == (
        'ceras-compare: error: --fail-if "agreement<=100%": default recipe: agreement = 1, '
        "not above the limit of 1"
    )
    assert '"signal_to_noise_db<300dB": default recipe: signal_to_noise_db = ' in second
    assert '"top-1<=1": default recipe: top_1 = ' in third
    assert "</html>" in (files / "o.html").read_text()


def test_conditions_that_are_not_met(tool: Tool) -> None:
    done = tool(*COMPARE, "--fail-if", "agreement<0.5", "--fail-if", "signal_to_noise_db<1")
    assert (done.status, done.stderr) == (0, "")


def test_the_loss_of_a_metric(tool: Tool, files: Path) -> None:
    np.savez(files / "labels.npz", labels=np.zeros(4, np.int64))
    with_labels = (*COMPARE, "--labels", "labels.npz", "--fail-if")
    done = tool(*with_labels, "top_1_drop>=-100%")
    assert done.status == 1 and "default recipe: top_1_drop = 0, not below the limit of -1" in (
        done.stderr
    )
    assert tool(*with_labels, "top_1_drop>0.5%").status == 0


def test_metrics_of_a_function_of_the_user(tool: Tool, files: Path) -> None:
    (files / "m.py").write_text("def f(outputs, labels):\n    return {'Loss': 0.5}\n")
    common = (*COMPARE, "--metric", "m.py:f")
    done = tool(*common, "--fail-if", "loss>40%")
    assert done.status == 1
    assert 'error: --fail-if "loss>40%": default recipe: loss = 0.5, above the limit of 0.4' in (
        done.stderr
    )
    done = tool(*common, "--fail-if", "los>40%")
    assert done.status == 2 and "was not measured in this run (measured: " in done.stderr


def test_wrong_conditions(tool: Tool) -> None:
    for text, message in (
        ("agrement<1", "did you mean 'agreement'?"),
        ("agreement<98", "'agreement' is at most 1: write 98% for percent"),
        ("top_1_drop>1", "'top_1_drop' is at most 1: write 1% for percent"),
        ("agreement<1dB", "'agreement' has no unit 'dB'; units: %"),
        ("agreement", "expected a metric, one of < <= > >="),
    ):
        done = tool(*COMPARE, "--fail-if", text)
        assert (done.status, done.stdout) == (2, "") and message in done.stderr
    done = tool(*COMPARE, "--fail-if", "top-5<1")
    assert done.status == 2
    assert "'top-5' was not measured in this run (measured: signal_to_noise_db, "
    assert "mean_squared_error, agr" in done.stderr
