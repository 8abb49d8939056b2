"""
Check that an output folder is the old or the new one after signals at each change of the disk.

A fork of this process writes the folder. It sends itself a signal before or after the n-th call
that changes the disk, for each n. Other forks are killed by this process at random times.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ceras_ir.command import output_folder
from ceras_ir.command.exit_status import run_tool
from ceras_ir.command.output_folder import open_folder

Tree = dict[str, str]

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="renameat2")

OLD: Tree = {"a": "1", "b/c": "1", "d/e/f": "1"}
NEW: Tree = {"a": "2", "b/g": "2", "h": "2"}
MINE: Tree = {"notes": "mine", "b/mine": "mine", "kept/x/y": "mine"}
"""Files of the user in the folder."""

CALLS = ("replace", "rename", "link", "mkdir", "unlink", "rmdir", "chown", "utime")
"""The functions of `os` that change the disk; `exchange` is added."""


def manifest(files: Tree) -> str:
    return json.dumps({"version": 1, "target": "t", "files": dict.fromkeys(files, "")})


def complete(files: Tree) -> Tree:
    return {**files, **MINE, "manifest.json": manifest(files)}


def fill(folder: Path, files: Tree) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def build(files: Tree) -> None:
    with open_folder("out") as folder:
        fill(folder, {**files, "manifest.json": manifest(files)})


def visible() -> Tree:
    """Return all files in the output folder that are not hidden."""
    found = (path for path in Path("out").rglob("*") if path.is_file())
    files = {path.relative_to("out"): path.read_text() for path in found}
    return {str(p): t for p, t in files.items() if not p.parts[0].startswith(".")}


def hidden() -> list[Path]:
    return [*Path().glob(".*.partial"), *Path("out").glob(".*.partial")]


def recover() -> None:
    """Start a command for the same folder, which fails before it writes."""
    with pytest.raises(ZeroDivisionError), open_folder("out"):
        raise ZeroDivisionError


def forked(run: Callable[[], None]) -> int:
    """Return the status of a fork that calls `run` as a command."""
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        status = 99
        try:
            sys.argv = ["ceras-test"]

            def main(_: Sequence[str]) -> int:
                run()
                return 0

            status = run_tool("ceras-test", main)
        except SystemExit as end:
            status = int(end.code or 0)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


def start(run: Callable[[], object]) -> int:
    """
    Return the process of a fork that calls `run`. An interrupt at any time ends the fork, which
    must not continue as the process of the test.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
    child = os.fork()
    if not child:
        _run_and_exit(run, MAX_SIGNALS)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
    return child


MAX_SIGNALS = 3
"""The largest number of interrupts that a fork of `start` receives."""


def _run_and_exit(run: Callable[[], object], levels: int) -> None:
    # An interrupt can end the call in `finally`; then that of the next level ends the process.
    try:
        if levels:
            _run_and_exit(run, levels - 1)
        else:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
            run()
    finally:
        os._exit(0)


def signalling(number: int, calls: Sequence[int]) -> None:
    """Send `number` to this process before the given calls that change the disk."""
    counter = [0]

    def wrap(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            counter[0] += 1
            if counter[0] in calls:
                os.kill(os.getpid(), number)
            return call(*arguments, **options)

        return wrapped

    for name in CALLS:
        setattr(os, name, wrap(getattr(os, name)))
    output_folder.exchange = wrap(output_folder.exchange)


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def prepare(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create the old folder, and disable the exchange for the method `moves`."""
    build(OLD)
    fill(Path("out"), MINE)
    if method == "moves":
        monkeypatch.setattr(output_folder, "_system_exchange", lambda: None)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["exchange", "moves"])
@pytest.mark.parametrize(
    ("number", "gap", "step"),
    # A second interrupt could end the cleaning after the first.
    [(signal.SIGKILL, 0, 1), (signal.SIGINT, 1, 3), (signal.SIGTERM, 2, 4)],
)
def test_signals_at_each_call(
    method: str, number: int, gap: int, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(method, monkeypatch)
    files = {"old": OLD, "new": NEW}
    before, after = "old", "new"
    sent = 0
    for call in range(1, 1000, step):

        def run(calls: Sequence[int] = (call, call + gap), after: str = after) -> None:
            signalling(number, calls)
            build(files[after])

        status = forked(run)
        found = visible()
        if status == 0:
            assert found == complete(files[after])
            break
        sent += 1
        assert status in (-signal.SIGKILL, 130, 143)
        if method == "moves" and number == signal.SIGKILL:
            recover()
            found = visible()
        assert found in (complete(files[before]), complete(files[after])), call
        recover()
        assert visible() == found
        assert not hidden()
        # The next process starts with the files that this one has left.
        if found == complete(files[after]):
            before, after = after, before
    assert sent * step > 20


@pytest.mark.slow
@pytest.mark.parametrize("method", ["exchange", "moves"])
def test_signals_at_random_times(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that alternates between two outputs is killed or interrupted."""
    prepare(method, monkeypatch)
    draw = random.Random(0)

    def forever(_: Sequence[str]) -> int:
        while True:
            build(NEW)
            build(OLD)

    def run_command() -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.argv = ["ceras-test"]
        run_tool("ceras-test", forever)

    for _ in range(20):
        child = start(run_command)
        time.sleep(draw.uniform(0.002, 0.03))
        kinds = ((signal.SIGKILL,), (signal.SIGINT,) * MAX_SIGNALS, (signal.SIGTERM,) * 2)
        for number in draw.choice(kinds):
            os.kill(child, number)
        os.waitpid(child, 0)
        recover()
        assert visible() in (complete(OLD), complete(NEW))
        assert not hidden()


def test_what_the_user_writes_during_an_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare("exchange", monkeypatch)
    exchange = output_folder.exchange

    def late(first: Path, second: Path) -> None:
        Path("out/late").write_text("mine")
        Path("out/notes").unlink()
        Path("out/notes").write_text("edited")
        exchange(first, second)

    monkeypatch.setattr(output_folder, "exchange", late)
    build(NEW)
    assert visible() == {**complete(NEW), "late": "mine", "notes": "edited"}


def test_a_folder_in_which_a_process_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell of the user in the folder sees the new files."""
    prepare("exchange", monkeypatch)
    inode = os.stat("out").st_ino
    build(NEW)
    assert os.stat("out").st_ino != inode
    inode = os.stat("out").st_ino
    here = os.getcwd()
    monkeypatch.chdir("out/kept")
    with open_folder(f"{here}/out") as folder:
        fill(folder, {**OLD, "manifest.json": manifest(OLD)})
    monkeypatch.chdir(here)
    assert os.stat("out").st_ino == inode and visible() == complete(OLD)


def test_moves_of_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive can have a list of moves, which must not leave the folder."""
    prepare("exchange", monkeypatch)
    Path("secret").write_text("mine")
    for content in ({"old": ["../secret"], "new": []}, {"old": [], "new": ["../secret"]}, [1], {}):
        fill(Path("out/.out.abcdefgh.partial"), {"moves.json": json.dumps(content)})
        with pytest.raises(output_folder.InputError, match="is not a list of moves"):
            build(NEW)
        assert Path("secret").read_text() == "mine" and visible() == complete(OLD)
