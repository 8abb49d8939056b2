"""Run studies from start to end: tables, stored results, kills, a cluster, the best point."""

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from driver_networks import MIXING
from worker_calls import die_once, square

from ceras_ir.support.workers import in_order
from ceras_ir.workbench.explore.tool import main

pytest.importorskip("optuna", reason="studies are kept by Optuna")
pytestmark = pytest.mark.slow

STUDY = """
name = "small"
[models.mix]
file = "n.mlir"
calibrate = "a.npz"
inputs = "b.npz"
labels = "labels.npz"
[options]
quantize = "int8"
prune = ["", "sparsity=0.5"]
[axes.precision]
plain = { recipe = "none" }
default = {}
[targets.c]
board = ["pico", "due"]
[targets.vta]
board = ["pynq", "zcu104"]
[objectives]
maximize = ["signal_to_noise_db"]
minimize = ["flash_bytes", "euros"]
[figures.euros]
board = { pico = 4, due = 45, pynq = 200, zcu104 = 1300 }
"""
POINTS = 16
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    numbers = np.random.default_rng(4)
    (tmp_path / "n.mlir").write_text(MIXING)
    images = numbers.uniform(-1, 1, (48, 4, 4, 2)).astype(np.float32)
    np.savez(tmp_path / "a.npz", image=images[:32])
    np.savez(tmp_path / "b.npz", image=images[32:])
    np.savez(tmp_path / "labels.npz", labels=np.arange(16) % 3)
    (tmp_path / "s.toml").write_text(STUDY)
    return tmp_path / "s.toml"


def explore(study: Path, *more: str) -> int:
    return main([str(study), "--jobs", "1", "--cache", str(study.parent / "cache"), *more])


def test_the_tutorial(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """The study of docs/explore.md prints the text of the page, and the best point compiles."""
    page = (ROOT / "docs" / "explore.md").read_text()
    text = page.partition("```toml\n")[2].partition("```")[0]
    front = page.partition("```\n   top_1")[2].partition("16 points")[0]
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "s.toml").write_text(text)
    assert explore(tmp_path / "s.toml") == 0
    assert f"   top_1{front}16 points" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    assert main(["best", "s.toml", "--where", "top_1 > 0.7", "-o", "out"]) == 0
    assert (tmp_path / "out" / "digits" / "digits.ino").is_file()


def table(study: Path) -> str:
    return (study.with_suffix(".study") / "points.csv").read_text()


def test_a_study(study: Path, capsys: pytest.CaptureFixture[str]):
    assert explore(study) == 0
    first = table(study)
    assert len(first.splitlines()) == POINTS + 1
    assert first.count(",done,") == POINTS
    out = capsys.readouterr().out
    assert f"{POINTS} points" in out and "pico" in out
    # Everything is kept; the second run computes no point.
    assert explore(study) == 0
    assert f"{POINTS} points are there already" in capsys.readouterr().err
    assert table(study) == first
    # The page links reports, and loads no resources.
    folder = study.with_suffix(".study")
    reports = sorted((folder / "points").iterdir())
    assert len(reports) == POINTS
    content = json.loads((reports[0] / "report.json").read_text())
    assert content["command"].startswith("ceras-compile ") and content["sha256"]["compiler"]


def test_networks_can_take_the_pixels_of_a_camera(study: Path):
    """The float data of the study is converted; pixels cost almost no accuracy."""
    text = (
        STUDY[: STUDY.index("[options]")]
        + """
[axes.input]
floats = {}
pixels = { input_image = "nhwc", image_mean = "0.5", image_std = "0.5" }
[targets.c]
[objectives]
maximize = ["signal_to_noise_db"]
"""
    )
    study.write_text(text)
    assert explore(study) == 0
    rows = list(csv.DictReader(table(study).splitlines()))
    assert [row["state"] for row in rows] == ["done", "done"]
    floats, pixels = (float(row["signal_to_noise_db"]) for row in rows)
    assert pixels > floats - 6


def test_figures_are_those_of_the_commands(study: Path, tmp_path: Path):
    """The figures of a study equal the figures of the other commands for the same point."""
    from ceras_ir.driver.compile import main as compile_main

    assert explore(study) == 0
    header, *rows = (line.split(",") for line in table(study).splitlines())
    row = dict(zip(header, rows[0], strict=False))
    argv = [str(tmp_path / "n.mlir"), "--target=c", "--quantize=int8", "--board=pico"]
    argv += [f"--calibrate={tmp_path / 'a.npz'}", "--recipe=none", "-o", str(tmp_path / "out")]
    assert compile_main(argv) == 0
    totals = json.loads((tmp_path / "out" / "report.json").read_text())["totals"]
    assert float(row["flash_bytes"]) == totals["flash_bytes"]
    assert float(row["arena_bytes"]) == totals["arena_bytes"]


def test_best_compiles_a_point(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert explore(study) == 0
    where = "target == 'vta' and euros < 1000"
    assert main(["best", str(study), "--where", where, "-o", str(tmp_path / "out")]) == 0
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["target"] == "vta"
    assert main(["best", str(study), "--where", "euros < 1", "-o", str(tmp_path / "no")]) == 1
    assert "none of 16 points has euros < 1" in capsys.readouterr().err
    assert main(["best", str(study), "--where", "eros < 1", "-o", str(tmp_path / "no")]) == 2
    assert "did you mean 'euros'" in capsys.readouterr().err


def test_constraints_spare_the_judging(study: Path):
    study.write_text(
        STUDY.replace("[figures.euros]", "constraints = ['euros < 100']\n[figures.euros]")
    )
    assert explore(study) == 0
    rows = list(csv.DictReader(table(study).splitlines()))
    out = [row for row in rows if row["state"] == "ruled out"]
    assert len(out) == POINTS // 2 and all(row["flash_bytes"] for row in out)
    assert not any(row["signal_to_noise_db"] for row in out)
    assert all(row["signal_to_noise_db"] for row in rows if row not in out)


def test_a_failed_trial_keeps_its_diagnostic(study: Path, capsys: pytest.CaptureFixture[str]):
    varied = 'board = "pynq"\n[targets.vta.vary]\nLOG_INP_BUFF_SIZE = [13, 15]'
    text = STUDY.partition("[figures.euros]")[0].replace(', "euros"', "")
    study.write_text(text.replace('board = ["pynq", "zcu104"]', varied))
    assert explore(study) == 0
    rows = table(study).splitlines()[1:]
    assert sum(",failed," in row for row in rows) == 4
    assert sum(",done," in row for row in rows) == 12
    assert "4 failed: " in capsys.readouterr().out


@pytest.mark.parametrize("sampler", ["random", "nsga2", "tpe"])
def test_samplers(study: Path, sampler: str):
    study.write_text(f"{STUDY}[search]\nsampler = '{sampler}'\ntrials = 6\nseed = 3\n")
    assert explore(study) == 0
    first = table(study)
    assert explore(study) == 0
    assert table(study) == first
    rows = first.splitlines()[1:]
    assert 1 < len(rows) <= 6 and all(",done," in row for row in rows)


def test_killed_at_random_and_resumed(study: Path):
    """The table is the same, whenever the process was killed."""
    assert explore(study) == 0
    expected = table(study)
    command = [sys.executable, "-c",
               "import sys; from ceras_ir.workbench.explore.tool import main; "
               "raise SystemExit(main(sys.argv[1:]))", str(study), "--jobs", "2"]  # fmt: skip
    command += ["--folder", str(study.parent / "again"), "--cache", str(study.parent / "cache2")]
    delays = random.Random(1)
    for _ in range(10):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(delays.uniform(1.0, 6.0))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (study.parent / "again" / "points.csv").read_text() == expected


def test_a_cluster_loses_nothing(tmp_path: Path):
    distributed = pytest.importorskip("distributed", reason="clusters are Dask's")
    from ceras_ir.support.workers import DaskWorkers

    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        workers = DaskWorkers(cluster.scheduler_address)
        marker = str(tmp_path / "killed")
        found = list(in_order(workers.run(die_once, [(n, marker) for n in range(12)])))
        assert found == list(range(12))
        assert Path(marker).exists()
        assert list(in_order(workers.run(square, range(5)))) == [0, 1, 4, 9, 16]
        workers.close()


def test_a_study_on_a_cluster(study: Path):
    distributed = pytest.importorskip("distributed", reason="clusters are Dask's")
    assert explore(study) == 0
    expected = table(study)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        folder = study.parent / "cluster"
        argv = [str(study), "--scheduler", cluster.scheduler_address, "--folder", str(folder)]
        assert main([*argv, "--cache", str(study.parent / "cache3")]) == 0
    assert (folder / "points.csv").read_text() == expected


def test_no_scheduler(study: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("distributed", reason="clusters are Dask's")
    for address in ("tcp://127.0.0.1:1", "nowhere", "htp://nowhere:1"):
        assert main([str(study), "--scheduler", address]) == 1
        err = capsys.readouterr().err
        assert f"{address}: error: no Dask scheduler answers" in err and "Traceback" not in err


def test_tls_must_be_configured(study: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("distributed", reason="clusters are Dask's")
    assert main([str(study), "--scheduler", "tls://127.0.0.1:1"]) == 1
    err = capsys.readouterr().err
    assert "tls://127.0.0.1:1: error: Dask has no certificates for TLS; set distributed.comm" in err


def test_certificates_that_are_missing(study: Path, capsys: pytest.CaptureFixture[str]):
    dask = pytest.importorskip("dask", reason="clusters are Dask's")
    missing = str(study.parent / "missing.pem")
    names = ("ca-file", "client.cert", "client.key")
    with dask.config.set({f"distributed.comm.tls.{name}": missing for name in names}):
        assert main([str(study), "--scheduler", "tls://127.0.0.1:1"]) == 1
    assert "Dask cannot load its certificates (No such file" in capsys.readouterr().err


def test_encryption_that_is_required(study: Path, capsys: pytest.CaptureFixture[str]):
    dask = pytest.importorskip("dask", reason="clusters are Dask's")
    with dask.config.set({"distributed.comm.require-encryption": True}):
        assert main([str(study), "--scheduler", "tcp://127.0.0.1:1"]) == 1
    assert "requires encryption: use the tls:// address" in capsys.readouterr().err
