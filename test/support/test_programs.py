"""Check the time limits of programs, and that keys of caches identify the compiler."""

import ast
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from core import ROOT
from onnx_models import conv_model

from ceras_ir.backends.c import emulator, runner
from ceras_ir.backends.c.runner import build_library
from ceras_ir.driver.run import main as run
from ceras_ir.support import native
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.limits import COMPILERS, PROGRAMS, TimeLimit
from ceras_ir.support.programs import finish, identity, run_compiler, run_program


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
    monkeypatch.setenv(COMPILERS.variable, "0.3")
    lives = tmp_path / "lives"
    compiler = script(tmp_path / "cc", f"(sleep 1; touch {lives}) &", "sleep 100")
    begun = time.monotonic()
    with pytest.raises(InputError, match=r"did not end within 0.3 s .* --compiler-timeout sets"):
        run_compiler([str(compiler)])
    assert time.monotonic() - begun < 30
    time.sleep(1.2)
    assert not lives.exists()
    for invalid in ("never", "0", "-1", "inf", "nan"):
        monkeypatch.setenv(COMPILERS.variable, invalid)
        with pytest.raises(InputError, match="CERAS_COMPILER_TIMEOUT must be a number of seconds"):
            run_compiler([str(compiler)])


def test_an_interrupted_compiler_leaves_no_file(tmp_path: Path) -> None:
    """Like gcc, the compiler writes assembly to TMPDIR, and Ctrl-C is sent while it runs."""
    files, begun = tmp_path / "files", tmp_path / "begun"
    files.mkdir()
    compiler = script(tmp_path / "cc", "touch $TMPDIR/cc1.s", f"touch {begun}", "sleep 100")
    code = f"from ceras_ir.support.programs import run_compiler; run_compiler(['{compiler}'])"
    environment = os.environ | {"TMPDIR": str(files)}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE
    ) as process:
        while not begun.exists():
            assert process.poll() is None
            time.sleep(0.01)
        assert list(files.rglob("cc1.s"))
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert b"KeyboardInterrupt" in errors
    assert not list(files.iterdir())


def test_programs_get_text_and_return_the_output() -> None:
    code = "import sys; text = sys.stdin.read(); print(text); sys.exit(len(text))"
    command = [sys.executable, "-c", code]
    done = run_program(command)
    assert (done.returncode, done.stdout) == (0, "\n")
    done = run_program(command, text="abc")
    assert (done.returncode, done.stdout) == (3, "abc\n")
    assert finish(command, 60, text="abc", is_quiet=True).stdout == ""


ALONE = {
    "backends/c/runtime/importable.py",
    "support/device/ceras_device.py",
    "support/programs.py",
}
"""The mechanism, and scripts that are copied into compiled folders."""


def starts_programs(node: ast.AST) -> bool:
    """Return whether `node` imports a module or uses a function that starts programs."""
    match node:
        case ast.Import():
            return any(alias.name in ("subprocess", "pty") for alias in node.names)
        case ast.ImportFrom(module="subprocess"):
            return any(alias.name != "TimeoutExpired" for alias in node.names)
        case ast.Attribute(value=ast.Name(id="os"), attr=name):
            return name.startswith(("exec", "fork", "popen", "posix_spawn", "spawn", "system"))
        case ast.Attribute(attr=name):
            return name.startswith("create_subprocess_")
        case _:
            return False


def test_programs_are_started_by_one_mechanism() -> None:
    """Only the mechanism has time limits, so no other module may start a program."""
    package = ROOT / "ceras_ir"
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if any(map(starts_programs, ast.walk(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert found <= ALONE and "support/programs.py" in found


def yosys(folder: Path, program: Path) -> None:
    from ceras_ir.backends.dataflow.resources import OpenTool

    OpenTool("yosys", (program.name,)).run([], folder)


def nnet(folder: Path, program: Path) -> None:
    from ceras_ir.backends.nnet import engine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "build", lambda: program)
        engine.load_in_engine(folder / "x.nnet")


def vta(_: Path, program: Path) -> None:
    from ceras_ir.backends.vta.execution.runner import VtaRunner
    from ceras_ir.backends.vta.machine.board import load_board

    command = f"{program} {{dram}} {{insns}} {{out}}"
    VtaRunner([b""], load_board("pynq"), command).launch(0, np.zeros(4, np.uint8))


def qemu(folder: Path, program: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(emulator, "QEMU", str(program))
        emulator.run_elf(folder / "x.elf", folder)


def verilator(_: Path, program: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "COMMAND", str(program))
        native.include_folder.cache_clear()
        native.include_folder()


@pytest.mark.parametrize(
    ("start", "limit"),
    [
        pytest.param(yosys, PROGRAMS, marks=pytest.mark.needs("dataflow")),
        pytest.param(nnet, PROGRAMS, marks=pytest.mark.needs("nnet")),
        pytest.param(vta, PROGRAMS, marks=pytest.mark.needs("vta")),
        (qemu, PROGRAMS),
        (verilator, COMPILERS),
    ],
)
def test_a_program_that_hangs_is_stopped(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    start: Callable[[Path, Path], None],
    limit: TimeLimit,
) -> None:
    """A child that keeps the output open is stopped too."""
    monkeypatch.setenv(limit.variable, "0.3")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    program = script(tmp_path / "hangs", "sleep 100 &", "sleep 100")
    begun = time.monotonic()
    with pytest.raises(InputError, match=rf"hangs' did not end within 0.3 s .* {limit.flag} sets"):
        start(tmp_path, program)
    assert time.monotonic() - begun < 30


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
