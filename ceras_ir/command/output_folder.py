"""
Replace an output folder completely or not at all, even if the process is killed.

1. The new files are written to the folder `new` in a hidden folder next to the destination, or
   inside the destination if it is a mount point or its parent cannot be written.
2. A new destination is renamed. An existing folder with its files is exchanged with `new` by one
   system call. Files that no manifest of the compiler lists belong to the user: `new` receives
   links to them before. A folder with only such files is refused. `force` permits to replace
   files with the same names.
3. A folder that cannot be exchanged, such as the current folder of a process, receives the new
   files one by one. A list of all moves is written before, and the old files are set aside.
4. Files that `make` builds from listed files are replaced too: the next network may be for another
   target, and does not overwrite them.
5. Signals are delayed during steps 2 and 3. The next start for the same destination undoes the
   moves of a process that was killed, and removes its hidden folder.
"""

import ctypes
import errno
import fcntl
import json
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from xdsl.utils.hints import isa

from ceras_ir.command.output_files import MANIFEST, REPORT, is_inside
from ceras_ir.command.uninterrupted import uninterrupted
from ceras_ir.support.diagnostics import InputError, UsageError, cannot_write
from ceras_ir.support.private_files import resolved
from ceras_ir.support.user_files import read_text

MAKEFILE = "Makefile"

NEW, OLD = "new", "old"
"""The folders inside a hidden folder: the new files, and the files that were set aside."""

MOVES = "moves.json"
"""The list of moves in a hidden folder, which exists until the last move is complete."""

EXCHANGED = "exchanged"
"""The file in a hidden folder with the inode of the folder that was or will be exchanged."""

RENAME_EXCHANGE = 2
AT_FDCWD = -100


@contextmanager
def open_folder(path: str, *, force: bool = False) -> Generator[Path]:
    """Yield a temporary folder, and move the content to `path` if the block succeeds."""
    if not path:
        raise UsageError("the name of the output folder is empty: give -o DIR")
    destination = Path(resolved(path))
    exists = destination.exists()
    if exists and not destination.is_dir():
        raise InputError("is a file, and the output needs a folder: name another", path)
    place = destination.parent
    try:
        if exists:
            with _locked(destination):
                _recover(destination)
                _ours(destination, path, force=force)
            if _mount(destination) != _mount(place) or not os.access(place, os.W_OK | os.X_OK):
                place = destination
        else:
            place.mkdir(parents=True, exist_ok=True)
            _recover(destination)
        with _hidden_folder(place, destination.name) as hidden:
            (hidden / NEW).mkdir()
            yield hidden / NEW
            with uninterrupted():
                if exists or not _renamed(hidden / NEW, destination):
                    with _locked(destination):
                        # Another process may have written since.
                        listed = _ours(destination, path, force=force)
                        _replace(hidden, destination, listed, path, force=force)
    except OSError as error:
        # An error with another name concerns an input.
        name = os.fspath(error.filename or destination)
        written = str(destination), str(place / f".{destination.name}.")
        if name.startswith(written) or destination.is_relative_to(name):
            raise cannot_write(error, path) from None
        raise


def _mount(folder: Path) -> str:
    """
    Return a text that identifies the file system mount of `folder`. A rename works only within a
    mount.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        lines = Path(f"/proc/self/fdinfo/{handle}").read_text().splitlines()
        return next(line for line in lines if line.startswith("mnt_id:"))
    except (OSError, StopIteration):
        return str(os.fstat(handle).st_dev)
    finally:
        os.close(handle)


@contextmanager
def _hidden_folder(place: Path, name: str) -> Generator[Path]:
    """
    Create a hidden folder in `place` for the new files of the destination `name`, and lock it for
    the duration of the block. It is removed at the end.
    """
    while True:
        hidden = Path(tempfile.mkdtemp(".partial", f".{name}.", place))
        handle = os.open(hidden, os.O_RDONLY | os.O_DIRECTORY)
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        # Another process may have considered the folder abandoned before it was locked.
        if hidden.exists():
            break
        os.close(handle)
    try:
        yield hidden
    finally:
        with uninterrupted():
            _remove(hidden)
            os.close(handle)


def _remove(hidden: Path) -> None:
    # As long as it has a mark, the folder can have the only copy of a file.
    if not any((hidden / mark).exists() for mark in (MOVES, EXCHANGED)):
        shutil.rmtree(hidden, ignore_errors=True)


def _hidden_folders(destination: Path) -> Iterator[Path]:
    """
    Yield the hidden folders for `destination` that this user owns, of this and other processes.
    """
    pattern = re.compile(rf"\.{re.escape(destination.name)}\.\w+\.partial")
    for place in (destination.parent, destination):
        with suppress(OSError):
            for entry in os.scandir(place):
                status = entry.stat(follow_symlinks=False)
                if (
                    pattern.fullmatch(entry.name)
                    and entry.is_dir(follow_symlinks=False)
                    and status.st_uid == os.geteuid()
                ):
                    yield Path(entry.path)


def _recover(destination: Path) -> None:
    """
    Complete or undo the changes to `destination` of processes that were killed, and remove their
    hidden folders.
    """
    for hidden in list(_hidden_folders(destination)):
        try:
            handle = os.open(hidden, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:  # Another process has removed it.
            continue
        try:
            # The lock of a running process is held.
            with suppress(BlockingIOError), uninterrupted():
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if (moves := _read_moves(hidden, destination)) is not None:
                    _undo(hidden, destination, *moves)
                if _was_exchanged(hidden):
                    _take_late_files(hidden, destination)
                (hidden / EXCHANGED).unlink(missing_ok=True)
                _remove(hidden)
        finally:
            os.close(handle)


def _ours(destination: Path, shown: str, *, force: bool) -> set[Path]:
    """
    Return the files in `destination` that an earlier compilation wrote, and that may be replaced.
    Raise an `InputError` if the folder has only files of the user, unless `force`. `shown` is the
    name in the message.
    """
    listed = _listed(destination)
    if listed is None and not force and destination.exists():
        # Another process writes into a folder with such a name.
        hidden = set(_hidden_folders(destination))
        if not all(entry in hidden for entry in destination.iterdir()):
            raise InputError(
                "has files that ceras-compile did not write: name another folder, or add --force",
                shown,
            )
    return listed or set()


def _renamed(new: Path, destination: Path) -> bool:
    """
    Rename the folder `new` to `destination`. Return False if another process has created
    `destination`.
    """
    try:
        os.rename(new, destination)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    while True:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
            # The previous holder may have exchanged the folder.
            if os.path.samestat(os.fstat(handle), os.stat(folder)):
                yield
                return
        finally:
            os.close(handle)


def _listed(folder: Path) -> set[Path] | None:
    """
    Return the files that the manifest of a compiled network in `folder` lists; `None` without a
    valid manifest.
    """
    try:
        content: object = json.loads(read_text(folder / MANIFEST))
    except (OSError, ValueError, RecursionError):
        return None
    if not isa(content, dict[str, object]) or not isinstance(content.get("target"), str):
        return None
    files = content.get("files")
    names = list(files) if isa(files, dict[str, object]) else []
    names += _built(folder, names)
    return {Path(name) for name in (*names, MANIFEST, REPORT) if is_inside(folder, name)}


def _built(folder: Path, names: Collection[str]) -> list[str]:
    """
    Return the files that `make` builds in `folder` from the files `names`: an object of each source
    in C, and the goals of the makefile that are files.
    """
    found = [f"{name.removesuffix('.c')}.o" for name in names if name.endswith(".c")]
    for name in names:
        if os.path.basename(name) == MAKEFILE and is_inside(folder, name):
            with suppress(OSError, ValueError):
                text = read_text(folder / name)
                phony = " ".join(re.findall(r"^\.PHONY:(.*)$", text, re.MULTILINE)).split()
                goals = set(re.findall(r"^([\w.-]+):(?!=)", text, re.MULTILINE))
                place = os.path.dirname(name)
                found += [os.path.join(place, goal) for goal in goals - {".PHONY", *phony}]
    return found


def _files(folder: Path) -> list[Path]:
    """
    Return the relative paths of all files and links below `folder`, without the hidden folders of
    this module.
    """
    found: list[Path] = []
    hidden = set(_hidden_folders(folder))
    for place, folders, names in os.walk(folder):
        # Links to folders are entries too.
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        folders[:] = [n for n in folders if n not in links and Path(place, n) not in hidden]
        found += [Path(place, name).relative_to(folder) for name in (*names, *links)]
    return sorted(found)


def _replace(
    hidden: Path, destination: Path, listed: Collection[Path], shown: str, *, force: bool
) -> None:
    """
    Replace the files `listed` (written by an earlier compilation) in `destination` by the new files
    in the hidden folder. If this fails, no file is changed. Raise an `InputError`, which names the
    destination `shown`, if a new file would replace a folder or, without `force`, a file of the
    user.
    """
    new = _files(hidden / NEW)
    _refuse_clashes(new, destination, listed, shown, force=force)
    if not _exchange(hidden, destination, {*listed, *new}):
        _move(hidden, destination, listed, new)


def _refuse_clashes(
    new: Collection[Path], destination: Path, listed: Collection[Path], shown: str, *, force: bool
) -> None:
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


@cache
def _system_exchange():  # A function of the C library, without a type.
    """Return `renameat2`, or `None` if the system has no such call."""
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


def exchange(first: Path, second: Path) -> None:
    """Exchange two folders of a file system by one call, or raise an `OSError`."""
    call = _system_exchange()
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    names = os.fsencode(first), os.fsencode(second)
    if call(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _exchange(hidden: Path, destination: Path, ours: Collection[Path]) -> bool:
    """
    Exchange `destination` with the folder of new files by one system call. Before, all files except
    `ours`, the replaced files, are linked into the new folder. Return False, without a change of
    `destination`, if the system does not permit this.
    """
    new, mark = hidden / NEW, hidden / EXCHANGED
    made: list[Path] = []
    try:
        if hidden.parent == destination or _is_current(destination):
            return False
        if any(folder.parent == destination for folder in _hidden_folders(destination)):
            return False
        status = os.stat(destination)
        mark.write_text(f"{status.st_dev} {status.st_ino}")
        _copy_folder(destination, new)
        os.utime(new)
        for folder in _kept_folders(destination, ours):
            if not (new / folder).is_dir():
                (new / folder).mkdir()
                made.append(new / folder)
            _copy_folder(destination / folder, new / folder)
        for path in _files(destination):
            if path not in ours:
                os.link(destination / path, new / path, follow_symlinks=False)
                made.append(new / path)
        exchange(new, destination)
    except OSError:
        for path in reversed(made):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        mark.unlink(missing_ok=True)
        return False
    _take_late_files(hidden, destination)
    mark.unlink()
    return True


def _kept_folders(destination: Path, ours: Collection[Path]) -> list[Path]:
    """
    Return the folders in `destination` that must be kept, since they have files of the user (not in
    `ours`) or are empty; outer folders first.
    """
    parents = {parent for path in ours for parent in path.parents}
    kept = {parent for path in _files(destination) if path not in ours for parent in path.parents}
    for place, folders, _ in os.walk(destination):
        inside = (Path(place, name) for name in folders)
        relative = {path.relative_to(destination) for path in inside if not path.is_symlink()}
        kept |= relative - parents
    return sorted(kept - {Path()})


def _copy_folder(source: Path, target: Path) -> None:
    """Give `target` the owner, the permissions and the attributes of `source`."""
    status = os.stat(source)
    if (status.st_uid, status.st_gid) != (target.stat().st_uid, target.stat().st_gid):
        os.chown(target, status.st_uid, status.st_gid)
    shutil.copystat(source, target)


def _is_current(folder: Path) -> bool:
    """Return whether the current folder of any visible process is `folder` or below it."""
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdigit() and f"{os.readlink(f'/proc/{name}/cwd')}/".startswith(f"{folder}/"):
                return True
    return False


def _was_exchanged(hidden: Path) -> bool:
    try:
        status = os.stat(hidden / NEW)
        return read_text(hidden / EXCHANGED) == f"{status.st_dev} {status.st_ino}"
    except OSError:
        return False


def _take_late_files(hidden: Path, destination: Path) -> None:
    """
    Move files into `destination` that the user wrote into the old folder after the existing files
    were linked and before the folders were exchanged.
    """
    before = hidden / NEW
    ours = {*(_listed(before) or ()), *(_listed(destination) or ())}
    for path in _files(before):
        if path in ours:
            continue
        with suppress(FileNotFoundError):
            if os.path.samestat(os.lstat(before / path), os.lstat(destination / path)):
                continue
        (destination / path).parent.mkdir(parents=True, exist_ok=True)
        os.replace(before / path, destination / path)


def _move(hidden: Path, destination: Path, listed: Collection[Path], new: Collection[Path]) -> None:
    """
    Move the files `listed` away and the files `new` into `destination`, one by one. After an error,
    all moves are undone.
    """
    old = sorted(
        path
        for path in {*listed, *new}
        if os.path.lexists(destination / path) and not (destination / path).is_dir()
    )
    names = {OLD: [str(path) for path in old], NEW: [str(path) for path in new]}
    with open(hidden / MOVES, "x", encoding="utf-8") as stream:
        json.dump(names, stream)
    try:
        for path in old:
            _rename(destination / path, hidden / OLD / path)
        for path in new:
            _rename(hidden / NEW / path, destination / path)
        (hidden / MOVES).unlink()
    except BaseException:
        _undo(hidden, destination, old, new)
        raise
    finally:
        _remove_empty(destination, (*listed, *new))


def _rename(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(source, target)


def _remove_empty(destination: Path, paths: Collection[Path]) -> None:
    for folder in {parent for path in paths for parent in path.parents if parent.parts}:
        # A folder with other files remains.
        with suppress(OSError):
            os.removedirs(destination / folder)


def _read_moves(hidden: Path, destination: Path) -> tuple[list[Path], list[Path]] | None:
    """
    Return the old and the new files in the list of moves of a process that was killed; `None` if it
    had moved no file.
    """
    try:
        content: object = json.loads(read_text(hidden / MOVES))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):  # The process was killed before the first move.
        (hidden / MOVES).unlink()
        return None
    names = content if isa(content, dict[str, list[str]]) else {}
    # The folder can be part of an archive of somebody else.
    if names.keys() != {OLD, NEW} or not all(
        is_inside(folder, name)
        for key in (OLD, NEW)
        for name in names[key]
        for folder in (destination, hidden / key)
    ):
        raise InputError("is not a list of moves in this folder: remove it", str(hidden / MOVES))
    return [Path(name) for name in names[OLD]], [Path(name) for name in names[NEW]]


def _undo(hidden: Path, destination: Path, old: Collection[Path], new: Collection[Path]) -> None:
    """
    Undo moves. It depends only on which files exist, so it can be repeated if it is killed too.
    """
    for path in new:
        if not os.path.lexists(hidden / NEW / path) and os.path.lexists(destination / path):
            _rename(destination / path, hidden / NEW / path)
    for path in old:
        if os.path.lexists(hidden / OLD / path):
            _rename(hidden / OLD / path, destination / path)
    (hidden / MOVES).unlink()
    _remove_empty(destination, (*old, *new))
