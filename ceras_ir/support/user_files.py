"""
Read files that the user or a file of the user names.

A device does not end, and a pipe waits for a writer. Such files are refused before they are read,
by an `OSError` with the name of the file, as a missing file.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, TypeVar

MAX_FILE_BYTES = 4 << 30
"""The largest size of a file that is read into memory."""

CHUNK_BYTES = 1 << 20
"""Bytes of a pipe that are read at a time."""

KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

PathOrText = TypeVar("PathOrText", Path, str)


def regular(path: PathOrText) -> PathOrText:
    """
    Return `path` if it is a regular file, or a link to one. Raise an `OSError` otherwise, so that a
    command does not read a device or pipe.
    """
    _check(os.stat(path), path)
    return path


def _check(status: os.stat_result, path: Path | str) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if kind != stat.S_IFREG:
        raise OSError(errno.EINVAL, f"{KINDS.get(kind, 'no file')}, expected a file", str(path))


def read_bytes(path: Path | str, limit: int = MAX_FILE_BYTES) -> bytes:
    """
    Return the content of a file, or of a pipe that another process writes. Raise an `OSError` for
    other kinds of files, a pipe without a writer, and more than `limit` bytes.
    """
    # A blocking call would wait for the writer of a pipe.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(handle)
        is_pipe = stat.S_ISFIFO(status.st_mode)
        if not is_pipe:
            _check(status, path)
        os.set_blocking(handle, True)
        with open(handle, "rb", closefd=False) as stream:
            if is_pipe:
                data = _up_to(limit + 1, stream)
            else:
                data = stream.read() if status.st_size <= limit else b""
    finally:
        os.close(handle)
    if max(status.st_size, len(data)) > limit:
        raise OSError(errno.EFBIG, f"more than {limit} bytes", str(path))
    if is_pipe and not data:
        raise OSError(errno.EINVAL, "a pipe without content, expected a file", str(path))
    return data


def _up_to(size: int, stream: BinaryIO) -> bytes:
    # A single call would allocate all bytes first.
    parts = list[bytes]()
    while size and (part := stream.read(min(size, CHUNK_BYTES))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def read_text(path: Path | str, limit: int = MAX_FILE_BYTES) -> str:
    """
    Return the text of a file in UTF-8, in which lines end in a line feed. Raise an `OSError` as
    `read_bytes` does, and a `UnicodeDecodeError` for other encodings.
    """
    text = read_bytes(path, limit).decode("utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")
