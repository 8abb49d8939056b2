"""
Find what extensions offer: installed entry points, by their group and name.

An extension is a part of the package that can be deleted, or another package. The core imports
none of them; it looks for a name and checks that what it finds has the type that it expects.
"""

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import TypeVar

PACKAGE = "ceras_ir"

HOOKS = "ceras_ir.hooks"
"""The group of classes that the core uses if they are installed."""

T = TypeVar("T")


def without_deleted(points: Iterable[EntryPoint]) -> list[EntryPoint]:
    """Leave out entry points of this package whose module was deleted with its extension."""
    return [point for point in points if not _is_deleted(point.module)]


def _is_deleted(module: str) -> bool:
    if module.partition(".")[0] != PACKAGE:
        return False
    try:
        return find_spec(module) is None
    except ModuleNotFoundError:
        return True


def find_hook(name: str, base: type[T]) -> Callable[..., T] | None:
    """Return the subclass of `base` that an extension offers as `name`, or None."""
    for point in without_deleted(entry_points(group=HOOKS, name=name)):
        found: object = point.load()
        if isinstance(found, type) and issubclass(found, base):
            return found
        raise _usage_error(f"{point.value} is no {base.__name__}")
    return None


def need_hook(name: str, base: type[T], user: str) -> Callable[..., T]:
    """Return the subclass of `base` that `user` needs; a `UsageError` names it if it is missing."""
    found = find_hook(name, base)
    if found is None:
        raise _usage_error(
            f"{user} is unsupported here: the extension that offers '{name}' is not installed "
            f"(entry point group {HOOKS})"
        )
    return found


def _usage_error(message: str) -> Exception:
    # Commands are listed and found without it, and it takes a while to import.
    from ceras_ir.support.diagnostics import UsageError

    return UsageError(message)
