"""Run a shell command of the user on candidate files, and return the exit status."""

import hashlib
import os
import shlex
import signal
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from ceras_ir.support.diagnostics import UsageError

PLACEHOLDER = "{input}"
"""The placeholder of the file in a command."""


class OutOfTimeError(Exception):
    """The time limit for all runs of the command is exceeded."""


class ShellCommand:
    """A shell command with status 0 for interesting inputs."""

    def __init__(
        self,
        command: str,
        suffix: str,
        *,
        timeout: float,
        limit: float | None,
        option: str = "--test",
    ):
        """
        Create a command. `timeout` limits the duration of a run, and `limit` the duration of all
        runs, in seconds.
        """
        if PLACEHOLDER not in command:
            raise UsageError(f"the command of {option} must have {PLACEHOLDER}, got '{command}'")
        self._command, self._timeout = command, timeout
        self._end = None if limit is None else time.monotonic() + limit
        self._folder = TemporaryDirectory(prefix="ceras-reduce-")
        self._file = Path(self._folder.name) / f"candidate{suffix}"
        self._known: dict[bytes, int | None] = {}
        self.runs = 0

    def status(self, data: bytes) -> int | None:
        """Return the status for the input `data`; None after a timeout."""
        key = hashlib.sha256(data).digest()
        if key not in self._known:
            # The first run decides whether reduction can start.
            if self.runs and self._end is not None and time.monotonic() > self._end:
                raise OutOfTimeError
            self._file.write_bytes(data)
            self._known[key] = self._run()
        return self._known[key]

    def _run(self) -> int | None:
        self.runs += 1
        command = self._command.replace(PLACEHOLDER, shlex.quote(str(self._file)))
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(
            command, shell=True, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
        )
        try:
            return process.wait(self._timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:
            # The processes of the shell are in its group, and are killed too.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
