"""
Write output files and folders completely or not at all.

A file is written next to its destination under a temporary name and renamed at the end. A failed
run therefore leaves no partial file, and does not destroy an earlier result. For a folder:

1. Write all files into a hidden folder: next to the destination, or inside an existing destination,
   which may be a mount point or the current folder and is not renamed.
2. Rename the hidden folder to a new destination. In an existing destination, set the files aside
   that its manifest lists, and move the new files in. After an error, put all old files back.
3. Files that no manifest of the compiler lists belong to the user. They are not replaced, and a
   folder with only such files is refused. `force` permits to replace files with the same names.
"""

import errno
import fcntl
import json
import os
import shutil
import sys
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from itertools import count
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TextIO

from xdsl.utils.hints import isa

from ceras_ir.support.diagnostics import InputError, UsageError, cannot_write
from ceras_ir.support.options import option, options

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
    """Refuse an output that is an input of the command; lists have commas."""
    if output is None or not os.path.isfile(output):
        return
    for source in (part for text in sources if text for part in (text, *text.split(","))):
        if os.path.isfile(source) and os.path.samefile(source, output):
            raise UsageError(f"'{output}' is an input of the command: name another output")


def first_unused(folder: str, name: str, ending: str) -> str:
    """Return the first name of a numbered series that does not exist."""
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
    try:
        return open(path, "w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise cannot_write(error, shown) from None


MANIFEST = "manifest.json"
REPORT = "report.json"

_NUMBERS = count()


@contextmanager
def open_folder(path: str, *, force: bool = False) -> Generator[Path]:
    """Yield a temporary folder, and move its content to `path` if the block succeeds."""
    if not path:
        raise UsageError("the name of the output folder is empty: give -o DIR")
    destination = Path(os.path.realpath(path))
    exists = destination.exists()
    if exists and not destination.is_dir():
        raise InputError("is a file, and the output needs a folder: name another", path)
    _ours(destination, path, force=force)
    place = destination if exists else destination.parent
    staging = place / f".{destination.name}.{os.getpid()}.{next(_NUMBERS)}.partial"
    try:
        staging.mkdir(parents=True)
        yield staging
        if not exists and _renamed(staging, destination):
            return
        with _locked(destination):
            # Another process may have written since.
            listed = _ours(destination, path, force=force)
            _exchange(staging, destination, listed, path, force=force)
    except OSError as error:
        # An error with another name concerns an input.
        if error.filename is None or Path(error.filename).is_relative_to(place):
            raise cannot_write(error, path) from None
        raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _ours(destination: Path, shown: str, *, force: bool) -> set[Path]:
    """Return the files that may be replaced in a folder; refuse a folder of the user."""
    listed = _listed(destination)
    if listed is None and not force and destination.exists():
        # Another process writes into a folder with such a name.
        pattern = f".{destination.name}.*.partial"
        if not all(entry.match(pattern) for entry in destination.iterdir()):
            raise InputError(
                "has files that ceras-compile did not write: name another folder, or add --force",
                shown,
            )
    return listed or set()


def _renamed(staging: Path, destination: Path) -> bool:
    """Rename a folder; return False if another process created the destination."""
    try:
        os.rename(staging, destination)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _listed(folder: Path) -> set[Path] | None:
    """Return the files that the manifest in `folder` lists; None without a valid manifest."""
    try:
        content: object = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isa(content, dict[str, object]) or not isinstance(content.get("target"), str):
        return None
    files = content.get("files")
    names = list(files) if isa(files, dict[str, object]) else []
    return {Path(name) for name in (*names, MANIFEST, REPORT) if is_inside(folder, name)}


def is_inside(folder: Path, name: str) -> bool:
    """Return whether `name` is a file below `folder`, after links are followed."""
    plain = PurePosixPath(name)
    if "\0" in name or not plain.parts or plain.is_absolute() or ".." in plain.parts:
        return False
    return (folder / plain).parent.resolve().is_relative_to(folder.resolve())


def _exchange(
    staging: Path, destination: Path, listed: Collection[Path], shown: str, *, force: bool
) -> None:
    """Replace the files `listed` by the files in `staging`, or change nothing."""
    new = [file.relative_to(staging) for file in staging.rglob("*") if not file.is_dir()]
    for path in new:
        if (destination / path).is_dir():
            raise InputError(
                f"{path} is a folder, and the output has a file of this name: remove the folder",
                shown,
            )
        for parent in path.parents:
            if (destination / parent).exists() and not (destination / parent).is_dir():
                raise InputError(
                    f"{parent} is a file, and the output has such a folder: remove the file",
                    shown,
                )
        if os.path.lexists(destination / path) and path not in listed and not force:
            raise InputError(
                f"{path} is a file that ceras-compile did not write: remove it, or add --force",
                shown,
            )
    aside = staging / ".old"
    moved: list[tuple[Path, Path]] = []

    def move(source: Path, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        moved.append((source, target))
        os.replace(source, target)

    try:
        for path in sorted({*listed, *new}):
            if os.path.lexists(destination / path) and not (destination / path).is_dir():
                move(destination / path, aside / path)
        for path in new:
            move(staging / path, destination / path)
    except BaseException:
        for source, target in reversed(moved):
            with suppress(FileNotFoundError):
                os.replace(target, source)
        raise
    finally:
        for folder in {p for path in (*listed, *new) for p in path.parents if p.parts}:
            # A folder with other files remains.
            with suppress(OSError):
                os.removedirs(destination / folder)


def write_artefacts(folder: Path, artefacts: "Sequence[Artefact]") -> None:
    """Write each artefact below `folder`."""
    for artefact in artefacts:
        path = folder / artefact.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as stream:
            artefact.write(stream)
