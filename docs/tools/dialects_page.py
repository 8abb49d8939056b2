"""Print docs/dialects.md from the classes of operations and attributes."""

import inspect
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping
from enum import Enum
from importlib import import_module
from textwrap import fill
from types import ModuleType

from docstrings import markdown
from xdsl.ir import Attribute, Dialect, Operation, ParametrizedAttribute
from xdsl.irdl import (
    IRDLOperation,
    OpDef,
    OptOperandDef,
    OptPropertyDef,
    OptResultDef,
    VarOperandDef,
    VarResultDef,
)

from ceras_ir.support.options import field_docs
from ceras_ir.universe import CERAS_UNIVERSE, dialect_paths

INTRODUCTION = """\
# Dialects

This page defines each operation bit for bit. The interpreter and all backends are tested against
these definitions. The verifiers check types and shapes. Each operation has an example, which a test
parses and verifies. [architecture.md](architecture.md) shows the order of the levels.

The lists after a text have members of three kinds: `name?` is optional, `name...` is any number of
values, and `name = VALUE` has a default. A list of properties or parameters has no other names that
the text or the example shows. A list of operands is omitted if text and example show all of them.
The only operand is `input`, and the only result is `result`, unless the example or a list shows
others. `kind` is the word after the name of an operation.
"""

TOKENS = ("pop_prev", "pop_next", "push_prev", "push_next")
"""Properties that the head of the dialect `vta` describes."""

USUAL = {"Operands": ["input"], "Results": ["result"]}
"""Lists that the introduction describes."""

KIND = r"(?:graph|tile)\.\w+ \w+ %"
"""An operation with its property `kind`, in an example."""

WIDTH = 100


def dialects_page() -> str:
    parts = [INTRODUCTION]
    openings = [import_module(path.partition(":")[0]) for path in dialect_paths().values()]
    dialects = {name: load() for name, load in CERAS_UNIVERSE.all_dialects.items()}
    described = [
        getattr(cls, "enum_type", None) for each in dialects.values() for cls in each.attributes
    ]
    for opening, (name, dialect) in zip(openings, dialects.items(), strict=True):
        members = [*dialect.attributes, *dialect.operations]
        parts += [f"## {name}", markdown(opening.__doc__)]
        explained = {""}
        for module in _modules(dialect, opening):
            if module not in openings:
                parts += [f"### {_title(module)}", *_specification(module)]
            if module is opening or module not in openings:
                parts += map(_enumeration, _enumerations(module, described))
            here = [cls for cls in members if inspect.getmodule(cls) is module]
            parts += [_describe(cls, explained) for cls in here]
    return "\n\n".join(parts)


def _title(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2].replace("_", " ")


def _specification(module: ModuleType) -> list[str]:
    """Return the docstring, unless it is a single paragraph, which repeats the title."""
    text = markdown(module.__doc__)
    return [text] if "\n\n" in text else []


def _modules(dialect: Dialect, opening: ModuleType) -> list[ModuleType]:
    """Return the modules of a dialect: its opening, then those of attributes and operations."""
    attributes, operations = (
        {m: None for cls in members if (m := inspect.getmodule(cls))}
        for members in (dialect.attributes, dialect.operations)
    )
    only_attributes = [m for m in attributes if m not in operations]
    return list(dict.fromkeys([opening, *only_attributes, *operations]))


def _enumerations(module: ModuleType, described: Collection[object]) -> Iterator[type[Enum]]:
    """Yield the enumerations of a module that are not `described` as an attribute."""
    for _, cls in inspect.getmembers(module, inspect.isclass):
        is_separate = cls.__module__ == module.__name__ and cls not in described
        if is_separate and issubclass(cls, Enum) and issubclass(cls, str):
            yield cls


def _enumeration(cls: type[Enum]) -> str:
    return "\n".join([f"**{cls.__name__}.** {markdown(cls.__doc__)}".rstrip(), "", *_values(cls)])


def _values(cls: type[Enum]) -> list[str]:
    docs = field_docs(cls)
    lines = [_item(f"- `{m.value}`: {docs[m.name]}") for m in cls if m.name in docs]
    rest = [f"`{m.value}`" for m in cls if m.name not in docs]
    if rest:
        lines.append(("- " if docs else "Values: ") + ", ".join(rest) + ("" if docs else "."))
    return lines


def _item(text: str) -> str:
    return fill(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _describe(cls: type[Attribute] | type[Operation], explained: set[str]) -> str:
    """Return the entry of a class. It does not repeat the names that are `explained`."""
    if issubclass(cls, Operation):
        heading, body = f"#### {cls.name}", _operation(cls, explained)
    else:
        mark = "!" if cls.name.startswith("quant.") else "#"
        heading, body = f"#### {mark}{cls.name}", _attribute(cls, explained)
    doc = _doc(cls)
    text, _, last = doc.rpartition("\n\n")
    if last.startswith("    "):
        # The example is printed after the operands.
        doc, body = text, [*body, f"```mlir\n{textwrap.dedent(last)}\n```"]
    return "\n\n".join([heading, markdown(doc), *body])


def _doc(cls: type[Attribute] | type[Operation]) -> str:
    """Return the docstring. That of an enumeration serves an attribute without docstring."""
    return inspect.cleandoc(cls.__doc__ or getattr(cls, "enum_type", cls).__doc__ or "")


def _attribute(cls: type[Attribute], explained: set[str]) -> list[str]:
    values: object = getattr(cls, "enum_type", None)
    if isinstance(values, type) and issubclass(values, Enum):
        return ["\n".join(_values(values))]
    if not issubclass(cls, ParametrizedAttribute):
        return []
    names = [name for name, _ in cls.get_irdl_definition().parameters]
    return _lists({"Parameters": names}, cls, explained)


def _operation(cls: type[Operation], explained: set[str]) -> list[str]:
    if not issubclass(cls, IRDLOperation):
        return []
    return _lists(_members(cls.get_irdl_definition()), cls, explained)


def _lists(
    members: Mapping[str, list[str]], cls: type[Attribute] | type[Operation], explained: set[str]
) -> list[str]:
    """Return a paragraph of the lists, without the names that the introduction leaves out."""
    text, docs = _doc(cls), field_docs(cls)
    lists: list[str] = []
    for kind, names in members.items():
        kept = [name for name in names if not _is_shown(name, text, docs, explained)]
        if kept and names != USUAL.get(kind):
            listed = kept if kind in ("Properties", "Parameters") else names
            lists.append(f"{kind}: {_listed(listed, docs, explained)}.")
    if not lists:
        return []
    return [fill(" ".join(lists), WIDTH, break_on_hyphens=False, break_long_words=False)]


def _is_shown(name: str, text: str, docs: Mapping[str, str], explained: set[str]) -> bool:
    """Return whether a text shows a required member that has no description to print."""
    if not name.isidentifier() or docs.get(name, "") not in explained:
        return False
    shown = KIND if name == "kind" else rf"\b{name}\b"
    return re.search(shown, text) is not None


def _members(definition: OpDef) -> dict[str, list[str]]:
    def operand(name: str, kind: object) -> str:
        if isinstance(kind, OptOperandDef | OptResultDef | OptPropertyDef):
            return f"{name}?"
        return f"{name}..." if isinstance(kind, VarOperandDef | VarResultDef) else name

    return {
        "Operands": [operand(*pair) for pair in definition.operands],
        "Properties": [
            f"{operand(name, kind)}" + _default(kind.default_value)
            for name, kind in definition.properties.items()
            if name not in ("operandSegmentSizes", "resultSegmentSizes", *TOKENS)
        ],
        "Regions": [name for name, _ in definition.regions],
        "Results": [operand(*pair) for pair in definition.results],
    }


def _default(value: Attribute | None) -> str:
    # The types of integers are the same everywhere.
    text = re.sub(r"^array<i64: (.*)>$", r"[\1]", str(value)).removesuffix(" : i64")
    return "" if value is None else f" = {text}"


def _listed(names: list[str], docs: dict[str, str], explained: set[str]) -> str:
    """Return the names with their field documentation, and add it to `explained`."""
    described: list[str] = []
    for name in names:
        doc = docs.get(name.split()[0].rstrip(".?"), "")
        text = f" ({doc.rstrip('.')})" if doc not in explained else ""
        described.append(f"`{name}`{text}")
        explained.add(doc)
    return ", ".join(described)
