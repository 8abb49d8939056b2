"""
Parse the options of a pass or target, `opt=value opt=value`, and pipelines of passes.

Types come from the dataclass fields, while xDSL guesses them from the text: a float accepts `8` and
`1e-3`, a string accepts `8` and `data/x.npz` without quotes, a tuple accepts commas, and a bool
without a value is true. Printed passes parse to equal passes.
"""

import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from inspect import Parameter, signature
from itertools import zip_longest
from types import NoneType, UnionType
from typing import Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpecConvertible
from xdsl.utils.hints import isa

from ceras_ir.support.diagnostics import UsageError, did_you_mean
from ceras_ir.support.options import choices_of, options_of, types_of, without_none
from ceras_ir.targets.protocol import Target
from ceras_ir.universe import refuse_removed

T = TypeVar("T", bound=ArgSpecConvertible)
Function = TypeVar("Function", bound=Callable[..., object])

OptionValue = None | bool | int | float | str | tuple["OptionValue", ...]

KEYWORD_ONLY, VAR_KEYWORD = Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD

_BOOLEANS = {"": True, "true": True, "1": True, "false": False, "0": False}

_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|.', re.DOTALL)
_PLAIN = re.compile(
    r"(?!(?:none|true|false|inf|infinity|nan)$)[A-Za-z_/][\w./:?&=-]*", re.IGNORECASE
)
"""Text that needs no quotes: it has no separator, and is not a value of another type."""


def split_outside_quotes(text: str, separators: str) -> Iterator[str]:
    """Yield the parts of `text` between separators that are outside quotes and brackets."""
    start, depth = 0, 0
    for piece in _PIECE.finditer(text):
        char = piece[0]
        if char == '"':
            raise UsageError(f"missing closing quote in '{text}'")
        if char in ("{", "["):
            depth += 1
        elif char in ("}", "]"):
            depth -= 1
        elif depth == 0 and len(char) == 1 and char in separators:
            yield text[start : piece.start()]
            start = piece.end()
    yield text[start:]


def build(cls: type[T], options: str, owner: str = "") -> T:
    """
    Return an instance of the pass or target `cls` with the options in the text `options`, such as
    `bits=8 per-channel`. An error raises `UsageError`, which names `owner`: by default the kind and
    the name of the class.
    """
    owner = owner or f"{'pass' if issubclass(cls, ModulePass) else 'target'} '{cls.name}'"
    types = get_type_hints(cls)
    fields = {
        f.name.replace("_", "-"): f for f in dataclasses.fields(cls) if f.init and f.name != "name"
    }
    values: dict[str, OptionValue] = {}
    parts = [part for part in split_outside_quotes(options, " \t\n") if part]
    for part, following in zip_longest(parts, parts[1:], fillvalue=""):
        key, equals, text = part.partition("=")
        key = key.replace("_", "-")
        if key not in fields:
            if (instead := getattr(cls, "removed_options", {}).get(key)) is not None:
                raise UsageError(f"option '{key}' of {owner} was removed: {instead}")
            known = f" (options: {', '.join(fields)})" if fields else " (it has no options)"
            hint = did_you_mean(key, fields) or known
            raise UsageError(f"{owner} has no option '{key}'{hint}")
        field = fields[key]
        if field.name in values:
            raise UsageError(f"option '{key}' of {owner} is given twice: remove one")
        if not equals and bool not in (kind := types[field.name], *get_args(kind)):
            is_value = following.partition("=")[0].replace("_", "-") not in fields
            value = following if following and is_value else f"<{type_name(without_none(kind))}>"
            raise UsageError(f"option '{key}' of {owner} needs a value: write {key}={value}")
        try:
            values[field.name] = _convert(text, types[field.name], given=bool(equals))
        except ValueError:
            expected = type_name(types[field.name])
            raise UsageError(
                f"option '{key}' of {owner} must be {expected}, got '{text}'"
            ) from None
    for key, field in fields.items():
        if field.name not in values and not _has_default(field):
            if NoneType in get_args(types[field.name]):
                values[field.name] = None
            else:
                expected = type_name(types[field.name])
                raise UsageError(f"{owner} needs the option '{key}' ({expected})")
    try:
        return cls(**values)
    except ValueError as error:
        raise UsageError(f"{owner}: {error}") from None


def with_values(cls: type[Target], given: Mapping[str, object]) -> Target:
    """
    Return an instance of the target `cls`. `given` maps names of options to values of the types of
    the fields; other names or types raise `UsageError`.
    """
    owner, types = f"target '{cls.name}'", types_of(cls)
    known = [field.name for field in dataclasses.fields(cls)]
    for key, value in given.items():
        _expect_known(key, known, owner)
        if not isa(value, types[key]):
            expected = type_name(types[key])
            raise UsageError(f"option '{key}' of {owner} must be {expected}, got {value!r}")
    return dataclasses.replace(cls(), **dict(given))


def keyword_values(
    cls: type, given: Mapping[str, object], owner: str, omit: Collection[str] = ()
) -> dict[str, object]:
    """
    Check keyword arguments of a function of the Python API that are options of the dataclass `cls`,
    and return their values by field name. A list becomes a tuple, an int becomes a float where the
    field is a float, and a text or an int is the single entry of a list of texts.

    Fields in `omit` are not keyword arguments. A wrong name or type raises `UsageError`, which
    names `owner`.
    """
    types, known = types_of(cls), _keywords(cls, omit)
    found: dict[str, object] = {}
    for key, value in given.items():
        _expect_known(key, known, owner)
        kind = types[known[key]]
        if kind == tuple[str, ...] and isinstance(value, str | int):
            value = (value,)
        if get_origin(kind) is tuple and isa(value, list[object] | tuple[object, ...]):
            is_text = kind == tuple[str, ...]
            value = tuple(str(v) if is_text and isinstance(v, int) else v for v in value)
        if without_none(kind) is float and isinstance(value, int):
            value = float(value)
        if (choices := choices_of(kind)) and value not in choices:
            raise UsageError(f"{key} must be one of {', '.join(choices)}, got {value!r}")
        if not isa(value, kind):
            raise UsageError(f"{key} must be {type_name(kind)}, got {value!r}")
        found[known[key]] = value
    return found


def _keywords(cls: type, omit: Collection[str]) -> dict[str, str]:
    every = {described.keyword or each.name: each.name for each, described in options_of(cls)}
    return {key: name for key, name in every.items() if name not in omit}


def keyword_parameters(cls: type, omit: Collection[str] = ()) -> Iterator[Parameter]:
    """
    Yield a parameter (for `inspect.Signature`) for each keyword argument of the Python API that
    sets a field of the dataclass `cls`, with the type and default. Fields in `omit` have no
    parameter.
    """
    types, defaults = types_of(cls), {each.name: each.default for each in dataclasses.fields(cls)}
    for key, name in _keywords(cls, omit).items():
        yield Parameter(key, KEYWORD_ONLY, default=defaults[name], annotation=types[name])


def target_parameters(targets: Sequence[type[Target]], omit: Collection[str]) -> list[Parameter]:
    """
    Return a parameter (for `inspect.Signature`) for each option of any of the `targets`, except the
    options in `omit`. A default that differs between targets is shown as `...`.
    """
    found: dict[str, Parameter] = {}
    for target in targets:
        types = types_of(target)
        for each in dataclasses.fields(target):
            name, kind, default = each.name, types[each.name], each.default
            if (other := found.get(name)) is not None:
                kind = Union[other.annotation, kind]  # noqa: UP007
                default = default if default == other.default else ...
            if name not in omit:
                found[name] = Parameter(name, KEYWORD_ONLY, default=default, annotation=kind)
    return list(found.values())


def listing(parameters: Iterable[Parameter]) -> Callable[[Function], Function]:
    """
    Return a decorator that replaces `**options` in the displayed signature of a function by
    `parameters`, for `help` and editors.
    """
    shown = list(parameters)

    def decorate(function: Function) -> Function:
        described = signature(function)
        own = [each for each in described.parameters.values() if each.kind is not VAR_KEYWORD]
        vars(function)["__signature__"] = described.replace(parameters=[*own, *shown])
        return function

    return decorate


def _expect_known(key: str, known: Collection[str], owner: str) -> None:
    if key not in known:
        hint = did_you_mean(key, known) or f" (options: {', '.join(known) or 'none'})"
        raise UsageError(f"{owner} has no option '{key}'{hint}")


def _has_default(field: "dataclasses.Field[object]") -> bool:
    return (
        field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
    )


def _convert(text: str, hint: object, *, given: bool) -> OptionValue:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _convert_union(text, args, given=given)
    if origin is tuple:
        items = split_outside_quotes(text, ",") if text else ()
        return tuple(_convert(item, args[0], given=True) for item in items)
    if origin is Literal:
        for choice in args:
            if str(choice) == _unquote(text):
                return choice
        raise ValueError
    if hint is bool:
        if (given and not text) or text.lower() not in _BOOLEANS:
            raise ValueError
        return _BOOLEANS[text.lower()]
    if not given:
        raise ValueError
    if hint is int:
        return int(text, 0)
    if hint is float:
        return float(text)
    if hint is str:
        return _unquote(text)
    raise AssertionError(f"no reader for pass options of type {hint}")


def _convert_union(text: str, choices: tuple[object, ...], *, given: bool) -> OptionValue:
    if NoneType in choices and (not given or text == "none"):
        return None
    # The narrowest type first: a string accepts any text.
    for choice in sorted(choices, key=_width):
        if choice is NoneType:
            continue
        try:
            return _convert(text, choice, given=given)
        except ValueError:
            continue
    raise ValueError


def _width(hint: object) -> int:
    """
    Return a rank that orders types from narrow to general: bool, int, float, other types. `true` is
    tried as a bool before it is accepted as a string.
    """
    return next((i for i, t in enumerate((bool, int, float)) if hint is t), 3)


def _unquote(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return re.sub(r'\\(["\\])', r"\1", text[1:-1])
    return text


def spell_pipeline(
    passes: Sequence[ModulePass], change: Callable[[str, object], object] | None = None
) -> str:
    """
    Return `passes` as the text that `-p` accepts, without options at their defaults. `change(name,
    value)`, if given, replaces the value of each option.
    """
    texts = list[str]()
    for pass_ in passes:
        options = list[str]()
        for field in dataclasses.fields(pass_):
            value: object = getattr(pass_, field.name)
            if not field.init or field.name == "name" or value == field.default:
                continue
            key = field.name.replace("_", "-")
            options.append(f"{key}={spell(change(key, value) if change else value)}")
        texts.append(f"{pass_.name}{{{' '.join(options)}}}" if options else pass_.name)
    return ",".join(texts)


def spell(value: object) -> str:
    """Return the value of an option as text for the command line."""
    if isa(value, tuple[object, ...]):
        return ",".join(map(spell, value))
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case str() if not _PLAIN.fullmatch(value):
            quoted = re.sub(r'(["\\])', r"\\\1", value)
            return f'"{quoted}"'
        case _:
            return str(value)


def type_name(hint: object) -> str:
    """Return the type of an option as `--help` prints it: `int or none`, `a|b`."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(type_name(a) for a in args)
    if origin is tuple:
        return f"{type_name(args[0])},..."
    if origin is Literal:
        return "|".join(str(a) for a in args)
    if hint is NoneType:
        return "none"
    return hint.__name__ if isinstance(hint, type) else str(hint)


# Pipelines: `-p "a,b{x=1 y=2}"` and `--b="x=1 y=2"`, converted to passes.

PassTable = Mapping[str, Callable[[], type[ModulePass]]]


ANCHOR = "builtin.module("
"""The text that MLIR writes around a pipeline; all passes here run on modules."""


@dataclasses.dataclass(frozen=True)
class PassRequest:
    """The name of a pass, and the options as text, as on the command line."""

    name: str
    options: str = ""
    nested: str | None = None
    """The pipeline in `mlir-opt[...]`."""


def parse_pipeline(text: str) -> list[PassRequest]:
    """Parse the passes in `text`, such as `a,b{x=1 y=2},c` or `builtin.module(a,b)`."""
    requests = list[PassRequest]()
    text = _on_module(text)
    for part in split_outside_quotes(text, ","):
        part = part.strip()
        name, brace, options = part.partition("{")
        bare, bracket, nested = part.partition("[")
        anchor, parenthesis, _ = part.partition("(")
        if parenthesis and not {"{", "["} & set(anchor):
            raise UsageError(
                f"'{anchor}(...)' in the pipeline '{text}': passes run on the whole module; write "
                "only the content of the parentheses"
            )
        if not name:
            raise UsageError(f"empty pass name in the pipeline '{text}'")
        if brace and (not bracket or len(name) < len(bare)):
            if not options.endswith("}"):
                raise UsageError(f"missing '}}' in the pipeline '{text}'")
            requests.append(PassRequest(name.strip(), options[:-1]))
        elif bracket:
            if not nested.endswith("]"):
                raise UsageError(f"missing ']' in the pipeline '{text}'")
            requests.append(PassRequest(bare.strip(), nested=nested[:-1]))
        else:
            requests.append(PassRequest(part))
    return requests


def _on_module(text: str) -> str:
    stripped = text.strip()
    if not stripped.startswith(ANCHOR):
        return text
    if not stripped.endswith(")"):
        raise UsageError(f"missing ')' in the pipeline '{text}'")
    return stripped[len(ANCHOR) : -1]


def find_pass(name: str, passes: PassTable) -> type[ModulePass]:
    """
    Return the class of the pass called `name`; raise `UsageError` for an unknown or removed name.
    """
    if name not in passes:
        refuse_removed(name)
        hint = did_you_mean(name, passes) or "; ceras-opt --list-passes shows names"
        raise UsageError(f"unknown pass '{name}'{hint}")
    return passes[name]()


def build_pipeline(requests: Sequence[PassRequest], passes: PassTable) -> list[ModulePass]:
    """Return an instance of each requested pass with the options."""
    built = list[ModulePass]()
    for request in requests:
        cls = find_pass(request.name, passes)
        if request.nested is None:
            built.append(build(cls, request.options))
        else:
            from xdsl.utils.arg_spec import parse_spec

            built.append(cls.from_spec(parse_spec(f"{request.name}[{request.nested}]")))
    return built
