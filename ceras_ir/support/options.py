"""
Declare the options of passes, targets and commands, each a single time as a dataclass field.

The command line, the Python API and the documentation are generated from the fields. `--NAME`
accepts the type of the field. A bool that is true by default becomes `--no-NAME`, and a `Literal`
lists the choices. The first paragraph of the string below the field is the help of the flag;
further paragraphs appear in `--help-pass` and on the pages. A pass inherits the options that it
shares with other passes; `inherited` gives an inherited option another default or text. A dataclass
with several bases has the fields of the last base first.

Docstrings are read from the source text, because `python -OO` removes them from the code.
"""

import ast
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from functools import cache
from inspect import get_annotations
from itertools import pairwise, takewhile
from textwrap import dedent
from types import ModuleType, NoneType
from typing import (
    TYPE_CHECKING,
    Literal,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

if TYPE_CHECKING:
    from typing_extensions import TypeForm


def docstring(described: type | Callable[..., object] | ModuleType) -> str:
    """
    Return the docstring of a class, function or module without indentation, or "" if it is missing.
    A docstring that the code assigns is returned too. Base classes are not searched.
    """
    written = _written(described) if sys.flags.optimize > 1 else None
    return written or inspect.cleandoc(described.__doc__ or "")


def _written(described: type | Callable[..., object] | ModuleType) -> str | None:

    try:
        tree = ast.parse(dedent(inspect.getsource(described)))
    except (OSError, TypeError):  # Built in, or entered in an interactive session.
        return None
    found = tree if isinstance(described, ModuleType) else tree.body[0]
    is_documented = isinstance(found, ast.Module | ast.ClassDef | ast.FunctionDef)
    return ast.get_docstring(found) if is_documented else None


@cache
def field_docs(cls: type) -> dict[str, str]:
    """
    Map the name of each field of `cls` and the bases to the documentation, the string below the
    field, as a single line.
    """
    return {name: " ".join(texts) for name, texts in field_paragraphs(cls).items()}


@cache
def field_paragraphs(cls: type) -> dict[str, list[str]]:
    """
    Map the name of each field of `cls` and the bases to the paragraphs of the string below the
    field; each paragraph is a single line.
    """
    found: dict[str, list[str]] = {}
    for base in reversed(cls.__mro__):
        found |= _documented(_class_body(base))
    return found


def _class_body(cls: type) -> list[ast.stmt]:
    module = sys.modules.get(cls.__module__)
    has_names = any(not name.startswith("__") for name in (*vars(cls), *get_annotations(cls)))
    if module is None or not has_names:
        return []
    try:
        source = _source(module)
    except (OSError, TypeError):  # Built in, or entered in an interactive session.
        return []
    classes = (n for n in ast.walk(_parsed(source, cls.__name__)) if isinstance(n, ast.ClassDef))
    return next((node.body for node in classes if node.name == cls.__name__), list[ast.stmt]())


def _parsed(source: str, name: str) -> ast.Module:
    # To parse only the class is faster than to parse the module.
    _, body, rest = source.partition(f"\nclass {name}(")
    if not body:
        _, body, rest = source.partition(f"\nclass {name}:")
    if body and body not in rest:
        # The class extends to the next line without indentation that is not a parenthesis.
        first, *lines = rest.split("\n")
        inside = takewhile(lambda line: line[:1] in ("", " ", ")"), lines)
        try:
            return ast.parse("\n".join([body + first, *inside]))
        except SyntaxError:  # A string in the class has lines without indentation.
            pass
    return ast.parse(source)


@cache
def _source(module: ModuleType) -> str:
    return inspect.getsource(module)


def _documented(body: list[ast.stmt]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in pairwise(body):
        match pair:
            case (
                ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                paragraphs = inspect.cleandoc(text).split("\n\n")
                found[name] = [" ".join(each.split()) for each in paragraphs]
            case _:
                pass
    return found


T = TypeVar("T")

_KEY = "option"


@dataclass(frozen=True)
class OptionHelp:
    """The presentation of an option on the command line and in the Python API."""

    text: str | None = None
    """The help; by default the string below the field."""
    metavar: str | None = None
    tools: tuple[str, ...] = ()
    """The commands that accept the option; all commands if empty."""
    flag: str | None = None
    """The flag, if it does not follow from the name of the field."""
    keyword: str | None = None
    """The name in the Python API, if it differs from the name of the field."""
    minimum: int | None = None
    """The smallest value."""
    read: Callable[[str], object] | None = None
    """Convert text to the value, if the type of the field is not sufficient."""
    action: Literal["append", "extend"] | None = None
    """The treatment of a repeated flag."""
    shows_default: bool = True
    """Whether the help states the default."""
    aliases: tuple[str, ...] = ()
    """Other spellings of the flag."""
    needs: tuple[str, ...] = ()
    """The names of conditions; the option has no effect unless all of them hold."""
    unused: str | None = None
    """The reason why the option has no effect on a network that does not use it."""
    usual: bool = False
    """Whether `--help` lists the option; `--help-all` lists all options."""


@dataclass_transform(frozen_default=True)
def options(cls: type[T]) -> type[T]:
    """
    Make `cls` a frozen dataclass from which classes of options inherit. Methods such as `__init__`
    are not generated, because that would slow down the start of each command.
    """
    return dataclass(init=False, repr=False, eq=False, match_args=False, frozen=True)(cls)


def option(
    default: T,
    text: str | None = None,
    *,
    metavar: str | None = None,
    tools: tuple[str, ...] = (),
    flag: str | None = None,
    keyword: str | None = None,
    minimum: int | None = None,
    read: Callable[[str], object] | None = None,
    action: Literal["append", "extend"] | None = None,
    shows_default: bool = True,
    aliases: tuple[str, ...] = (),
    needs: tuple[str, ...] = (),
    unused: str | None = None,
    usual: bool = False,
) -> T:
    """
    Declare a dataclass field with the default value `default` that is also an option of the command
    line. `OptionHelp` explains the other parameters.
    """
    described = OptionHelp(
        text,
        metavar,
        tools,
        flag,
        keyword,
        minimum,
        read,
        action,
        shows_default,
        aliases,
        needs,
        unused,
        usual,
    )
    return field(default=default, metadata={_KEY: described})


def inherited(cls: type, name: str, default: T, *, metavar: str | None = None) -> T:
    """
    Declare again, in a subclass, the option `name` of `cls`: with another `default` or placeholder
    for the value in the help (`metavar`), or with a more specific help below the field.
    """
    found = next(described for each, described in options_of(cls) if each.name == name)
    if metavar is not None:
        found = replace(found, metavar=metavar)
    return field(default=default, metadata={_KEY: found})


def flag_of(each: "Field[object]") -> str:
    """
    Return the flag of the field `each`: `--some-name` for `some_name`, `--no-some-name` for a bool
    that is true by default, or the flag that `option` declares.
    """
    described = each.metadata.get(_KEY)
    if isinstance(described, OptionHelp) and described.flag is not None:
        return described.flag
    name = each.name.replace("_", "-")
    return f"--no-{name}" if each.default is True else f"--{name}"


def options_of(cls: type, tool: str | None = None) -> "Iterator[tuple[Field[object], OptionHelp]]":
    """
    Yield the fields of the dataclass `cls` that are command line options, with their declarations.
    `tool` is the name of a command such as `ceras-run`; fields that this command does not accept
    are then omitted.
    """
    for each in fields(cls):
        described = each.metadata.get(_KEY)
        if isinstance(described, OptionHelp) and (
            tool is None or tool in (described.tools or (tool,))
        ):
            yield each, described


def help_of(cls: type, each: "Field[object]") -> str:
    """
    Return the help of the option for the field `each` of `cls`: the declared text, or the first
    paragraph of the string below the field. The default is appended if it is a number or text.
    """
    described = each.metadata.get(_KEY)
    assert isinstance(described, OptionHelp)
    text = described.text
    if text is None:
        text = field_paragraphs(cls)[each.name][0].removesuffix(".")
        if text[1:2].islower():
            text = text[0].lower() + text[1:]
    default = each.default
    is_value = isinstance(default, int | float | str) and not isinstance(default, bool)
    if not is_value or not described.shows_default or "default" in text:
        return text
    return (
        f"{text} (default: {default:g})"
        if isinstance(default, float)
        else (f"{text} (default: {default})")
    )


@cache
def types_of(cls: type) -> "Mapping[str, TypeForm[object]]":
    """Return the type of each field of the dataclass `cls`, by the name of the field."""
    return get_type_hints(cls)


def choices_of(hint: object) -> list[str]:
    """
    Return the choices, as text, of an option with the type `hint`: `["a", "b"]` for
    `Literal["a", "b"]`, with or without `None`. The result is empty for other types.
    """
    kinds = [hint, *(() if get_origin(hint) is tuple else get_args(hint))]
    return [str(c) for kind in kinds if get_origin(kind) is Literal for c in get_args(kind)]


def without_none(hint: object) -> object:
    """Return `hint` without `None`: `int` for `int | None`. Other types are returned unchanged."""
    rest = [kind for kind in get_args(hint) if kind is not NoneType]
    return rest[0] if len(rest) == 1 and NoneType in get_args(hint) else hint


def with_options_of(cls: type[T], source: object, **more: object) -> T:
    """
    Return an instance of `cls` with the values of `source` for each field that both classes inherit
    from a common dataclass. `more` sets other fields, and overrides values.
    """
    shared = [base for base in cls.__mro__ if base in type(source).__mro__ and is_dataclass(base)]
    names = dict.fromkeys(each.name for base in shared for each in fields(base) if each.init)
    return cls(**{name: getattr(source, name) for name in names} | more)


def idle_flags(cls: type, values: object, unmet: Mapping[str, str]) -> dict[str, list[str]]:
    """
    Return the flags of options of `cls` that have no effect, grouped by the reason. `values` is an
    instance with the values of the user, and `unmet` maps each condition that does not hold to a
    reason. An option is reported if it differs from the default and needs such a condition
    (`OptionHelp.needs`).
    """
    found: dict[str, list[str]] = {}
    for each, described in options_of(cls):
        reasons = [unmet[need] for need in described.needs if need in unmet]
        if reasons and getattr(values, each.name) != each.default:
            found.setdefault(reasons[0], []).append(flag_of(each))
    return found


def out_of_range(options: object) -> Iterator[tuple[str, str]]:
    """
    Yield the name of each option with a value below the minimum, and the requirement in words.
    `options` is an instance of a dataclass of options.
    """
    for each, described in options_of(type(options)):
        minimum, value = described.minimum, getattr(options, each.name)
        if minimum is not None and value is not None and not value >= minimum:
            yield each.name, f"must be at least {minimum}" if minimum else "must not be negative"
