"""
Read the description of a board from a TOML file into a dataclass that declares the fields.

A field has a type, a docstring and, by `board_field`, limits and an example. The reader checks a
file against these declarations, and `docs/boards.md` is generated from them. Boards are part of the
package of a target, or are files of the user. A target checks rules about several fields itself.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args, get_origin

from xdsl.utils.hints import isa

from ceras_ir.support.diagnostics import (
    MAX_NAME_LENGTH,
    InputError,
    UnsupportedError,
    UsageError,
    did_you_mean,
    printable,
    with_remedy,
)
from ceras_ir.support.files import files_with_suffix
from ceras_ir.support.options import types_of, without_none
from ceras_ir.support.user_files import read_text

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

T = TypeVar("T")
TomlTable: TypeAlias = dict[str, object]

TOML = ".toml"
"""The suffix of board files."""

MAX_INTEGER, MAX_NUMBER = 1 << 48, 1e12
"""The limits of fields that declare no other limits."""

_KEY = "board_field"


@dataclass(frozen=True)
class FieldRule:
    """
    The limits of a field of board files, and texts about the field for messages and for the page.
    """

    minimum: int = 0
    maximum: int = MAX_INTEGER
    is_positive: bool = False
    """Whether 0 is refused, for a field of the type float."""
    multiple: int = 1
    """An integer must be a multiple of this."""
    is_power_of_two: bool = False
    accepts_text: bool = False
    """Whether an integer may be text such as "0x1000", because JSON has no hexadecimal integers."""
    unsupported: str = ""
    """
    The reason for the limits if other values describe hardware that the target does not support.
    The exit status of a violation is then 3.
    """
    kind: str = ""
    """The noun for the values of a field with choices, such as `core`."""
    choices: tuple[str, ...] = ()
    pattern: str = ""
    """The regular expression of a text."""
    example: str = ""
    """A value in the syntax of TOML, for the remedy if the field is missing."""


def board_field(  # As untyped as `dataclasses.field`.
    default: Any = MISSING,
    *,
    minimum: int = 0,
    maximum: int = MAX_INTEGER,
    is_positive: bool = False,
    multiple: int = 1,
    is_power_of_two: bool = False,
    accepts_text: bool = False,
    unsupported: str = "",
    kind: str = "",
    choices: Iterable[str] = (),
    pattern: str = "",
    example: str = "",
) -> Any:
    """
    Declare a dataclass field that board files can set; without a `default` they must set it.
    `FieldRule` explains the other parameters.
    """
    rule = FieldRule(
        minimum,
        maximum,
        is_positive,
        multiple,
        is_power_of_two,
        accepts_text,
        unsupported,
        kind,
        tuple(choices),
        pattern,
        example,
    )
    return dataclasses.field(default=default, metadata={_KEY: rule})


def rule_of(each: Field[object]) -> FieldRule:
    """
    Return the rule that `board_field` declares for the field `each`, or a rule without limits.
    """
    rule = each.metadata.get(_KEY)
    return rule if isinstance(rule, FieldRule) else FieldRule()


def is_required(each: Field[object]) -> bool:
    """Return whether each board file must set the field `each`."""
    return each.default is MISSING and each.default_factory is MISSING


@dataclass(frozen=True)
class BoardSummary:
    """The properties of a board that lists of boards print, as text."""

    title: str
    part: str = ""
    """The core or the chip, with the clock."""
    memory: str = ""


_BYTE_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def byte_text(size: int) -> str:
    """
    Return a number of bytes as text, in the largest unit of which it is a multiple of an eighth:
    `1.5 KiB` for 1536, but `1,537 bytes`.
    """
    fits = (each for each in _BYTE_UNITS if size >= each[0] and size * 8 % each[0] == 0)
    factor, unit = next(fits, (1, "bytes"))
    return f"{size / factor:,.10g} {unit}"


def board_files(package: str) -> dict[str, Traversable]:
    """
    Return the board files of a target, in the folder `boards` of `package`, by name without the
    suffix and in alphabetical order; {} without such a folder.
    """
    folder = files(package) / "boards"
    return files_with_suffix(folder, TOML) if folder.is_dir() else {}


def board_text(
    target: str,
    package: str,
    name: str,
    *,
    suffixes: tuple[str, ...] = (TOML,),
    known: Iterable[str] | None = None,
) -> str:
    """
    Return the content of a board file. `name` is a path with one of the `suffixes`, or the name of
    a board in `package`. `known` lists the accepted names if they differ from the files. Raise a
    `UsageError` for an unknown name, and an `InputError` for a file that cannot be read; errors
    name `target`.
    """
    shipped = board_files(package)
    if not name.endswith(suffixes) and name not in (names := sorted(known or shipped)):
        raise UsageError(
            f"target {target} has no board '{name}'{board_hint(name, names, suffixes)} (boards: "
            f"{', '.join(names)}; or a {' or '.join(suffixes)} file)"
        )
    try:
        packaged = shipped.get(name)
        return read_text(name) if packaged is None else packaged.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = _reason(error, name, known or shipped)
        raise InputError(f"cannot read the board: {reason}", name) from None


def board_hint(name: str, known: Iterable[str], suffixes: tuple[str, ...] = (TOML,)) -> str:
    """
    Return the end of a message about an unknown board: the endings of board files if `name` is a
    file name with another ending, else the most similar of the `known` names.
    """
    if Path(name).suffix:
        return f"; board files end in {' or '.join(suffixes)}"
    return did_you_mean(name, known)


def _reason(error: OSError | UnicodeDecodeError, name: str, shipped: Iterable[str]) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "the file is not UTF-8 text"
    known = f" (boards: {', '.join(shipped)})" if isinstance(error, FileNotFoundError) else ""
    return with_remedy(error, name) + known


def read_fields(cls: type[T], content: Mapping[str, object], file: str | None, at: str = "") -> T:
    """
    Return an instance of the dataclass `cls` from `content`, a table of a board file. Raise an
    `InputError` that names `file` if a field is unknown, missing or outside the limits.

    `at` is the path of the table in the file, such as `memory.sram`; it is empty for the entire
    file.
    """
    declared = {each.name: each for each in fields_of(cls)}
    reader, hints = _Reader(file), types_of(cls)
    reader.refuse_unknown(content, declared, at)
    for name, each in declared.items():
        if name not in content and is_required(each):
            owner = f"table [{at}] of the board" if at else "the board"
            remedy = _remedy(each, hints[name])
            raise InputError(f"{owner} has no field '{name}': {remedy}", file)
    values = {
        name: reader.value(without_none(hints[name]), rule_of(declared[name]), value, name, at)
        for name, value in content.items()
    }
    return cls(**values)


def fields_of(cls: type) -> tuple[Field[object], ...]:
    """Return the fields of the dataclass `cls` that a board file can set."""
    return tuple(each for each in fields(cls) if each.init)


def _remedy(each: Field[object], hint: object) -> str:
    rule = rule_of(each)
    if is_dataclass(hint):
        return f"add a table [{each.name}] with {', '.join(f.name for f in fields(hint))}"
    if choices := rule.choices or choices_of(hint):
        return f"add one of {', '.join(choices)}"
    example = rule.example or (str(rule.minimum) if rule.minimum == rule.maximum else "")
    value = wanted(hint, rule)
    return f"add {each.name} = {example}, {value}" if example else f"add it as {value}"


def entry_of(hint: object) -> type[object] | None:
    """
    Return the dataclass in the type `hint` of a field that is a table: `T` for `T`, `tuple[T, ...]`
    or `dict[str, T]`. Return `None` for other types.
    """
    kinds = (hint, *get_args(hint))
    return next((kind for kind in kinds if isinstance(kind, type) and is_dataclass(kind)), None)


def choices_of(hint: object) -> tuple[str, ...]:
    """Return the choices, as text, of a field of the type `Literal`; () for other types."""
    return tuple(map(str, get_args(hint))) if get_origin(hint) is Literal else ()


def wanted(hint: object, rule: FieldRule) -> str:
    """
    Return, in words for a message, the values that a field of the type `hint` accepts under `rule`.
    """
    hint = without_none(hint)
    if hint is int:
        text = f"an integer in [{rule.minimum}, {_bound(rule.maximum)}]"
        if rule.minimum == rule.maximum:
            text = str(rule.minimum)
        if rule.is_power_of_two:
            zero = "" if rule.minimum else "0 or "
            text = f"{zero}a power of two in [{max(rule.minimum, 1)}, {_bound(rule.maximum)}]"
        return text + (f", a multiple of {rule.multiple}" if rule.multiple > 1 else "")
    if hint is float:
        return f"a number {'>' if rule.is_positive else '>='} 0"
    if choices := rule.choices or choices_of(hint):
        return f"one of {', '.join(choices)}"
    if hint is str:
        return f"text such as {rule.example}" if rule.example else "text"
    if hint == tuple[str, ...]:
        return "a list of texts"
    return "a list of tables" if get_origin(hint) is tuple else "a table"


def _bound(limit: int) -> str:
    for value, rest in ((limit, ""), (limit + 1, " - 1")):
        if limit > 1 << 24 and value & (value - 1) == 0:
            return f"2^{value.bit_length() - 1}{rest}"
    return str(limit)


@dataclass(frozen=True)
class _Reader:
    """Converts and checks single values of a board file. Errors name `file`."""

    file: str | None

    def refuse_unknown(self, content: Iterable[str], known: Collection[str], at: str) -> None:
        for name in content:
            if name not in known:
                owner = f"table [{at}] of a board" if at else "a board"
                unknown = printable(name, MAX_NAME_LENGTH)
                raise InputError(
                    f"{owner} has no field '{unknown}'{did_you_mean(unknown, known)} "
                    f"(fields: {', '.join(known)})",
                    self.file,
                )

    def value(self, hint: object, rule: FieldRule, value: object, name: str, at: str) -> object:
        """
        Return `value` of the field `name` in the table `at`, converted to the type `hint`. Raise an
        `InputError` if it violates `rule`.
        """
        path = f"{at}.{name}" if at else name
        if hint is int:
            return self.integer(rule, value, name)
        if hint is float:
            return self.number(rule, value, name)
        if hint == tuple[str, ...]:
            if not isa(value, list[str]):
                raise self.wrong(hint, rule, value, name)
            return tuple(value)
        if (entry := entry_of(hint)) is None:
            return self.text(hint, rule, value, name)
        if get_origin(hint) is None:
            return read_fields(entry, self.table(value, path), self.file, path)
        if get_origin(hint) is tuple:
            if not isa(value, list[TomlTable]):
                raise self.wrong(hint, rule, value, path)
            return tuple(read_fields(entry, inner, self.file, path) for inner in value)
        table = self.table(value, path)
        self.refuse_unknown(table, rule.choices, path)
        return {
            key: read_fields(entry, self.table(inner, where), self.file, where)
            for key, inner in table.items()
            for where in [f"{path}.{key}"]
        }

    def table(self, value: object, path: str) -> TomlTable:
        if not isa(value, TomlTable):
            raise InputError(f"expected a table [{path}], got {shown(value)}", self.file)
        return value

    def wrong(self, hint: object, rule: FieldRule, value: object, name: str) -> InputError:
        return InputError(f"{name} must be {wanted(hint, rule)}, got {shown(value)}", self.file)

    def integer(self, rule: FieldRule, value: object, name: str) -> int:
        given = value
        if rule.accepts_text and isinstance(value, str) and len(value) < MAX_NAME_LENGTH:
            try:
                value = int(value, 0)
            except ValueError:
                raise self.wrong(int, rule, given, name) from None
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong(int, rule, given, name)
        in_range = rule.minimum <= value <= rule.maximum and value % rule.multiple == 0
        if in_range and not (rule.is_power_of_two and value & (value - 1)):
            return value
        if rule.unsupported:
            end = wanted(int, rule)
            raise UnsupportedError(
                f"unsupported {name} {shown(value)}: {rule.unsupported} ({name} is {end})",
                self.file,
            )
        raise self.wrong(int, rule, given, name)

    def number(self, rule: FieldRule, value: object, name: str) -> float:
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else -1
        if 0 < number < MAX_NUMBER or (number == 0 and not rule.is_positive):
            return float(number)
        end = f" and < {MAX_NUMBER:g}" if number >= MAX_NUMBER else ""
        raise InputError(
            f"{name} must be {wanted(float, rule)}{end}, got {shown(value)}", self.file
        )

    def text(self, hint: object, rule: FieldRule, value: object, name: str) -> str:
        choices = rule.choices or choices_of(hint)
        if not isinstance(value, str) or not value.isprintable():
            raise self.wrong(hint, rule, value, name)
        if choices and value not in choices:
            if not rule.kind:
                raise self.wrong(hint, rule, value, name)
            raise InputError(
                f"{rule.kind} '{printable(value, MAX_NAME_LENGTH)}' is not known"
                f"{did_you_mean(value, choices)} ({rule.kind}s: {', '.join(choices)})",
                self.file,
            )
        if rule.pattern and not re.fullmatch(rule.pattern, value):
            raise InputError(f"{name} must be like {rule.example}, got {shown(value)}", self.file)
        return value


def shown(value: object) -> str:
    """Return a value of a file as short text for a message."""
    try:
        return printable(repr(value), MAX_NAME_LENGTH)
    except (ValueError, RecursionError):  # Python prints no integers of thousands of digits.
        return "a value of thousands of digits"
