"""Check the time limit of compilers, and that keys of caches identify the compiler."""

import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from onnx_models import conv_model

from ceras_ir.backends.c import runner
from ceras_ir.backends.c.runner import build_library
from ceras_ir.driver.run import main as run
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.limits import TIMEOUT_VARIABLE
from ceras_ir.support.programs import identity, run_compiler


def script(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)
    return path


def test_identity_has_version_and_file(tmp_path: Path) -> None:
    version = tmp_path / "version"
    version.write_text("1.0")
    compiler = script(tmp_path / "cc", f"cat {version}")
    command = [str(compiler), "-O2"]
    first = identity(command)
    assert first == identity(command) and "1.0" in first
    # The same text, as of an upgrade that does not change the version.
    script(compiler, f"cat {version}  ")
    second = identity(command)
    assert second != first
    # A wrapper is unchanged, and the compiler that it starts is new.
    version.write_text("2.0")
    os.utime(compiler)
    assert "2.0" in identity(command)


def test_a_compiler_that_hangs_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TIMEOUT_VARIABLE, "0.3")
    lives = tmp_path / "lives"
    compiler = script(tmp_path / "cc", f"(sleep 1; touch {lives}) &", "sleep 100")
    begun = time.monotonic()
    with pytest.raises(InputError, match=r"did not end within 0.3 s .* --compiler-timeout sets"):
        run_compiler([str(compiler)])
    assert time.monotonic() - begun < 30
    time.sleep(1.2)
    assert not lives.exists()
    monkeypatch.setenv(TIMEOUT_VARIABLE, "never")
    with pytest.raises(InputError, match="CERAS_COMPILER_TIMEOUT must be a number of seconds"):
        run_compiler([str(compiler)])


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_libraries_of_another_compiler_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither a compiler that was changed nor a file that is no library leaves an entry."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(runner, "build_library", build_library)
    monkeypatch.setenv("CERAS_CC", str(tmp_path / "mycc"))
    Path("m.onnx").write_bytes(conv_model((1, 2, 6, 6), 3, (3, 3)).SerializeToString())
    np.savez("x.npz", x=np.zeros((1, 2, 6, 6), np.float32))
    command = ["m.onnx", "--target", "c", "--inputs", "x.npz", "--outputs", "y.npz"]
    works = 'exec cc "$@"'
    junk = "for each; do :; done; echo junk > $each"
    for lines, status, message in (
        (works, 0, ""),
        ("exit 9", 1, "failed with status 9"),
        (junk, 1, "wrote no library that can be loaded"),
        (junk, 1, "wrote no library that can be loaded"),
        (works, 0, ""),
    ):
        script(tmp_path / "mycc", lines)
        assert run(command) == status
        assert message in capsys.readouterr().err
