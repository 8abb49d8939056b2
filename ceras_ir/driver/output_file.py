"""
Output that is there completely or not at all.

A file is written beside its destination under a temporary name and renamed when all went
well, so that a failed run neither leaves a part nor destroys an earlier result.
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import IO

from ceras_ir.diagnostics import InputError


@contextmanager
def open_output(path: str) -> Generator[IO[str]]:
    """A text stream to the file `path`, or to the standard output for `-`."""
    if path == "-":
        yield sys.stdout
        return
    # Pipes and devices cannot be renamed onto.
    if os.path.exists(path) and not os.path.isfile(path):
        with _open(path, path) as stream:
            yield stream
        return
    destination = os.path.realpath(path)
    temporary = f"{destination}.{os.getpid()}.tmp"
    stream = _open(temporary, path)
    try:
        with stream:
            yield stream
        with suppress(FileNotFoundError):
            os.chmod(temporary, os.stat(destination).st_mode)
        os.replace(temporary, destination)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _open(path: str, shown: str) -> IO[str]:
    """Open `path` for writing; errors call it `shown`."""
    try:
        return open(path, "w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror}", shown) from None
