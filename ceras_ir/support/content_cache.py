"""
Bytes on disk under the digest of all that they depend on, for several processes at once.

An entry is written under a temporary name and renamed, and carries the digest of its content: one
that was damaged counts as missing. `computed` holds a lock on the key, which the system frees with
the process, so that what several processes need is computed once. Entries that were not read for
longest go when the cache is larger than its limit.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from hashlib import sha256
from itertools import count
from pathlib import Path

from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.system import locked

DEFAULT_LIMIT = 4 << 30
"""Bytes."""

KEPT_SHARE = 0.8
"""Of the limit, what is left when entries were removed: it is not done for every new one."""

MAGIC = b"ceras-entry-1\n"

_NUMBERS = count()


class CacheError(InputError):
    """The cache cannot be written: no fault of what was computed, which would be lost."""


def key_of(*parts: str | bytes) -> str:
    """The digest of `parts`, as the name of an entry; where one ends matters."""
    found = sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(b"%d:" % len(data))
        found.update(data)
    return found.hexdigest()


class ContentCache:
    """A folder of entries of at most `limit` bytes together."""

    def __init__(self, folder: Path, limit: int = DEFAULT_LIMIT):
        if limit < 1:
            raise InputError(f"a cache needs a limit of at least 1 byte, got {limit}", str(folder))
        self.folder, self.limit = folder, limit
        self._written = limit  # So that the first write looks at what is there.

    def get(self, key: str) -> bytes | None:
        """The bytes under `key`; None if there are none, or damaged ones, which are removed."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        head = len(MAGIC) + 32
        content = data[head:]
        if data[:head] != MAGIC + sha256(content).digest():
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(OSError):
            os.utime(path)
        return content

    def put(self, key: str, content: bytes) -> None:
        """Keep `content` under `key`; a `CacheError` if it cannot be written."""
        path = self._path(key)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{next(_NUMBERS)}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with open(temporary, "wb") as stream:
                    stream.write(MAGIC + sha256(content).digest() + content)
                temporary.replace(path)
            except BaseException:
                with suppress(OSError):
                    temporary.unlink()
                raise
        except OSError as error:
            raise self._cannot("write", error) from None
        self._written += len(content)
        # An entry larger than this share is looked for at once, many small ones sometimes.
        if self._written > (1 - KEPT_SHARE) * self.limit / 2:
            self._written = 0
            self._shrink(path)

    def computed(self, key: str, make: Callable[[], bytes]) -> bytes:
        """The bytes under `key`, made by `make` if they are missing, by one process alone."""
        if (known := self.get(key)) is not None:
            return known
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(self.folder / "locks" / key))
            except OSError as error:
                raise self._cannot("lock", error) from None
            if (known := self.get(key)) is not None:
                return known
            made = make()
            self.put(key, made)
            return made

    def size(self) -> int:
        """Bytes of all entries."""
        return sum(status.st_size for _, status in self._entries())

    def _cannot(self, what: str, error: OSError) -> CacheError:
        return CacheError(
            f"the cache cannot {what}: {error.strerror}; free some space, or name another folder "
            "or a smaller size for it",
            str(self.folder),
        )

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / key

    def _entries(self) -> Iterator[tuple[Path, os.stat_result]]:
        for path in self.folder.glob("[0-9a-f][0-9a-f]/*"):
            # Another process may remove it meanwhile.
            with suppress(FileNotFoundError):
                yield path, path.stat()

    def _shrink(self, kept: Path) -> None:
        """Remove what was not read for longest, but never what has just been written."""
        entries = sorted(self._entries(), key=lambda item: item[1].st_mtime)
        total = sum(status.st_size for _, status in entries)
        if total <= self.limit:
            return
        for path, status in entries:
            if total <= KEPT_SHARE * self.limit:
                break
            if path != kept:
                with suppress(OSError):
                    path.unlink()
                total -= status.st_size
