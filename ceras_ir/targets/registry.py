"""
Find targets by name.

Installed targets are found through the entry point group `ceras_ir.targets`, and are imported only
if they are requested. Other targets are loaded from plugin files by `--load-target-plugin`.
"""

from __future__ import annotations

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
from ceras_ir.support.plugin_modules import qualified
from ceras_ir.targets.protocol import Target

GROUP = "ceras_ir.targets"

_LOADED_TARGETS: ContextVar[dict[str, type[Target]]] = ContextVar("loaded_targets")


@cache
def _installed() -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in without_deleted(entry_points(group=GROUP)):
        if found.setdefault(point.name, point).value != point.value:
            values = f"{found[point.name].value} and {point.value}"
            _warn(f"two installed targets are named '{point.name}', the first is used: {values}")
    return found


@cache
def _load(name: str) -> type[Target]:
    point = _installed()[name]
    try:
        found: object = point.load()
    # The module is foreign code and can raise any exception; the user needs the name.
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        raise UsageError(
            f"target '{name}' cannot be loaded from {point.value}: {message}"
        ) from None
    if not (isinstance(found, type) and issubclass(found, Target) and found.name == name):
        raise UsageError(f"{point.value} is not a target named '{name}'")
    return _interpreted(found)


def _interpreted(target: type[Target]) -> type[Target]:
    for dialect, meaning in target.interpreters.items():
        register(dialect, qualified(meaning, target))
    return target


def target_names() -> list[str]:
    """Return the names of all targets, sorted."""
    return sorted({*_installed(), *_LOADED_TARGETS.get({})})


def find_target(name: str) -> type[Target]:
    """Return the target called `name`; an unknown name is a `UsageError` with a suggestion."""
    if (loaded := _LOADED_TARGETS.get({}).get(name)) is not None:
        return loaded
    if name not in _installed():
        raise unknown_target(name, target_names())
    return _load(name)


def unknown_target(name: str, known: Sequence[str]) -> UsageError:
    """Return the error for a target name that is not in `known`."""
    return UsageError(
        f"unknown target '{name}'{did_you_mean(name, known)} (targets: {', '.join(known)})"
    )


def configured(name: str, board: str | None) -> Target:
    """Return the target called `name` with default options, for `board` if it is given."""
    target = find_target(name)()
    return target if board is None else with_board(target, board)


def board_owners(board: str) -> str:
    """
    Return the end of a message about `board`: the names of the targets that have this board, or "".
    """
    owners = [target.name for target in all_targets() if board in target.boards()]
    return f"; it is a board of {' and '.join(owners)}" if owners else ""


def refuse_foreign_board(target: type[Target], board: str) -> None:
    """
    Raise a `UsageError` if `target` does not have `board` but other targets do; the message names
    them.
    """
    known = target.boards()
    if known and board not in known and (owners := board_owners(board)):
        raise UsageError(
            f"target {target.name} has no board '{board}'{owners} (boards: {', '.join(known)})"
        )


def with_board(target: Target, board: str) -> Target:
    """Return `target` with the option `board`. Raise a `UsageError` for an unknown board."""
    refuse_foreign_board(type(target), board)
    target.check_board(board)
    return replace(target, board=board)


def all_targets() -> list[type[Target]]:
    """
    Return all targets, sorted by name. A target that cannot be imported is omitted with a warning.
    """
    found: list[type[Target]] = []
    for name in target_names():
        try:
            found.append(find_target(name))
        except UsageError as error:
            _warn(str(error))
    return found


@cache
def _warn(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)


@contextmanager
def with_targets(found: Sequence[type[Target]]) -> Generator[None]:
    """
    Make the targets `found`, classes of plugin files, known to `find_target` inside the block.
    """
    for cls in found:
        if cls.name in target_names():
            raise UsageError(f"a target named '{cls.name}' already exists")
    token = _LOADED_TARGETS.set(
        _LOADED_TARGETS.get({}) | {cls.name: _interpreted(cls) for cls in found}
    )
    try:
        yield
    finally:
        _LOADED_TARGETS.reset(token)
