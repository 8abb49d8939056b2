"""
Find the contributions of extensions: installed entry points, by group and name.

An extension is a part of the package that can be deleted, or another package. The core imports no
extension; it looks up a name and checks the type of the result.
"""

import re
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points, requires
from importlib.util import find_spec
from typing import TypeVar

ROOT_PACKAGE = "ceras_ir"

HOOKS = "ceras_ir.hooks"
"""The group of classes that the core uses if they are installed."""

T = TypeVar("T")


def without_deleted(points: Iterable[EntryPoint]) -> list[EntryPoint]:
    """
    Return the entry points with a module that exists. An editable installation of this package can
    still list entry points of modules that were deleted since.
    """
    return [point for point in points if not _is_deleted(point.module)]


def _is_deleted(module: str) -> bool:
    if module.partition(".")[0] != ROOT_PACKAGE:
        return False
    try:
        return find_spec(module) is None
    except ModuleNotFoundError:
        return True


def find_hook(name: str, base: type[T]) -> Callable[..., T] | None:
    """
    Return the class that an installed extension registers under `name`, or `None` without the
    extension. Raise a `UsageError` if the class is not a subclass of `base`, the interface that the
    core uses.
    """
    for point in without_deleted(entry_points(group=HOOKS, name=name)):
        found: object = point.load()
        if isinstance(found, type) and issubclass(found, base):
            return found
        raise _usage_error(f"{point.value} is no {base.__name__}")
    return None


def need_hook(name: str, base: type[T], user: str) -> Callable[..., T]:
    """
    Return the subclass of `base` that an extension registers under `name`. Raise a `UsageError` if
    no extension is installed; the message states that `user`, such as a command, is unsupported.
    """
    found = find_hook(name, base)
    if found is None:
        raise _usage_error(
            f"{user} is unsupported here: {_extension(name)} is not installed; run 'pip install .' "
            "in the folder of the complete package"
        )
    return found


def _extension(name: str) -> str:
    """
    Return words for an error message: the name of the extension that registers the hook `name`, if
    it is known although it cannot be imported.
    """
    offered = f"offers '{name}' (entry point group {HOOKS})"
    for point in entry_points(group=HOOKS, name=name):
        folder = point.module.removeprefix(f"{ROOT_PACKAGE}.").partition(".")[0]
        return f"the extension {folder}, which {offered},"
    return f"the extension that {offered}"


def _usage_error(message: str) -> Exception:
    # Commands are listed and found without this module, which imports slowly.
    from ceras_ir.support.diagnostics import UsageError

    return UsageError(message)


DISTRIBUTION = "ceras-ir"
"""The name of this package for pip."""


def required_packages() -> list[str]:
    """
    Return the names of the Python packages that the core requires, without optional extras, in
    alphabetical order.
    """
    needed = [text for text in requires(DISTRIBUTION) or () if "extra ==" not in text]
    return sorted(match[0] for text in needed if (match := re.match(r"[\w.-]+", text)))
