"""
Find figures of a report by name in expressions and conditions. A figure is a number about a
compiled network, such as `flash_bytes` or `top_1`.

A user can write the name of a figure, or a unique prefix of it before an underscore: `flash` for
`flash_bytes`, but not `fla`.
"""

from collections.abc import Iterable, Iterator

from ceras_ir.support.diagnostics import UsageError, did_you_mean


class UnknownFigure(UsageError):
    """An error: a name is the name or prefix of no figure, or the prefix of several figures."""


def matching(name: str, known: Iterable[str]) -> list[str]:
    """
    Return `[name]` if it is a name in `known`, else all names in `known` that begin with `name` and
    an underscore.
    """
    names = list(known)
    return [name] if name in names else [each for each in names if each.startswith(f"{name}_")]


def resolved(name: str, known: Iterable[str]) -> str:
    """
    Return the name in `known` that is `name`, or that begins with `name` and an underscore:
    `flash_bytes` for `flash`. Raise `UnknownFigure` if there is no such name, with a suggestion, or
    if there are several.
    """
    names = list(known)
    found = matching(name, names)
    if len(found) == 1:
        return found[0]
    if found:
        raise UnknownFigure(f"'{name}' may be {' or '.join(sorted(found))}")
    hint = did_you_mean(name, names) or f" (there are {', '.join(sorted(names)) or 'none'})"
    raise UnknownFigure(f"no figure is called '{name}'{hint}")


def identifier(name: str) -> str:
    """
    Return `name` in lower case with underscores, as expressions spell it: `top_1` for `Top-1`.
    """
    return "_".join(_words(name)) or "figure"


def _words(name: str) -> Iterator[str]:
    text = "".join(c if c.isascii() and c.isalnum() else " " for c in name.lower())
    for i, word in enumerate(text.split()):
        yield f"n{word}" if i == 0 and word[0].isdigit() else word
