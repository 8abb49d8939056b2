"""
Write output files completely or not at all.

A file is written next to its destination under a temporary name and renamed at the end. A failed
run therefore leaves no partial file, and does not destroy an earlier result. The module
`output_folder` does the same for folders.
"""

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from itertools import count
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, TextIO

from ceras_ir.support.diagnostics import UsageError, cannot_write
from ceras_ir.support.options import option, options
from ceras_ir.support.private_files import replacing, resolved

if TYPE_CHECKING:
    from ceras_ir.network.artefacts import Artefact


@options
class FolderOptions:
    """The treatment of output folders with files of the user."""

    force: bool = option(False)
    """
    Write into a folder that has files and no manifest of the compiler; files with the names of
    outputs are replaced, the others remain.
    """


def refuse_overwriting(output: str | None, *sources: str | None) -> None:
    """
    Raise a `UsageError` if the file `output` is one of `sources`, the inputs of the command. A
    source may be a list of paths separated by commas.
    """
    if output is None or not os.path.isfile(output):
        return
    for source in (part for text in sources if text for part in (text, *text.split(","))):
        if os.path.isfile(source) and os.path.samefile(source, output):
            raise UsageError(f"'{output}' is an input of the command: name another output")


def first_unused(folder: str, name: str, ending: str) -> str:
    """
    Return the first path that does not exist of the series `NAME.ENDING`, `NAME-2.ENDING`,
    `NAME-3.ENDING` and so on in `folder`.
    """
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
    """Open a text stream to the file `path`, or to the standard output for `-`."""
    if path == "-":
        with _in_utf8(sys.stdout) as stream:
            yield stream
        return
    try:
        with _replacing(path) as stream:
            yield stream
    except OSError as error:
        # An error with a name concerns another file; a closed pipe concerns no file.
        if error.filename is not None or isinstance(error, BrokenPipeError):
            raise
        raise cannot_write(error, path) from None


@contextmanager
def _in_utf8(stream: TextIO) -> Generator[TextIO]:
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
    # A rename cannot replace pipes and devices.
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as stream, _as_text(stream) as text:
            yield text
        return
    with replacing(Path(resolved(path))) as stream, _as_text(stream) as text:
        yield text


@contextmanager
def _as_text(stream: BinaryIO) -> Generator[TextIO]:
    text = TextIOWrapper(stream, encoding="utf-8", newline="\n")
    try:
        yield text
        text.flush()
    finally:
        # The caller closes the stream.
        with suppress(OSError):
            text.detach()


MANIFEST = "manifest.json"
REPORT = "report.json"


def is_inside(folder: Path, name: str) -> bool:
    """
    Return whether the relative path `name` leads to a place below `folder`, after links are
    followed.
    """
    plain = PurePosixPath(name)
    if "\0" in name or not plain.parts or plain.is_absolute() or ".." in plain.parts:
        return False
    return (folder / plain).parent.resolve().is_relative_to(folder.resolve())


def write_artefacts(folder: Path, artefacts: "Sequence[Artefact]") -> None:
    """Write the files of a compiled network below `folder`."""
    for artefact in artefacts:
        path = folder / artefact.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as stream:
            artefact.write(stream)
