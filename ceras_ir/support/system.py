"""
Functions of the operating system: a lock between processes, which the system frees with the
process that holds it, and the return of free memory to the system.
"""

import ctypes
import fcntl
import gc
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


def give_back() -> None:
    """
    Erase what only refers to itself, as erased operations and their constants do, and hand free
    memory below what is used back to the system; where its library is not glibc, it decides.
    """
    gc.collect()
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):  # No shared library of its own, Windows, macOS.
        return
    trim(0)
