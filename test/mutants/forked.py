"""A command of ours in a process that has imported everything already: time and memory end it."""

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
"""What one mutant may take, of a processor's time."""
WAITING = 20
"""So many times as long may pass, on a machine with other work."""

FINE = frozenset({0, 1, 2, 3})
"""Statuses of what a user can cause."""

Main = Callable[[Sequence[str]], int]


@dataclass(frozen=True)
class Outcome:
    """How a command ended; `status` is negative where a signal ended it."""

    command: str
    status: int
    errors: str

    @property
    def good(self) -> bool:
        """Whether it said in words what is wrong, if anything is."""
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
        # What pytest or lit put in their place.
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
