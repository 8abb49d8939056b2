"""
Run external programs with a time limit, and identify compilers in the keys of caches.

All modules of the compiler start programs by these functions. Scripts that are copied into compiled
folders import nothing of the compiler, and are the exception.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.limits import COMPILERS, PROGRAMS, TimeLimit


def finish(
    command: Sequence[str],
    seconds: float | None,
    *,
    folder: Path | None = None,
    text: str = "",
    is_quiet: bool = False,
    variables: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """
    Run `command` in `folder` with the standard input `text`, and return the status and the output;
    with `is_quiet` the output is discarded. `variables` are added to the environment of the
    program. Raise an `OSError` if the program does not start, and
    `subprocess.TimeoutExpired` if it does not end within `seconds` (`None`: no limit). In case of
    an exception, all processes that it has started are killed.
    """
    output = subprocess.DEVNULL if is_quiet else subprocess.PIPE
    source = subprocess.PIPE if text else subprocess.DEVNULL
    environment = None if variables is None else {**os.environ, **variables}
    with subprocess.Popen(
        command, cwd=folder, stdin=source, stdout=output, stderr=output, process_group=0, text=True,
        errors="replace", env=environment,
    ) as process:  # fmt: skip
        try:
            said, errors = process.communicate(text or None, timeout=seconds)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, said or "", errors or "")


def run_compiler(
    command: Sequence[str], folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """
    Run a compiler in `folder`, and return the status and the output. Raise an `OSError` if it does
    not start. If it exceeds the time limit of compilers (`limits.COMPILERS`), kill all processes
    that it has started and raise an `InputError`. Its temporary files are deleted in any case.
    """
    # A compiler that is killed deletes no temporary files, such as the assembly of gcc.
    with tempfile.TemporaryDirectory(prefix="ceras-compiler-") as name:
        return _within(COMPILERS, command, folder, "", {"TMPDIR": name})


def run_program(
    command: Sequence[str], folder: Path | None = None, text: str = ""
) -> subprocess.CompletedProcess[str]:
    """
    Run a program other than a compiler in `folder`, with the standard input `text`, and return the
    status and the output. Errors are as in `run_compiler`; the time limit is that of programs.
    """
    return _within(PROGRAMS, command, folder, text, None)


def _within(
    limit: TimeLimit,
    command: Sequence[str],
    folder: Path | None,
    text: str,
    variables: Mapping[str, str] | None,
) -> subprocess.CompletedProcess[str]:
    seconds = limit.seconds()
    try:
        return finish(command, seconds, folder=folder, text=text, variables=variables)
    except subprocess.TimeoutExpired:
        raise InputError(
            f"'{command[0]}' did not end within {seconds:g} s and was stopped: "
            f"{limit.flag} sets another limit"
        ) from None


def identity(command: Sequence[str]) -> str:
    """
    Return a text for cache keys that changes if a program in `command` is replaced: the path, size,
    time and version of the compiler and of a program such as ccache before it.
    """
    files: list[str] = []
    for word in command:
        if (path := shutil.which(word)) is not None:
            status = os.stat(path)
            files.append(f"{os.path.realpath(path)} {status.st_size} {status.st_mtime_ns}")
    return "\n".join((*files, _version(tuple(command), tuple(files))))


@cache
def _version(command: tuple[str, ...], _: tuple[str, ...]) -> str:
    try:
        done = run_compiler([*command, "--version"])
    except OSError:  # The error is reported when the compiler is used.
        return ""
    return f"{done.returncode} {done.stdout}{done.stderr}"
