"""Run compilers with a time limit, and identify them in the keys of caches."""

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.limits import TIMEOUT_FLAG, compiler_timeout


def run_compiler(
    command: Sequence[str], folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """
    Run a compiler in `folder`, and return the output. Raise an `OSError` if it does not start, and
    an `InputError` if it does not end in time. All processes that it has started are then killed.
    """
    limit, quiet = compiler_timeout(), subprocess.PIPE
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=quiet, stderr=quiet, process_group=0,
        text=True, errors="replace",
    ) as process:  # fmt: skip
        try:
            output, errors = process.communicate(timeout=limit)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise InputError(
                    f"'{command[0]}' did not end within {limit:g} s and was stopped: "
                    f"{TIMEOUT_FLAG} sets another limit"
                ) from None
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def identity(command: Sequence[str]) -> str:
    """
    Return a text that changes with the version and with the file of each program in `command`: of a
    compiler, and of a program such as ccache before it.
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
