"""The same input gives the same bytes, whatever order Python hashes strings in."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits"


def compiled(target: str, folder: Path, seed: str) -> dict[str, bytes]:
    """What `ceras-compile` writes, by file name."""
    subprocess.run(
        [
            Path(sys.executable).with_name("ceras-compile"),
            DIGITS / "digits.onnx",
            *("-o", folder, "--target", target, "--save-temps"),
            *("--quantize", "int8", "--calibrate", DIGITS / "digits_calibration.npz"),
        ],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        check=True,
    )
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["c", "arduino", "nnet", "vta"])
def test_compiled_twice_is_the_same(target: str, tmp_path: Path):
    first, second = (compiled(target, tmp_path / seed, seed) for seed in ("1", "2"))
    assert first.keys() == second.keys() and len(first) > 4
    assert [name for name in first if first[name] != second[name]] == []
