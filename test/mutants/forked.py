"""Run a command in a fork of this process, with limits on time and memory."""

import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SECONDS, MEMORY = 20, 12 << 30
"""The limits of a mutant: seconds of processor time, and bytes."""
WAITING = 20
"""The factor from processor time to elapsed time, for a machine with other work."""

FINE = frozenset({0, 1, 2, 3})
"""The exit statuses that a user can cause."""

Main = Callable[[Sequence[str]], int]


@dataclass(frozen=True)
class Outcome:
    """The result of a command; `status` is negative if a signal terminated it."""

    command: str
    status: int
    errors: str

    @property
    def good(self) -> bool:
        """Return whether the command exited with a documented status and without a traceback."""
        return self.status in FINE and "Traceback" not in self.errors


def run(main: Main, arguments: Sequence[str], folder: Path) -> Outcome:
    """Run `main` in `folder`, in a child of this process."""
    with tempfile.TemporaryFile() as errors:
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if not child:
            _become(main, arguments, folder, errors.fileno())
        _, status = os.waitpid(child, 0)
        errors.seek(0)
        text = errors.read().decode(errors="replace")
    return Outcome(" ".join(arguments), os.waitstatus_to_exitcode(status), text)


def _become(main: Main, arguments: Sequence[str], folder: Path, errors: int) -> None:
    status = 99
    with suppress(BaseException):
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        os.dup2(errors, 2)
        # Undo the replacement by pytest or lit.
        sys.stdout, sys.stderr = (os.fdopen(n, "w", closefd=False) for n in (1, 2))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS * WAITING)
        status = main(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)
