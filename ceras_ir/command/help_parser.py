"""
Format the help of commands: the usual options by `--help`, all options by `--help-all`.

An option declares whether it is usual: `option(..., usual=True)` in a dataclass, or `usual(action)`
for an argument of a parser. Required options are usual. A command with few options has no short
help.
"""

import argparse
from collections.abc import Callable, Collection, Sequence
from typing import NoReturn, TypeAlias
from weakref import WeakKeyDictionary, WeakSet

ArgumentContainer: TypeAlias = "argparse._ActionsContainer"  # pyright: ignore[reportPrivateUsage]
"""A parser, or a group of options."""

MAX_LISTED_OPTIONS = 15
"""The largest number of options that `--help` lists completely."""

_UNREAD: WeakKeyDictionary[argparse.Action, Callable[[], str]] = WeakKeyDictionary()
_USUAL: WeakSet[argparse.Action] = WeakSet()


def document_later(action: argparse.Action, read: Callable[[], str]) -> None:
    """
    Compute the help of the option `action` by `read` only when help is printed, because `read`
    parses source files.
    """
    _UNREAD[action] = read


def usual(action: argparse.Action) -> argparse.Action:
    """Declare that the short help (`--help`) lists the option `action`, and return `action`."""
    _USUAL.add(action)
    return action


class HelpParser(argparse.ArgumentParser):
    """
    An `argparse` parser with example command lines. If there are more than `MAX_LISTED_OPTIONS`
    options, `--help` prints only the usual options.
    """

    examples: Sequence[str] = ()
    """Command lines without the name of the command, printed at the end of the help."""
    further_options: Callable[[], tuple[str, str, Sequence[argparse.Action]]] | None = None
    """
    A function that returns a group of options for the help: title, description and members. The
    parser accepts them only together with another option, such as `--target`.
    """

    def document(self) -> None:
        """Compute the help of all options that `document_later` has delayed."""
        _document(self._actions)

    def format_help(self) -> str:
        """Format the help with all options."""
        return self._format(self._actions)

    def format_usual_help(self) -> str:
        """Format the help with the usual options, and with the number of the other options."""
        visible = [action for action in self._actions if action.help != argparse.SUPPRESS]
        optional = [action for action in visible if action.option_strings]
        if len(optional) <= MAX_LISTED_OPTIONS:
            return self.format_help()
        shown = [a for a in visible if not a.option_strings or a.required or a in _USUAL]
        others = len(visible) - len(shown)
        return f"{self._format(shown)}\n{others} more options: {self.prog} --help-all\n"

    def _format(self, shown: Collection[argparse.Action]) -> str:
        _document(shown)
        if self.usage is None:
            self.usage = self._short_usage().replace("%", "%%")
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for group in self._action_groups:
            members = group._group_actions  # pyright: ignore[reportPrivateUsage]
            listed = [action for action in members if action in shown]
            # A group without members prints nothing here, and a link on the page of commands.
            if listed or not members:
                formatter.start_section(group.title)
                formatter.add_text(group.description)
                formatter.add_arguments(listed)
                formatter.end_section()
        if self.further_options is not None:
            title, description, further = self.further_options()
            _document(further)
            formatter.start_section(title)
            formatter.add_text(description)
            formatter.add_arguments(further)
            formatter.end_section()
        formatter.add_text(self.epilog)
        examples = "".join(f"  {self.prog} {example}\n" for example in self.examples)
        return formatter.format_help() + (f"\nexamples:\n{examples}" if examples else "")

    def _short_usage(self) -> str:
        positional = (a for a in self._actions if not a.option_strings)
        required = (a for a in self._actions if a.required and a.option_strings)
        parts = [
            *map(_positional, positional),
            *(f"{max(a.option_strings, key=len)} {value_text(a)}" for a in required),
        ]
        return " ".join([self.prog, *parts, "[options]"])


def _document(actions: Collection[argparse.Action]) -> None:
    for action in actions:
        if (read := _UNREAD.pop(action, None)) is not None:
            action.help = read().replace("%", "%%")


def value_text(action: argparse.Action) -> str:
    """
    Return the placeholder for the value of an argument in the help, such as `N`; "" for a switch.
    """
    if isinstance(action.metavar, str):
        return action.metavar
    if action.metavar is not None:
        return " ".join(action.metavar)
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return "" if action.nargs == 0 else action.dest.upper()


def _positional(action: argparse.Action) -> str:
    text = value_text(action)
    if action.nargs in ("*", "..."):
        return f"[{text} ...]"
    if action.nargs == "+":
        return f"{text} [{text} ...]"
    return f"[{text}]" if action.nargs == "?" else text


def add_help(group: ArgumentContainer) -> None:
    """Add `--help` and `--help-all`."""
    add = group.add_argument
    usual(add("-h", "--help", action=_PrintUsual, nargs=0, help="print the usual options and exit"))
    usual(add("--help-all", action=_PrintAll, nargs=0, help="print all options and exit"))


class _PrintUsual(argparse.Action):
    """An action that prints the short help."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        assert isinstance(parser, HelpParser)
        print(parser.format_usual_help(), end="")
        parser.exit()


class _PrintAll(argparse.Action):
    """An action that prints the complete help."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(parser.format_help(), end="")
        parser.exit()
