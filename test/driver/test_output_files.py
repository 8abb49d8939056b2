"""Check that output files are complete or unchanged after full disks, signals and clashes."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from slow_cases import first_fast, slow

from ceras_ir.command.entry_point import Command
from ceras_ir.command.exit_status import run_tool
from ceras_ir.driver.compile import main as compile_
from ceras_ir.driver.opt.tool import main as opt
from ceras_ir.driver.run import main as run
from ceras_ir.support.diagnostics import InputError, cannot_write, with_remedy
from ceras_ir.targets.registry import target_names

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
compare = Command("ceras-compare", "", "ceras_ir.workbench.compare.tool")
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a copy of the network, which an error could destroy."""
    (tmp_path / "m.onnx").write_bytes((DIGITS / "digits.onnx").read_bytes())
    return tmp_path / "m.onnx"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with np.load(DIGITS / "digits_calibration.npz") as arrays:
        np.savez(tmp_path / "d.npz", image=arrays["image"][:2])
    return tmp_path / "d.npz"


def test_what_is_read_is_not_overwritten(model: Path, data: Path, capsys: Captured) -> None:
    before = model.read_bytes(), data.read_bytes()
    commands = (
        (opt, [model, "--fuse", "-o", model]),
        (run, [model, "--inputs", data, "--outputs", data]),
        (run, [model, "--inputs", data, "--outputs", model]),
    )
    for command, arguments in commands:
        assert command([str(a) for a in arguments]) == 2
        assert "is an input of the command" in capsys.readouterr().err
    assert (model.read_bytes(), data.read_bytes()) == before


@pytest.mark.needs("workbench")
def test_a_page_does_not_overwrite_what_is_read(model: Path, data: Path, capsys: Captured) -> None:
    before = model.read_bytes(), data.read_bytes()
    for calibration in (data, f"x.npz,{data}"):
        arguments = [model, "--calibrate", calibration, "--inputs", data, "--html", data]
        assert compare([str(a) for a in arguments]) == 2
        assert "is an input of the command" in capsys.readouterr().err
    assert (model.read_bytes(), data.read_bytes()) == before


def test_text_may_be_rewritten_in_place(model: Path, tmp_path: Path) -> None:
    text = tmp_path / "m.mlir"
    assert opt([str(model), "-o", str(text)]) == 0
    assert opt([str(text), "--fuse", "-o", str(text)]) == 0
    assert "graph.conv2d" in text.read_text()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_full_disk(model: Path, data: Path, capsys: Captured) -> None:
    commands = (
        (opt, [model, "-o", "/dev/full"]),
        *([(opt, [model, "-t", "onnx", "-o", "/dev/full"])] if "onnx" in target_names() else []),
        (run, [model, "--inputs", data, "--outputs", "/dev/full"]),
    )
    for command, arguments in commands:
        assert command([str(a) for a in arguments]) == 1
        assert capsys.readouterr().err == (
            "/dev/full: error: cannot write: No space left on device; free space, or write to "
            "another disk\n"
        )


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize(
    "to", first_fast(2, ["> /dev/full", "2> /dev/full", "> /dev/full 2>&1", ">&-"])
)
def test_full_standard_streams(to: str, tmp_path: Path) -> None:
    """The final flush of the interpreter is silent, too."""
    (tmp_path / "in.mlir").write_text("func.func @f() {\n  func.return\n}\n")
    command = Path(sys.executable).with_name("ceras-opt")
    done = subprocess.run(
        f"'{command}' in.mlir --nothing-such {to}; '{command}' in.mlir {to}",
        shell=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == (1 if to.startswith("> ") else 0)
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    if to == "> /dev/full":
        assert done.stderr.endswith(
            "\nceras-opt: error: No space left on device; free space, or write to another disk\n"
        )
    assert os.listdir(tmp_path) == ["in.mlir"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_help_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    with open("/dev/full", "w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        # Unwritten data of the stream is dropped, so closing it prints nothing.
        assert run(["--help"]) == 1
    assert capsys.readouterr().err == (
        "ceras-run: error: No space left on device; free space, or write to another disk\n"
    )


SLOW_MODULE = """
import signal
signal.raise_signal(signal.SIGINT)
"""


WRAPPED = """
class Interrupted:
    def __set_name__(self, owner, name):
        raise KeyboardInterrupt
class Owner:
    name = Interrupted()
"""


@pytest.mark.parametrize("text", [SLOW_MODULE, WRAPPED])
def test_an_interrupt_during_imports(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.delitem(sys.modules, "interrupted_import", raising=False)
    (tmp_path / "interrupted_import.py").write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert Command("ceras-opt", "", "interrupted_import")([]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "ceras-opt: interrupted\n"


def test_an_interrupt_while_a_command_imports(capsys: Captured) -> None:
    def imports(_: Sequence[str]) -> int:
        try:
            exec(WRAPPED, {})
        except RuntimeError as error:
            raise InputError(str(error)) from None
        return 0

    assert run_tool("ceras-opt", imports, []) == 130
    assert capsys.readouterr().err == "ceras-opt: interrupted\n"


SWALLOWING = """
import signal, sys, time, weakref
from ceras_ir.command.entry_point import Command
class Short:
    pass
def main(argv):
    short = Short()
    link = weakref.ref(short, lambda _: signal.raise_signal(signal.SIGINT))
    del short
    time.sleep(60)
if __name__ == "__main__":
    sys.exit(Command("ceras-opt", "", "swallowing")())
"""


def test_an_interrupt_in_a_callback_that_cannot_raise(tmp_path: Path) -> None:
    """The callback of each import is such a function."""
    (tmp_path / "swallowing.py").write_text(SWALLOWING)
    ended = subprocess.run(
        [sys.executable, "swallowing.py"], cwd=tmp_path, capture_output=True, text=True,
        check=False, timeout=30, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (130, "ceras-opt: interrupted\n")


ENDING = """
import os, sys
from ceras_ir.command.entry_point import Command
class Ending:
    def __del__(self, kill=os.kill, process=os.getpid()):
        kill(process, 2)
def main(argv):
    sys.ending = Ending()
    print("done")
    return 0
if __name__ == "__main__":
    sys.exit(Command("ceras-opt", "", "ending")())
"""


def test_an_interrupt_after_the_end(tmp_path: Path) -> None:
    """The result is complete, and the exit of the interpreter is not interrupted."""
    (tmp_path / "ending.py").write_text(ENDING)
    ended = subprocess.run(
        [sys.executable, "ending.py"], cwd=tmp_path, capture_output=True, text=True, check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")


def test_devices_stay_devices(model: Path, data: Path) -> None:
    assert run([str(model), "--inputs", str(data), "--outputs", os.devnull]) == 0
    assert Path(os.devnull).is_char_device()


def test_results_go_through_links(model: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "link.npz").symlink_to(tmp_path / "target.npz")
    assert run([str(model), "--inputs", str(data), "--outputs", str(tmp_path / "link.npz")]) == 0
    assert (tmp_path / "link.npz").is_symlink() and (tmp_path / "target.npz").is_file()


def test_links_that_lead_to_themselves(model: Path, data: Path, tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert compile_([str(model), "--target", "c", "-o", str(loop)]) == 1
    assert loop.is_symlink()
    # A rename can replace the link.
    assert run([str(model), "--inputs", str(data), "--outputs", str(loop)]) == 0
    assert not loop.is_symlink()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGTERM, 143), slow(signal.SIGINT, 130), slow(signal.SIGHUP, 129)],
)
def test_signals_leave_nothing(number: int, status: int, tmp_path: Path) -> None:
    command = [Path(sys.executable).with_name("ceras-opt"), "-", "-o", "out.mlir"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        # Background jobs ignore SIGINT, and their children inherit this.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        for _ in range(1000):
            # The command has opened the output and waits for the input.
            if list(tmp_path.iterdir()):
                break
            time.sleep(0.02)
        process.send_signal(number)
        _, errors = process.communicate()
    assert process.returncode == status
    assert errors.decode() == ("ceras-opt: interrupted\n" if status == 130 else "")
    assert not list(tmp_path.iterdir())


TWICE = """
import os, signal, sys
from ceras_ir.command.exit_status import run_tool

def main(argv):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        print("cleaned up", flush=True)
    return 0

sys.exit(run_tool("ceras-test", main))
"""


def test_a_second_signal_does_not_stop_the_cleaning() -> None:
    """`timeout` sends a signal to the process and another to its group."""
    done = subprocess.run([sys.executable, "-c", TWICE], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (143, "cleaned up\n", "")


def test_a_folder_that_cannot_be_written(
    model: Path, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """The message names the file of the user, not the temporary file."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", "hidden")

    monkeypatch.setattr("builtins.open", refuse_writing(refuse))
    monkeypatch.setattr(Path, "unlink", refuse)
    output = str(data.with_name("o.npz"))
    assert run([str(model), "--inputs", str(data), "--outputs", output]) == 1
    assert capsys.readouterr().err == (
        f"{output}: error: cannot write: Read-only file system; write to a folder that is yours\n"
    )


def refuse_writing(refuse: Callable[..., None]) -> Callable[..., object]:
    """Return `open` for reading only."""
    really = open

    def opened(file: str | Path, mode: str = "r", **options: Any) -> object:
        return refuse() if mode[0] in "wx" else really(file, mode, **options)

    return opened


@pytest.mark.needs("workbench")
def test_objects_are_not_loaded(model: Path, data: Path, capsys: Captured) -> None:
    np.savez(data, image=np.array([Path], dtype=object))
    assert compare([str(model), "--inputs", str(data)]) == 1
    assert "Python objects, which are not loaded" in capsys.readouterr().err


@pytest.mark.needs("workbench")
def test_mistyped_values_have_suggestions(model: Path, data: Path, capsys: Captured) -> None:
    assert compare([str(model), "--inputs", str(data), "--silu", "tabel"]) == 2
    assert "invalid choice: 'tabel'; did you mean 'table'? (choose from" in capsys.readouterr().err
    assert opt([str(model), f"--calibrate=calibration={data.parent}?men=0.5"]) == 2
    assert "unknown image option 'men'; did you mean 'mean'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "reading", "writing"),
    [
        (errno.ENOSPC, "free space", "free space"),
        (errno.EACCES, "permit reading", "write to a folder that is yours"),
        (errno.ENOENT, "did you mean 'net.onnx'?", "there is no folder '"),
        (errno.EISDIR, "give a file", "write to another path"),
    ],
)
def test_each_error_of_a_file_has_a_remedy(
    tmp_path: Path, number: int, reading: str, writing: str
) -> None:
    (tmp_path / "net.onnx").touch()
    error = OSError(number, os.strerror(number))
    assert reading in with_remedy(error, str(tmp_path / "nett.onnx"))
    assert writing in str(cannot_write(error, str(tmp_path / "none" / "o.npz")))
