"""
Test `--tune`: faster choices are used, other choices leave the network unchanged; bad runners.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

from ceras_ir.driver.compile import main
from ceras_ir.pipeline.build import open_folder

DIGITS = Path(__file__).parents[3] / "examples/digits"

RUNNER = """
import json, pathlib, subprocess, sys
binary = pathlib.Path(sys.argv[1])
real = json.loads(subprocess.run([binary], capture_output=True, text=True).stdout)
times = {{"default": 100.0, "tuned": {tuned}}}
print("the last line counts")
print(json.dumps([times.get(binary.parent.name, 50.0)] * len(real)))
"""
"""Reports each candidate as faster, and a given time for the final network."""


@pytest.fixture(autouse=True)
def no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def compiled(folder: Path, *more: str) -> int:
    return main(
        [str(DIGITS / "digits.onnx"), "--target=c", "--quantize=int8", "-o", str(folder),
         f"--calibrate={DIGITS / 'digits_calibration.npz'}", *more]
    )  # fmt: skip


def tuned(folder: Path, text: str) -> int:
    script = folder.with_suffix(".py")
    script.write_text(text)
    return compiled(folder, "--tune", "--tune-runner", f"{sys.executable} {script} {{binary}}")


def sources(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("model*.[ch]")}


@pytest.mark.slow
def test_what_is_faster_is_taken_and_computes_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert compiled(tmp_path / "plain") == 0
    assert tuned(tmp_path / "tuned", RUNNER.format(tuned=40.0)) == 0
    said = capsys.readouterr()
    assert "tuned: 40.0 us instead of 100.0, 150.0% faster" in said.out + said.err
    plain, faster = tmp_path / "plain", tmp_path / "tuned"
    assert sources(plain) != sources(faster)
    images = np.load(DIGITS / "digits_calibration.npz")
    samples = [{name: images[name][i : i + 1] for name in images.files} for i in range(20)]
    for a, b in zip(*(open_folder(f).run(samples) for f in (plain, faster)), strict=True):
        assert all(np.array_equal(a[name], b[name]) for name in a)
    # The results are cached: this runner is not called.
    (tmp_path / "tuned.py").write_text("raise SystemExit(1)")
    runner = f"{sys.executable} {tmp_path / 'tuned.py'} {{binary}}"
    assert compiled(tmp_path / "again", "--tune", "--tune-runner", runner) == 0
    assert sources(tmp_path / "again") == sources(faster)


@pytest.mark.slow
def test_what_is_slower_together_is_not_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert compiled(tmp_path / "plain") == 0
    assert tuned(tmp_path / "tuned", RUNNER.format(tuned=100.1)) == 0
    said = capsys.readouterr()
    assert "0.0% faster, no layer changed" in said.out + said.err
    assert sources(tmp_path / "plain") == sources(tmp_path / "tuned")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("print('hello')", "did not print the times of"),
        ("print('[1.0, 2.0]')", "did not print the times of"),
        ("import sys; sys.exit('no board')", "failed with status 1: no board"),
    ],
)
def test_a_bad_runner(tmp_path: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]):
    assert tuned(tmp_path / "out", text) == 1
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--tune-runner", "ssh board {binary}"), "--tune-runner requires --tune"),
        (("--tune", "--tune-runner", "ssh board"), "must contain {binary}"),
        (("--tune", "--board", "pico"), "the board is a microcontroller"),
        (("--tune", "--board", "raspberry_pi_4"), "needs --tune-runner"),
    ],
)
def test_refused(
    tmp_path: Path, options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
):
    assert compiled(tmp_path / "out", *options) == 2
    assert said in capsys.readouterr().err
