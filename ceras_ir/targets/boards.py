"""Boards that come with a target, boards in files, and what is said of one that is neither."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
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


def board_text(
    target: str,
    package: str,
    name: str,
    *,
    suffix: str = ".toml",
    known: Iterable[str] | None = None,
) -> str:
    """
    The text of a board: of a file that ends in `suffix`, or of one in `boards/` of a package, of
    those in `known` if it has others. Errors call them boards of `target`.
    """
    shipped = board_files(package, suffix)
    if not name.endswith(suffix) and name not in (names := sorted(known or shipped)):
        raise _unknown(target, name, names, suffix)
    try:
        return (shipped.get(name) or Path(name)).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the board: {error}", name) from error


def _unknown(target: str, name: str, names: list[str], kind: str) -> InputError:
    return InputError(
        f"target {target} has no board '{name}'{did_you_mean(name, names)} (boards: "
        f"{', '.join(names)}; or a {kind} file)"
    )
