"""Flags of the command line, made from the options that dataclasses declare."""

import argparse
from collections.abc import Callable, Collection
from dataclasses import Field
from functools import partial
from typing import get_origin

from xdsl.utils.hints import isa

from ceras_ir.command.tool_parser import ArgumentContainer, document_later
from ceras_ir.support.options import (
    OptionHelp,
    choices_of,
    flag_of,
    help_of,
    options_of,
    types_of,
    without_none,
)


def add_options(
    group: ArgumentContainer,
    cls: type,
    only: Collection[str] | None = None,
    *,
    tool: str | None = None,
    sparse: bool = False,
) -> None:
    """
    Add a flag to `group` for each option of `cls`, or for those of the fields in `only`, that
    `tool` takes. If `sparse`, an option that is not given has no value.
    """
    types = types_of(cls)
    for each, described in options_of(cls, tool):
        if only is None or each.name in only:
            default = argparse.SUPPRESS if sparse else _default(each, described)
            action = _add(group, each, described, types[each.name], default)
            document_later(action, partial(help_of, cls, each))


def _default(each: "Field[object]", described: OptionHelp) -> object:
    return list[object]() if described.action is not None else each.default


def _add(
    group: ArgumentContainer,
    each: "Field[object]",
    described: OptionHelp,
    hint: object,
    default: object,
) -> argparse.Action:
    flag, dest = flag_of(each), dest_of(each)
    if isinstance(each.default, bool):
        action = "store_false" if each.default else "store_true"
        return group.add_argument(flag, dest=dest, action=action, default=default, help="")
    return group.add_argument(
        flag,
        dest=dest,
        type=_reader(hint, described),
        choices=choices_of(hint) or None,
        action=described.action or "store",
        metavar=described.metavar,
        default=default,
        help="",
    )


def dest_of(each: "Field[object]") -> str:
    """The name of the value in the namespace: that of the flag."""
    if isinstance(each.default, bool):
        return each.name
    return flag_of(each).removeprefix("--").replace("-", "_")


def values_of(
    cls: type, arguments: argparse.Namespace, tool: str | None = None
) -> dict[str, object]:
    """The options of `cls` in `arguments`, by the names of the fields."""
    found: dict[str, object] = {}
    for each, _ in options_of(cls, tool):
        if hasattr(arguments, dest := dest_of(each)):
            value: object = getattr(arguments, dest)
            found[each.name] = tuple(value) if isa(value, list[object]) else value
    return found


def words(text: str) -> tuple[str, ...]:
    """The parts of a list with commas; none of empty text."""
    return tuple(text.split(",")) if text else ()


def names(text: str) -> list[str]:
    """The names in a list with commas, none of them empty."""
    found = text.split(",")
    if not all(found):
        raise argparse.ArgumentTypeError(f"expected names with commas between, got {text!r}")
    return found


def _reader(hint: object, described: OptionHelp) -> Callable[[str], object]:
    if described.read is not None:
        return described.read
    kind = without_none(hint)
    if get_origin(kind) is tuple:
        return words if described.action is None else names
    if kind is int and described.least is not None:
        return partial(whole, described.least)
    if kind is float and described.least is not None:
        return partial(number, described.least)
    return int if kind is int else float if kind is float else str


def whole(least: int, text: str) -> int:
    """The integer that `text` spells, of at least `least`."""
    number = int(text) if text.removeprefix("-").isdecimal() else least - 1
    if number < least or (least < 0 and number == 0):
        raise argparse.ArgumentTypeError(f"must be a number of at least {least}, got {text}")
    return number


def number(least: int, text: str) -> float:
    """The number that `text` spells, of at least `least`."""
    try:
        value = float(text)
    except ValueError:
        value = least - 1.0
    if not value >= least:
        raise argparse.ArgumentTypeError(f"expected a number of at least {least}, got {text!r}")
    return value
