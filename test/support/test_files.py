"""Test the cache on disk (kept, removed, recomputed and rejected entries), and user files."""

import fcntl
import multiprocessing
import os
import resource
import signal
from pathlib import Path

import pytest

from ceras_ir.support.files import CacheError, ContentCache, key_of, locked


def test_parts_of_a_key_have_ends():
    assert key_of("ab", "c") != key_of("a", "bc")
    assert key_of("ab", "c") == key_of("ab", b"c")


def test_keeps_bytes(tmp_path: Path):
    cache = ContentCache(tmp_path)
    assert cache.get(key_of("a")) is None
    cache.put(key_of("a"), b"content")
    assert ContentCache(tmp_path).get(key_of("a")) == b"content"


def test_an_entry_is_replaced_by_a_new_file(tmp_path: Path):
    """A process that reads the last entry gets all of it."""
    cache, key = ContentCache(tmp_path), key_of("a")
    cache.put(key, b"last")
    (path,) = [p for p in tmp_path.rglob(key) if "locks" not in p.parts]
    with path.open("rb") as last:
        cache.put(key, b"next")
        assert last.read().endswith(b"last")
    assert cache.get(key) == b"next"


def test_a_lock_on_a_removed_file_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The last holder removes the file, and a third process creates another."""
    path, lock, handles = tmp_path / "lock", fcntl.flock, list[int]()

    def removed(handle: int, operation: int) -> None:
        lock(handle, operation)
        handles.append(handle)
        if len(handles) == 1:
            path.unlink()
            path.touch()

    monkeypatch.setattr(fcntl, "flock", removed)
    with locked(path):
        assert len(handles) == 2
        assert os.fstat(handles[1]).st_ino == path.stat().st_ino


@pytest.mark.parametrize("damage", [b"", b"x" * 10, b"ceras-entry-1\n" + b"0" * 40])
def test_a_damaged_entry_is_computed_again(tmp_path: Path, damage: bytes):
    cache, key = ContentCache(tmp_path), key_of("a")
    cache.put(key, b"content")
    (path,) = [p for p in tmp_path.rglob(key) if "locks" not in p.parts]
    path.write_bytes(damage)
    assert cache.computed(key, lambda: b"again") == b"again"
    assert cache.get(key) == b"again"


def test_one_flipped_bit_is_noticed(tmp_path: Path):
    cache, key = ContentCache(tmp_path), key_of("a")
    cache.put(key, b"content")
    (path,) = [p for p in tmp_path.rglob(key) if "locks" not in p.parts]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert cache.get(key) is None


def test_what_was_not_read_for_longest_goes(tmp_path: Path):
    cache = ContentCache(tmp_path, 10_000)
    for i in range(20):
        cache.put(key_of(str(i)), bytes(1000))
        # The first entry is read repeatedly and must not be removed.
        os.utime(cache.folder / key_of(str(i))[:2] / key_of(str(i)), (1000 + i, 1000 + i))
        assert cache.get(key_of("0")) is not None
    assert cache.size() <= 12_000
    assert cache.get(key_of("19")) is not None
    assert cache.get(key_of("3")) is None


def _compute(folder: str, log: str) -> None:
    def make() -> bytes:
        with open(log, "a", encoding="utf-8") as stream:
            stream.write("made\n")
        return b"content"

    assert ContentCache(Path(folder)).computed(key_of("a"), make) == b"content"


def test_several_processes_compute_once(tmp_path: Path):
    context = multiprocessing.get_context("fork")
    log = tmp_path / "log"
    arguments = str(tmp_path / "cache"), str(log)
    processes = [context.Process(target=_compute, args=arguments) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert log.read_text() == "made\n"
    assert not list((tmp_path / "cache" / "locks").iterdir())


def _killed(folder: str) -> None:
    def make() -> bytes:
        os.kill(os.getpid(), signal.SIGKILL)
        return b""

    ContentCache(Path(folder)).computed(key_of("a"), make)


def test_a_lock_goes_with_its_process(tmp_path: Path):
    process = multiprocessing.get_context("fork").Process(target=_killed, args=(str(tmp_path),))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert ContentCache(tmp_path).computed(key_of("a"), lambda: b"content") == b"content"


def _write_beyond(folder: str) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    cache = ContentCache(Path(folder))
    cache.put(key_of("small"), bytes(100))
    with pytest.raises(CacheError, match="cannot write: File too large; free some space"):
        cache.put(key_of("large"), bytes(10_000))
    assert cache.get(key_of("small")) == bytes(100)
    assert not list(Path(folder).rglob("*.tmp"))


def test_what_cannot_be_written_is_an_error(tmp_path: Path):
    """A limit on the size of files simulates a full disk."""
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_write_beyond, args=(str(tmp_path),))
    process.start()
    process.join()
    assert process.exitcode == 0
