"""Check that broken installed targets do not affect the other targets."""

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from typing import TypeAlias

import pytest

from ceras_ir.support.diagnostics import UsageError
from ceras_ir.targets import registry

Install: TypeAlias = Callable[..., None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    def add(*found: tuple[str, str]) -> None:
        points = [EntryPoint(name, value, registry.GROUP) for name, value in found]

        def entry_points(group: str) -> list[EntryPoint]:
            return points

        monkeypatch.setattr(registry, "entry_points", entry_points)
        for cached in CACHES:
            cached.cache_clear()

    yield add
    monkeypatch.undo()
    for cached in CACHES:
        cached.cache_clear()


CACHES = (
    registry._installed,  # pyright: ignore[reportPrivateUsage]
    registry._load,  # pyright: ignore[reportPrivateUsage]
    registry._warn,  # pyright: ignore[reportPrivateUsage]
)
C = ("c", "ceras_ir.backends.c.target:CTarget")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no_such_module:Target", "ModuleNotFoundError"),
        ("math:Target", "AttributeError"),
        ("math:pi", "math:pi is not a target named 'mine'"),
        (C[1], "is not a target named 'mine'"),
    ],
)
def test_a_target_that_cannot_be_loaded_is_left_out(
    install: Install, capsys: pytest.CaptureFixture[str], value: str, message: str
):
    install(C, ("mine", value))
    assert [target.name for target in registry.all_targets()] == ["c"]
    assert [target.name for target in registry.all_targets()] == ["c"]
    error = capsys.readouterr().err
    assert error.startswith("warning: ") and message in error and error.count("warning") == 1
    with pytest.raises(UsageError, match="mine"):
        registry.find_target("mine")


def test_of_two_targets_of_one_name_the_first_counts(
    install: Install, capsys: pytest.CaptureFixture[str]
):
    install(C, ("c", "other:CTarget"))
    assert registry.find_target("c").name == "c"
    assert "two installed targets are named 'c'" in capsys.readouterr().err


def test_the_same_target_found_twice_is_one(install: Install):
    install(C, C)
    assert registry.target_names() == ["c"]
