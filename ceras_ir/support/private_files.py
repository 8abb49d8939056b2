"""
Create temporary files, and read cached files that no other user could have written.

The name of a temporary file is random and the file is new (O_EXCL), so that no link of another user
is followed. A cached file can contain code that runs. It is therefore read only if it belongs to
the user of this process or to the superuser, and if no other user can write it or its folder.
Folders above are not checked: whoever can rename the cache can replace it only by a folder with
another owner, which is refused.
"""

import grp
import os
import pwd
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ceras_ir.support.diagnostics import InputError

TEMPORARY = ".ceras-{}.partial"
"""The name of a temporary file, with random digits."""


def temporary_name(destination: Path) -> Path:
    """Return an unpredictable path in the folder of `destination`."""
    return destination.with_name(TEMPORARY.format(os.urandom(8).hex()))


@contextmanager
def replacing(destination: Path) -> Generator[BinaryIO]:
    """
    Yield a new temporary file, which replaces `destination` after the block and gets the same
    permissions. If the block fails, `destination` does not change. An `OSError` about the temporary
    file has no file name, because the user does not know that file.
    """
    temporary = temporary_name(destination)
    try:
        with open(temporary, "xb") as stream:
            yield stream
        # The destination can be missing, or a link to itself.
        with suppress(OSError):
            temporary.chmod(stat.S_IMODE(destination.stat().st_mode))
        temporary.replace(destination)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.filename == str(temporary):
            raise OSError(error.errno, error.strerror) from None
        raise


def resolved(path: str) -> str:
    """
    Return the path of an output with all links followed. If `path` itself is a link that belongs to
    another user (except root), raise an `InputError`, because it could lead to any file of this
    user. Links in the folders of the path are only followed.
    """
    if os.path.islink(path) and (reason := foreign(os.lstat(path))):
        raise InputError(f"is a link that {reason}: remove it, or name another output", path)
    return os.path.realpath(path)


def private_folder(folder: Path) -> None:
    """
    Create `folder` if it is missing. Raise an `InputError` with the reason if other users can write
    it, and an `OSError` if it cannot be created.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for status in (folder.lstat(), folder.stat()):
        if reason := foreign(status):
            raise _refusal(folder, reason)


def private_bytes(path: Path) -> bytes | None:
    """
    Return the content of `path`, or `None` if it cannot be read. Raise an `InputError` with the
    reason if it is a link, or if other users can write it.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        if path.is_symlink():
            raise _refusal(path, "is a link") from None
        return None
    with open(handle, "rb") as stream:
        status = os.fstat(handle)
        if reason := foreign(status):
            raise _refusal(path, reason)
        return stream.read() if stat.S_ISREG(status.st_mode) else None


def private_file(path: Path) -> bool:
    """
    Return whether the file `path` exists. Raise an `InputError` with the reason if it is a link, or
    if other users can write it.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    reason = "is a link" if stat.S_ISLNK(status.st_mode) else foreign(status)
    if reason:
        raise _refusal(path, reason)
    return True


def _refusal(path: Path, reason: str) -> InputError:
    return InputError(
        f"a cache that {reason} is not used, because cached code runs with your rights: remove it, "
        "or use another folder (--cache, XDG_CACHE_HOME)",
        str(path),
    )


def foreign(status: os.stat_result) -> str | None:
    """
    Return the reason why another user could have written the file or folder with this `status`, or
    `None` if no other user could. The superuser is trusted, and so is the private group of the
    user.
    """
    if status.st_uid not in (os.geteuid(), 0):
        return f"belongs to another user (uid {status.st_uid})"
    if stat.S_ISLNK(status.st_mode):
        return None
    mode = f"mode {stat.S_IMODE(status.st_mode):04o}"
    if status.st_mode & stat.S_IWOTH:
        return f"all users can write ({mode})"
    if status.st_mode & stat.S_IWGRP and not _is_private(status.st_gid):
        return f"the group {status.st_gid} can write ({mode})"
    return None


def _is_private(group: int) -> bool:
    """
    Return whether a group has the name of the user and no other members. An unknown group is not
    private.
    """
    try:
        user, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return found.gr_name == user.pw_name and set(found.gr_mem) <= {user.pw_name}
