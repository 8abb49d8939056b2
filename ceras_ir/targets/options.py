"""
Options of a target: the fields of its dataclass, each with its help.

The command line is made from the fields: `--NAME` takes what the type says, a bool that is true
by default is `--no-NAME`, and a `Literal` lists its choices. Every option has a default.
"""

from collections.abc import Iterator
from dataclasses import Field, dataclass, field, fields
from typing import TypeVar

T = TypeVar("T")

_KEY = "option"


@dataclass(frozen=True)
class OptionHelp:
    """What the command line says of an option."""

    text: str
    metavar: str | None = None
    tools: tuple[str, ...] = ()
    """The commands that take it; all that compile where none is named."""
    flag: str | None = None
    """What it is called there, where the name of the field is taken."""


def option(
    default: T,
    text: str,
    *,
    metavar: str | None = None,
    tools: tuple[str, ...] = (),
    flag: str | None = None,
) -> T:
    """A dataclass field with `default` that is an option of the command line."""
    return field(default=default, metadata={_KEY: OptionHelp(text, metavar, tools, flag)})


def flag_of(each: "Field[object]") -> str:
    """`--name`, or `--no-name` for a bool that is true by default."""
    described = each.metadata.get(_KEY)
    if isinstance(described, OptionHelp) and described.flag is not None:
        return described.flag
    name = each.name.replace("_", "-")
    return f"--no-{name}" if each.default is True else f"--{name}"


def options_of(cls: type, tool: str) -> "Iterator[tuple[Field[object], OptionHelp]]":
    """The fields of the target class `cls` that `tool` takes as options, in order."""
    for each in fields(cls):
        described = each.metadata.get(_KEY)
        if isinstance(described, OptionHelp) and tool in (described.tools or (tool,)):
            yield each, described
