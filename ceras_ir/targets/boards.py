"""Boards that come with a target, and what is said of one that does not."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from typing import TYPE_CHECKING

from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.suggestions import did_you_mean

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


def board_files(package: str, suffix: str = ".toml") -> dict[str, Traversable]:
    """The files in `boards/` of a package, by name in that order; none without such a folder."""
    folder = files(package) / "boards"
    found = [f for f in folder.iterdir() if f.name.endswith(suffix)] if folder.is_dir() else []
    return {f.name.removesuffix(suffix): f for f in sorted(found, key=lambda f: f.name)}


def unknown_board(target: str, name: str, known: Iterable[str], kind: str = ".toml") -> InputError:
    """The error for a board that is none of `known`; a file of a `kind` would do as well."""
    names = sorted(known)
    return InputError(
        f"target {target} has no board '{name}'{did_you_mean(name, names)} (boards: "
        f"{', '.join(names)}; or a {kind} file)"
    )
