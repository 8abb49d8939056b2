"""
Check that equal inputs give equal bytes.

This holds for each order in which Python hashes strings, and without `assert` statements and
docstrings.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits"


def compiled(target: str, folder: Path, **environment: str) -> dict[str, bytes]:
    """Compile in a process with these variables; map the names of the files to their contents."""
    subprocess.run(
        [
            Path(sys.executable).with_name("ceras-compile"),
            DIGITS / "digits.onnx",
            *("-o", folder, "--target", target, "--save-temps"),
            *("--quantize", "int8", "--calibrate", DIGITS / "digits_calibration.npz"),
        ],
        env={**os.environ, **environment},
        capture_output=True,
        check=True,
    )
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.sample(2)
@pytest.mark.slow
@pytest.mark.parametrize("target", ["c", "arduino", "nnet", "vta"])
def test_compiled_twice_is_the_same(target: str, tmp_path: Path):
    first, second = (compiled(target, tmp_path / seed, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert first.keys() == second.keys() and len(first) > 4
    assert [name for name in first if first[name] != second[name]] == []


@pytest.mark.sample(3)
@pytest.mark.slow
@pytest.mark.parametrize("target", ["c", "arduino", "nnet", "vta", "dataflow", "onnx"])
def test_optimized_python_compiles_the_same(target: str, tmp_path: Path):
    """Compile under `python -O` and `-OO`, which skip each `assert`, even one that does work."""
    plain, *optimized = (
        compiled(target, tmp_path / level, PYTHONOPTIMIZE=level) for level in ("0", "1", "2")
    )
    assert len(plain) > 4
    for files in optimized:
        assert files.keys() == plain.keys()
        assert [name for name in plain if files[name] != plain[name]] == []
