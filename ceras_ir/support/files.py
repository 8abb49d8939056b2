"""
Lock files between processes, cache bytes on disk, list files of packages, and parse TOML.

A cache has an entry for each digest of inputs, and several processes can use it. An entry is
written under a temporary name and then renamed. It contains the digest of the content; a damaged
entry is treated as missing. A cache that other users can write is refused. `computed` locks the
key, so that an entry that several processes need is computed a single time. If the cache exceeds
the limit, the entries with the oldest access are removed.
"""

import fcntl
import os
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.resources.abc import Traversable
from pathlib import Path

from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.digests import sha256
from ceras_ir.support.private_files import private_bytes, private_folder, replacing


def files_with_suffix(folder: Traversable, suffix: str) -> dict[str, Traversable]:
    """
    Return the files in `folder` with the suffix `suffix`. The keys are the names without the
    suffix, in alphabetical order: `{"a": FILE}` for `a.toml`.
    """
    found = [f for f in folder.iterdir() if f.name.endswith(suffix)]
    return {f.name.removesuffix(suffix): f for f in sorted(found, key=lambda f: f.name)}


@contextmanager
def locked(path: Path) -> Generator[None]:
    """
    Hold an exclusive lock for the duration of the block, and wait for it if another process holds
    it. The lock is a file at `path`, which is created and removed. Raise an `OSError` if it cannot
    be created. The system frees the lock when the process terminates.
    """
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        # The previous holder removed the file, and another process may have created a new file.
        with suppress(FileNotFoundError):
            if os.fstat(handle).st_ino == path.stat().st_ino:
                break
        os.close(handle)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(handle)


DEEP_KEY = re.compile(r"""(?<![\w"'-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){100}""")
"""A key of more than 100 parts."""

ZERO = re.compile(r"\\(?:u0000|U00000000)")
"""The escape of a zero byte, which no name of a file can contain."""


def parse_toml(text: str, file: str):  # As untyped as TOML is.
    """
    Return the tables in the TOML document `text`. Raise an `InputError` that names `file` if it is
    not TOML.
    """
    # Most commands read no TOML and do not load the parser.
    import tomllib

    if ZERO.search(text):
        raise InputError("unsupported TOML: a text with a zero byte", file)
    try:
        # The parser takes quadratic time for such a key.
        if DEEP_KEY.search(text):
            raise RecursionError
        return tomllib.loads(text)
    # An integer of thousands of digits is a plain ValueError.
    except ValueError as error:
        raise InputError(f"not TOML: {error}", file) from None
    except RecursionError:
        raise InputError("unsupported TOML: nested too deeply", file) from None


DEFAULT_LIMIT_BYTES = 4 << 30

KEPT_SHARE = 0.8
"""The share of the limit that remains after entries were removed, so that removals are rare."""

ENTRY_MAGIC = b"ceras-entry-1\n"


class CacheError(InputError):
    """
    An error: the cache cannot be written. Errors of the computation of an entry have other classes.
    """


def key_of(*parts: str | bytes) -> str:
    """
    Return a digest of `parts` for use as the key of a cache entry: ("ab", "c") and ("a", "bc")
    differ.
    """
    encoded = [part.encode() if isinstance(part, str) else part for part in parts]
    return sha256(*(b"%d:%b" % (len(data), data) for data in encoded)).hex()


class ContentCache:
    """
    A cache on disk: a folder with an entry of bytes for each key, of at most `limit` bytes in
    total; the entries with the oldest access are removed. Keys are digests of the inputs from which
    the content was computed.
    """

    def __init__(self, folder: Path, limit: int = DEFAULT_LIMIT_BYTES):
        if limit < 1:
            raise InputError(f"a cache needs a limit of at least 1 byte, got {limit}", str(folder))
        self.folder, self.limit = folder, limit
        self._written = limit  # The first write checks the size of the folder.

    def get(self, key: str) -> bytes | None:
        """Return the bytes under `key`, or `None`; a damaged entry is removed."""
        path = self._path(key)
        if not self.folder.exists():
            return None
        private_folder(self.folder)
        if (data := private_bytes(path)) is None:
            return None
        head = len(ENTRY_MAGIC) + 32
        content = data[head:]
        if data[:head] != ENTRY_MAGIC + sha256(content):
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(OSError):
            os.utime(path)
        return content

    def put(self, key: str, content: bytes) -> None:
        """
        Store `content` under `key`, and remove the entries with the oldest access if the cache
        exceeds the limit. Raise a `CacheError` if the entry cannot be written.
        """
        path = self._path(key)
        try:
            private_folder(self.folder)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with replacing(path) as stream:
                stream.write(ENTRY_MAGIC + sha256(content) + content)
        except OSError as error:
            raise self._cannot("write", error) from None
        self._written += len(content)
        # Check the size after small entries in total, or after a large entry.
        if self._written > (1 - KEPT_SHARE) * self.limit / 2:
            self._written = 0
            self._shrink(path)

    def computed(self, key: str, make: Callable[[], bytes]) -> bytes:
        """
        Return the bytes under `key`. If they are missing, call `make` and store the result; other
        processes that need the same key wait for it.
        """
        if (known := self.get(key)) is not None:
            return known
        with ExitStack() as stack:
            try:
                private_folder(self.folder)
                stack.enter_context(locked(self.folder / "locks" / key))
            except OSError as error:
                raise self._cannot("lock", error) from None
            if (known := self.get(key)) is not None:
                return known
            content = make()
            self.put(key, content)
            return content

    def discard(self, key: str) -> None:
        """Remove the entry under `key`, if it exists."""
        self._path(key).unlink(missing_ok=True)

    def size(self) -> int:
        """Return the size of all entries in bytes."""
        return sum(status.st_size for _, status in self._entries())

    def _cannot(self, action: str, error: OSError) -> CacheError:
        return CacheError(
            f"the cache cannot {action}: {error.strerror}; free some space, or name another folder "
            "or a smaller size for it",
            str(self.folder),
        )

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / key

    def _entries(self) -> Iterator[tuple[Path, os.stat_result]]:
        for path in self.folder.glob("[0-9a-f][0-9a-f]/*"):
            # Another process can remove it.
            with suppress(FileNotFoundError):
                yield path, path.stat()

    def _shrink(self, new: Path) -> None:
        entries = sorted(self._entries(), key=lambda item: item[1].st_mtime)
        total = sum(status.st_size for _, status in entries)
        if total <= self.limit:
            return
        for path, status in entries:
            if total <= KEPT_SHARE * self.limit:
                break
            if path != new:
                with suppress(OSError):
                    path.unlink()
                total -= status.st_size
