"""
Find targets by name: installed ones by their entry points, others from files that were loaded.

Nothing is imported before it is asked for.
"""

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from ceras_ir.interpreters.registry import register
from ceras_ir.support.diagnostics import UsageError, did_you_mean
from ceras_ir.support.extensions import without_deleted
from ceras_ir.targets.protocol import Target

GROUP = "ceras_ir.targets"

_LOADED: ContextVar[dict[str, type[Target]]] = ContextVar("loaded_targets")


@cache
def _installed() -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in without_deleted(entry_points(group=GROUP)):
        if found.setdefault(point.name, point).value != point.value:
            values = f"{found[point.name].value} and {point.value}"
            _warn(f"two installed targets are named '{point.name}', the first counts: {values}")
    return found


@cache
def _load(name: str) -> type[Target]:
    point = _installed()[name]
    try:
        found: object = point.load()
    # Whatever somebody else's module raises: its name is what the user needs.
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        raise UsageError(
            f"target '{name}' cannot be loaded from {point.value}: {message}"
        ) from None
    if not (isinstance(found, type) and issubclass(found, Target) and found.name == name):
        raise UsageError(f"{point.value} is no target named '{name}'")
    return _interpreted(found)


def _interpreted(target: type[Target]) -> type[Target]:
    """The target, with the meaning of its dialects made known."""
    for dialect, meaning in target.interpreters.items():
        register(dialect, meaning)
    return target


def target_names() -> list[str]:
    """The names of all targets, sorted."""
    return sorted({*_installed(), *_LOADED.get({})})


def find_target(name: str) -> type[Target]:
    """The target called `name`; an unknown one is a `UsageError` with the nearest."""
    if (loaded := _LOADED.get({}).get(name)) is not None:
        return loaded
    if name not in _installed():
        raise unknown_target(name, target_names())
    return _load(name)


def unknown_target(name: str, known: Sequence[str]) -> UsageError:
    """The refusal of a target that is not among the `known` ones."""
    return UsageError(
        f"unknown target '{name}'{did_you_mean(name, known)} (targets: {', '.join(known)})"
    )


def configured(name: str, board: str | None) -> Target:
    """The target called `name` with default options, but for the `board` if there is one."""
    target = find_target(name)()
    return target if board is None else with_board(target, board)


def with_board(target: Target, board: str) -> Target:
    """`target` for another board; an `InputError` unless it knows it."""
    target.check_board(board)
    return replace(target, board=board)


def all_targets() -> list[type[Target]]:
    """Every target, in the order of names; one that cannot be loaded is left out with a warning."""
    found: list[type[Target]] = []
    for name in target_names():
        try:
            found.append(find_target(name))
        except UsageError as error:
            _warn(str(error))
    return found


@cache
def _warn(message: str) -> None:
    """Say it on stderr, once."""
    print(f"warning: {message}", file=sys.stderr)


@contextmanager
def with_targets(found: Sequence[type[Target]]) -> Generator[None]:
    """Have `find_target` know `found`, from plugin files, as well."""
    for cls in found:
        if cls.name in target_names():
            raise UsageError(f"there already is a target named '{cls.name}'")
    token = _LOADED.set(_LOADED.get({}) | {cls.name: _interpreted(cls) for cls in found})
    try:
        yield
    finally:
        _LOADED.reset(token)
