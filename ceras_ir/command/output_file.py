"""
Output that is there completely or not at all.

A file is written beside its destination under a temporary name and renamed when all went
well, so that a failed run neither leaves a part nor destroys an earlier result.
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from itertools import count
from typing import TextIO

from ceras_ir.support.diagnostics import InputError, UsageError


def refuse_overwriting(output: str | None, *sources: str | None) -> None:
    """Refuse an output that is one of the files a command reads; lists have commas."""
    if output is None or not os.path.isfile(output):
        return
    for source in (part for text in sources if text for part in (text, *text.split(","))):
        if os.path.isfile(source) and os.path.samefile(source, output):
            raise UsageError(f"'{output}' is read, and would be overwritten: name another output")


def first_unused(folder: str, name: str, ending: str) -> str:
    """The first file of a numbered series that is not there."""
    paths = (os.path.join(folder, f"{name}{f'-{n}' if n > 1 else ''}.{ending}") for n in count(1))
    return next(path for path in paths if not os.path.lexists(path))


def write_file(path: str, data: bytes) -> None:
    """Write `data` to the file `path`, or to the standard output for `-`."""
    if path == "-":
        sys.stdout.buffer.write(data)
        return
    with open_output(path) as stream:
        stream.buffer.write(data)


@contextmanager
def open_output(path: str) -> Generator[TextIO]:
    """A text stream to the file `path`, or to the standard output for `-`."""
    if path == "-":
        with _in_utf8(sys.stdout) as stream:
            yield stream
        return
    try:
        with _replacing(path) as stream:
            yield stream
    except OSError as error:
        # With a name it is of another file; without a reader it is no file.
        if error.filename is not None or isinstance(error, BrokenPipeError):
            raise
        raise InputError(f"cannot write: {error.strerror}", path) from None


@contextmanager
def _in_utf8(stream: TextIO) -> Generator[TextIO]:
    """Write results as in files, whatever the encoding of the console is."""
    if not isinstance(stream, TextIOWrapper):
        yield stream
        return
    encoding, errors = stream.encoding, stream.errors
    stream.reconfigure(encoding="utf-8", errors="strict")
    try:
        yield stream
    finally:
        stream.reconfigure(encoding=encoding, errors=errors)


@contextmanager
def _replacing(path: str) -> Generator[TextIO]:
    # Pipes and devices cannot be renamed onto.
    if os.path.exists(path) and not os.path.isfile(path):
        with _open(path, path) as stream:
            yield stream
        return
    destination = os.path.realpath(path)
    temporary = f"{destination}.{os.getpid()}.tmp"
    try:
        with _open(temporary, path) as stream:
            yield stream
        with suppress(FileNotFoundError):
            os.chmod(temporary, os.stat(destination).st_mode)
        os.replace(temporary, destination)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _open(path: str, shown: str) -> TextIO:
    """Open `path` for writing; errors call it `shown`."""
    try:
        return open(path, "w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror}", shown) from None
