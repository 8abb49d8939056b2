"""
Parse the command line of each tool, with equal messages for wrong usage.

Flags are created from the options that dataclasses declare.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import Field
from functools import partial
from typing import TYPE_CHECKING, NoReturn, get_origin

from xdsl.utils.hints import isa

from ceras_ir.command.entry_point import shown_name
from ceras_ir.command.help_parser import (
    ArgumentContainer,
    HelpParser,
    add_help,
    document_later,
    usual,
    value_text,
)
from ceras_ir.support.diagnostics import UsageError, did_you_mean, remark
from ceras_ir.support.options import (
    OptionHelp,
    choices_of,
    flag_of,
    help_of,
    options_of,
    types_of,
    without_none,
)

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


REQUIRED = "the following arguments are required"
"""The start of the message of `argparse` about missing arguments."""

MISSING = re.compile(r"expected [\w ]+ arguments?")
"""The end of the message of `argparse` about a missing value."""

EXTRA = ": ignored explicit argument "
"""The text of `argparse` before the value of a switch."""


class UsageParser(HelpParser):
    """An `argparse` parser that raises `UsageError`."""

    def error(self, message: str) -> NoReturn:
        """
        Raise a `UsageError`. If `message` is about an option without a value, add the choices or
        the placeholder of the value.
        """
        flag, extra, _ = message.partition(EXTRA)
        if extra:
            raise UsageError(f"{flag}: the option has no value: write only the option")
        hints = [
            f"{flag} is one of {', '.join(map(str, action.choices))}"
            if action.choices
            else f"{flag} {value_text(action)}"
            for action in self._actions
            for flag in action.option_strings
            if _lacks(flag, message)
        ]
        raise UsageError(f"{message} ({'; '.join(hints)})" if hints else message)

    def _get_value(self, action: argparse.Action, arg_string: str) -> object:
        """
        Convert the value of an option. The error names the expected type instead of a Python
        function.
        """
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            if isinstance(error.__context__, argparse.ArgumentTypeError):
                raise
            kind = "an integer" if action.type is int else "a number"
            message = f"expected {kind}, got '{arg_string}'"
            raise argparse.ArgumentError(action, message) from None

    def add_actions_of(self, other: UsageParser) -> None:
        """
        Add each argument of another parser, unless this parser has an argument with the same flag.
        """
        for action in other.listed_actions:
            if self.flags.isdisjoint(action.option_strings):
                self._add_action(action)

    @property
    def listed_actions(self) -> list[argparse.Action]:
        """All arguments, in order."""
        return self._actions

    @property
    def flags(self) -> frozenset[str]:
        """The set of all flags, such as `--target`."""
        return frozenset(self._option_string_actions)


def _lacks(flag: str, message: str) -> bool:
    """
    Return whether `message`, an error of `argparse`, reports that the value of `flag` is missing.
    """
    start, _, rest = message.partition(": ")
    if start == REQUIRED:
        return flag in rest.split(", ")
    return flag in start.removeprefix("argument ").split("/") and bool(MISSING.fullmatch(rest))


def add_output(
    group: ArgumentContainer,
    metavar: str,
    text: str,
    *,
    default: str | None = None,
    required: bool = False,
) -> None:
    """Add the option `-o`, the output of a command, with the help `text`."""
    usual(
        group.add_argument(
            "-o", dest="output", metavar=metavar, default=default, required=required, help=text
        )
    )


def add_time_limit(
    group: ArgumentContainer, read: Callable[[str], float], text: str, default: float | None = None
) -> None:
    """
    Add the option `--time-limit SECONDS`. `read` converts the text of the user, and `text` is the
    help.
    """
    group.add_argument("--time-limit", metavar="SECONDS", type=read, default=default, help=text)


def early_value(argv: Sequence[str], flag: str) -> str | None:
    """
    Return the value of the option `flag` in `argv`, or `None`. The other options are ignored,
    because the definition can depend on this value.
    """
    parser = UsageParser(add_help=False, allow_abbrev=False)
    parser.add_argument(flag, dest="value", nargs="?")
    return parser.parse_known_args(argv)[0].value


MAX_SHORT_FLAG = 2
"""The number of characters of a flag with a single dash."""

PATHS = ("DIR", "FILE")
"""The placeholders of files and folders, in addition to names with an ending."""


class _StoreOnce(argparse.Action):
    """
    Store the value of an option. If it is given twice with different values, print a warning, and
    use the last value.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        if option_string is not None and isinstance(parser, ToolParser):
            first = parser.given.setdefault(self.dest, values)
            if first != values:
                remark(
                    f"warning: {option_string} is given twice: '{values}' replaces '{first}'; "
                    "remove one"
                )
        setattr(namespace, self.dest, values)


class ToolParser(UsageParser):
    """
    The parser of a command: it has `--version`, accepts no abbreviated options, and raises
    `UsageError` for wrong usage.
    """

    def __init__(
        self,
        prog: str,
        *,
        description: str | None = None,
        epilog: str | None = None,
        examples: Sequence[str] = (),
    ):
        super().__init__(
            shown_name(prog),
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            add_help=False,
        )
        self.tool = prog
        self.examples = examples
        self.explanations: list[Callable[[str], str | None]] = []
        """Functions that return the reason why an option is unknown, or None."""
        self.given: dict[str, object] = {}
        """The values of options on the command line, by destination."""
        for name in (None, "store"):
            self.register("action", name, _StoreOnce)
        self.set_defaults(tool=prog)
        add_help(self)
        add_version(self)

    def _get_value(self, action: argparse.Action, arg_string: str) -> object:
        """Convert the value of an option. An empty text for a file or folder is an error."""
        parts = value_text(action).replace("...", "").split("|")
        if not arg_string and any(part in PATHS or "." in part for part in parts):
            raise argparse.ArgumentError(action, "the text is empty: give a file or folder")
        return super()._get_value(action, arg_string)

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            near = did_you_mean(str(value), known)
            message = f"invalid choice: '{value}'{near} (choose from {', '.join(known)})"
            raise argparse.ArgumentError(action, message)

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        # argparse ignores output that cannot be written.
        (sys.stderr if file is None else file).write(message)

    def read(self, argv: Sequence[str]) -> argparse.Namespace:
        """
        Parse `argv`. Raise a `UsageError` for wrong usage.

        A misspelled option is reported before all other errors, with the most similar option,
        because other errors often follow from it.
        """
        if self._subparsers is None:
            self._refuse_unknown(argv)
        arguments, rest = self.parse_known_args(argv)
        self._refuse_unknown(rest)
        if rest:
            raise UsageError(f"unexpected argument '{rest[0]}': remove it")
        return arguments

    def _refuse_unknown(self, argv: Sequence[str]) -> None:
        for argument in argv:
            if argument == "--":
                return
            flag = argument.partition("=")[0]
            if f"-{flag}" in self._option_string_actions and len(flag) > MAX_SHORT_FLAG:
                raise UsageError(f"unknown option '{flag}'; did you mean '-{flag}'?")
            if flag.startswith("--") and flag not in self._option_string_actions:
                known = self._option_string_actions
                reasons = (reason for explain in self.explanations if (reason := explain(flag)))
                if (reason := next(reasons, None)) is not None:
                    raise UsageError(reason)
                raise UsageError(f"unknown option '{flag}'{did_you_mean(flag, known)}")


def add_version(group: ArgumentContainer) -> None:
    """Add `--version`."""
    group.add_argument("--version", action=_PrintVersions, nargs=0, help="print versions and exit")


class _PrintVersions(argparse.Action):
    """
    Print the versions and exit. They are searched only on request, because this needs milliseconds.
    """

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(versions(parser.prog))
        parser.exit()


def versions(tool: str) -> str:
    """Return the versions of `tool` and xDSL."""
    from importlib.metadata import version

    return f"{tool} {version('ceras-ir')} (xDSL {version('xdsl')})"


def add_options(
    group: ArgumentContainer,
    cls: type,
    only: Collection[str] | None = None,
    *,
    tool: str | None = None,
    sparse: bool = False,
) -> None:
    """
    Add a flag to `group` for each field of `cls` that is an option of the command `tool`, or for
    the fields `only`. With `sparse`, an option that the user omits is absent from the parsed
    arguments; otherwise it has the default.
    """
    types = types_of(cls)
    for each, described in options_of(cls, tool):
        if only is None or each.name in only:
            default = argparse.SUPPRESS if sparse else _default(each, described)
            action = _add(group, each, described, types[each.name], default)
            document_later(action, partial(help_of, cls, each))
            if described.usual:
                usual(action)


def _default(each: Field[object], described: OptionHelp) -> object:
    return list[object]() if described.action is not None else each.default


def _add(
    group: ArgumentContainer,
    each: Field[object],
    described: OptionHelp,
    hint: object,
    default: object,
) -> argparse.Action:
    flag, dest = flag_of(each), dest_of(each)
    if isinstance(each.default, bool):
        action = "store_false" if each.default else "store_true"
        return group.add_argument(
            flag, *described.aliases, dest=dest, action=action, default=default, help=""
        )
    return group.add_argument(
        flag,
        *described.aliases,
        dest=dest,
        type=_reader(hint, described),
        choices=choices_of(hint) or None,
        action=described.action or "store",
        metavar=described.metavar,
        default=default,
        help="",
    )


def dest_of(each: Field[object]) -> str:
    """
    Return the name of an option in the parsed arguments: `time_limit` for `--time-limit`, or the
    name of the field for a boolean option.
    """
    if isinstance(each.default, bool):
        return each.name
    return flag_of(each).removeprefix("--").replace("-", "_")


def values_of(
    cls: type, arguments: argparse.Namespace, tool: str | None = None
) -> dict[str, object]:
    """
    Return the values of the options of class `cls` in parsed `arguments`, by the name of the field.
    `tool` is the name of a command such as `ceras-run`; it limits the result to the options that
    this command accepts. By default all options are included.
    """
    found: dict[str, object] = {}
    for each, _ in options_of(cls, tool):
        if hasattr(arguments, dest := dest_of(each)):
            value: object = getattr(arguments, dest)
            found[each.name] = tuple(value) if isa(value, list[object]) else value
    return found


def words(text: str) -> tuple[str, ...]:
    """Split text at commas: `a,b` -> `("a", "b")`. Empty text has no parts."""
    return tuple(text.split(",")) if text else ()


def names(text: str) -> list[str]:
    """Split a list of names at commas. Raise an `ArgumentTypeError` if a name is empty."""
    found = text.split(",")
    if not all(found):
        raise argparse.ArgumentTypeError(f"expected names separated by commas, got {text!r}")
    return found


def file_list(text: str) -> str:
    """
    Return a list of files separated by commas unchanged. Raise an `ArgumentTypeError` if a name is
    empty.
    """
    names(text)
    return text


def _reader(hint: object, described: OptionHelp) -> Callable[[str], object]:
    if described.read is not None:
        return described.read
    kind = without_none(hint)
    if get_origin(kind) is tuple:
        return words if described.action is None else names
    if kind is not int and kind is not float:
        return str
    return kind if described.minimum is None else partial(number, kind, described.minimum)


def number(kind: type[int] | type[float], minimum: int, text: str) -> float:
    """
    Convert `text` to an integer or float (`kind`) that is not below `minimum`. A negative `minimum`
    excludes 0 too. Raise an `ArgumentTypeError` for other text.
    """
    try:
        value = kind(text)
    except ValueError:
        value = minimum - 1
    if not value >= minimum or (minimum < 0 and value == 0):
        noun = "an integer" if kind is int else "a number"
        raise argparse.ArgumentTypeError(f"expected {noun} of at least {minimum}, got {text!r}")
    return value
