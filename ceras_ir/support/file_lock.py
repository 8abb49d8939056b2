"""A lock between processes, which the system frees with the one that holds it."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold the lock at `path`, a file that is made and removed; an `OSError` if it cannot be."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        # Whoever held it before removed the file; another may have made a new one.
        try:
            if os.fstat(handle).st_ino == path.stat().st_ino:
                break
        except FileNotFoundError:
            pass
        os.close(handle)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(handle)
