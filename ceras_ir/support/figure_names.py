"""
Name figures in expressions and conditions: `flash_bytes`, `top_1`.

A user can write the name of a figure, or a unique prefix of it before an underscore: `flash` for
`flash_bytes`.
"""

from collections.abc import Iterable, Iterator

from ceras_ir.support.diagnostics import UsageError, did_you_mean


class UnknownFigure(UsageError):
    """An error of a name that is not the name of a figure."""


def matching(name: str, known: Iterable[str]) -> list[str]:
    """Return the figure called `name`, or the figures with this prefix."""
    names = list(known)
    return [name] if name in names else [each for each in names if each.startswith(f"{name}_")]


def resolved(name: str, known: Iterable[str]) -> str:
    """Return the figure with the name or the prefix `name`; an `UnknownFigure` has a suggestion."""
    names = list(known)
    found = matching(name, names)
    if len(found) == 1:
        return found[0]
    if found:
        raise UnknownFigure(f"'{name}' may be {' or '.join(sorted(found))}")
    hint = did_you_mean(name, names) or f" (there are {', '.join(sorted(names)) or 'none'})"
    raise UnknownFigure(f"no figure is called '{name}'{hint}")


def identifier(name: str) -> str:
    """Return the name of a figure such as `top-1` in expressions."""
    return "_".join(_words(name)) or "figure"


def _words(name: str) -> Iterator[str]:
    text = "".join(c if c.isascii() and c.isalnum() else " " for c in name.lower())
    for i, word in enumerate(text.split()):
        yield f"n{word}" if i == 0 and word[0].isdigit() else word
