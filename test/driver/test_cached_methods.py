"""Check that the cache of methods of data classes changes only the time of commands."""

import marshal
import os
import subprocess
import sys
from dataclasses import FrozenInstanceError, dataclass, make_dataclass
from pathlib import Path

import pytest

from ceras_ir.command.cached_methods import CachedMethods

SCRIPT = """
import dataclasses
from ceras_ir.command.cached_methods import cache_methods
cache_methods()
methods = vars(dataclasses)["exec"].__self__
Pair = dataclasses.make_dataclass("Pair", ["a", ("b", int, 2)], frozen=True, order=True)
print(Pair(1), Pair(1) == Pair(1, 2), Pair(1) < Pair(3), hash(Pair(1)) == hash((1, 2)))
print(methods.is_changed)
"""
SAME = "Pair(a=1, b=2) True True True\n"


def run(folder: Path, **environment: str) -> str:
    known = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    variables = {**known, "PYTHONPYCACHEPREFIX": str(folder), **environment}
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=variables, capture_output=True, text=True, check=True
    )
    assert not found.stderr
    return found.stdout


def test_a_later_process_compiles_no_method(tmp_path: Path) -> None:
    assert run(tmp_path) == f"{SAME}True\n"
    assert len(list(tmp_path.rglob("*.methods*"))) == 1
    assert run(tmp_path) == f"{SAME}False\n"


def test_without_bytecode_no_file_is_written(tmp_path: Path) -> None:
    for _ in range(2):
        assert run(tmp_path, PYTHONDONTWRITEBYTECODE="1") == f"{SAME}True\n"
    assert not list(tmp_path.rglob("*.methods*"))


@pytest.mark.parametrize(
    "damage", [b"", b"\x00", b"{", marshal.dumps(["text"]), marshal.dumps({"text": 1})]
)
def test_a_damaged_file_is_replaced(tmp_path: Path, damage: bytes) -> None:
    run(tmp_path)
    (file,) = tmp_path.rglob("*.methods")
    complete = file.read_bytes()
    other_values = marshal.dumps(dict.fromkeys(marshal.loads(complete), damage))
    for content in (damage, complete[: len(complete) // 2], other_values):
        file.write_bytes(content)
        assert run(tmp_path) == f"{SAME}True\n"
        assert run(tmp_path) == f"{SAME}False\n"


def test_a_folder_that_is_not_writable_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    methods = CachedMethods(str(tmp_path / "file" / "cache"))
    names: dict[str, object] = {}
    methods.run("x = 1", names)
    methods.save()
    assert names["x"] == 1


def test_classes_of_cached_methods_are_separate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules[dataclass.__module__]
    methods = CachedMethods(str(tmp_path / "cache"))
    monkeypatch.setitem(vars(module), "exec", methods.run)
    first, second = (make_dataclass(name, ["a"], frozen=True) for name in ("First", "Second"))
    assert methods.is_changed
    assert first(1) != second(1)
    assert (repr(first(1)), repr(second(1))) == ("First(a=1)", "Second(a=1)")
    with pytest.raises(FrozenInstanceError):
        second(1).a = 2
