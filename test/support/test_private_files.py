"""Check that temporary files follow no links, and that files of other users are not used."""

import os
from pathlib import Path

import pytest

from ceras_ir.command.output_files import write_file
from ceras_ir.support import native, private_files
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.files import ContentCache, key_of, locked
from ceras_ir.support.private_files import foreign, private_file, replacing

OTHER_USER = 54321

as_superuser = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    (tmp_path / "victim").write_text("mine")
    return tmp_path / "victim"


def test_a_temporary_file_follows_no_link(
    tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = tmp_path / "planted"
    planted.symlink_to(victim)

    def name(_: Path) -> Path:
        return planted

    monkeypatch.setattr(private_files, "temporary_name", name)
    with pytest.raises(OSError, match="File exists") as error, replacing(tmp_path / "result"):
        pass
    assert error.value.filename is None
    assert victim.read_text() == "mine" and not (tmp_path / "result").exists()


def test_names_of_temporary_files_are_not_predictable(tmp_path: Path) -> None:
    names = {private_files.temporary_name(tmp_path / "a").name for _ in range(100)}
    # Numbers of processes, or of files, would begin equally.
    assert len(names) == 100 and len({name[7:12] for name in names}) > 90


def test_permissions_are_kept(tmp_path: Path) -> None:
    write_file(str(tmp_path / "a"), b"1")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o666 & ~_umask()
    (tmp_path / "a").chmod(0o600)
    write_file(str(tmp_path / "a"), b"2")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["a"]


def _umask() -> int:
    os.umask(mask := os.umask(0))
    return mask


@as_superuser
def test_an_output_follows_no_link_of_another_user(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "out").symlink_to(victim)
    write_file(str(tmp_path / "out"), b"yours")
    assert victim.read_text() == "yours"
    os.lchown(tmp_path / "out", OTHER_USER, OTHER_USER)
    with pytest.raises(
        InputError, match=f"is a link that belongs to another user .uid {OTHER_USER}"
    ):
        write_file(str(tmp_path / "out"), b"changed")
    assert victim.read_text() == "yours"


def test_a_lock_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "new")
    with pytest.raises(OSError, match="symbolic links"), locked(tmp_path / "lock"):
        pass
    assert not (tmp_path / "new").exists()


@pytest.fixture
def cache(tmp_path: Path) -> ContentCache:
    cache = ContentCache(tmp_path / "cache")
    cache.put(key_of("a"), b"content")
    return cache


def entry(cache: ContentCache) -> Path:
    return cache.folder / key_of("a")[:2] / key_of("a")


def refuse(cache: ContentCache, reason: str) -> None:
    key = key_of("a")
    for use in (lambda: cache.get(key), lambda: cache.computed(key, bytes)):
        with pytest.raises(InputError, match=rf"a cache that .*{reason}.* is not used, because"):
            use()


def test_a_new_cache_is_private(cache: ContentCache) -> None:
    assert cache.folder.stat().st_mode & 0o077 == 0
    assert cache.get(key_of("a")) == b"content"


def test_a_cache_that_all_users_can_write(cache: ContentCache) -> None:
    cache.folder.chmod(0o777)
    refuse(cache, r"all users can write .mode 0777.")
    with pytest.raises(InputError, match="all users can write"):
        cache.put(key_of("b"), b"")


def test_an_entry_that_all_users_can_write(cache: ContentCache) -> None:
    entry(cache).chmod(0o666)
    refuse(cache, r"all users can write .mode 0666.")


def test_an_entry_that_is_a_link(cache: ContentCache, tmp_path: Path) -> None:
    entry(cache).rename(tmp_path / "elsewhere")
    entry(cache).symlink_to(tmp_path / "elsewhere")
    refuse(cache, "is a link")


@as_superuser
def test_a_cache_of_another_user(cache: ContentCache) -> None:
    os.chown(entry(cache), OTHER_USER, OTHER_USER)
    refuse(cache, f"belongs to another user .uid {OTHER_USER}")
    os.chown(entry(cache), 0, 0)
    os.chown(cache.folder, OTHER_USER, OTHER_USER)
    refuse(cache, f"belongs to another user .uid {OTHER_USER}")


def test_a_group_can_be_private(cache: ContentCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some systems give each user a group, and permit the group to write new folders."""
    cache.folder.chmod(0o770)
    for is_private in (True, False):

        def answer(_: int, known: bool = is_private) -> bool:
            return known

        monkeypatch.setattr(private_files, "_is_private", answer)
        assert (foreign(cache.folder.stat()) is None) == is_private
    refuse(cache, "the group .* can write")


def test_programs_in_a_folder_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = native.cache_folder()
    (folder / "program").touch(0o755)
    assert private_file(folder / "program") and not private_file(folder / "none")
    (folder / "program").chmod(0o777)
    with pytest.raises(InputError, match="all users can write"):
        private_file(folder / "program")
    folder.chmod(0o777)
    with pytest.raises(InputError, match="all users can write"):
        native.cache_folder()
