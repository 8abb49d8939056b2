"""
Print the networks of several lengths as a single program, with shared constants and functions.

Each network is printed as for a single length. Functions that differ only in numbers are then
merged (`shared_text`), and so are the statements that call them. Numbers that depend on the length
and are no affine function of it are in a table with a row for each length.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ceras_ir.backends.c.functions import (
    Function,
    SharedCall,
    argument_name,
    body_of,
    equal_names,
    with_constants,
    with_numbers,
)
from ceras_ir.backends.c.model import LengthsCode, PrintedModel
from ceras_ir.backends.c.shared_text import (
    INTEGER,
    Column,
    Text,
    merge,
    without_numbered_comments,
)
from ceras_ir.backends.c.source import steps_of
from ceras_ir.backends.c.values import Kernels
from ceras_ir.support.diagnostics import InputError

MAX_KERNEL_ARGUMENTS = 8
"""Kernels that need more numbers as arguments remain separate."""

_DEFINITION = re.compile(r"@\([^()]*(\)\s*\{)")
"""The parameters in the definition of a kernel; `@` replaces the name."""


def merged_code(members: Sequence[PrintedModel], values: Sequence[int]) -> LengthsCode:
    """
    Return the functions of layers and the statements of `model_run_in` for the networks `members`
    of ascending lengths `values`. Generated kernels that differ only in numbers are merged.
    """
    kernels, pool = _merge_kernels(members[0].kernels), members[0].pool
    stored = equal_names(pool)
    # The largest length has the first indices.
    layers = [layer for member in reversed(members) for layer in member.layers if layer.lines]
    bodies = (without_numbered_comments(body_of(layer, stored)) for layer in layers)
    functions = with_numbers(
        Function(layer, _with_calls(body, kernels))
        for layer, body in zip(layers, bodies, strict=True)
    )
    merged = with_constants(functions, pool)
    return LengthsCode(merged, *_merge_steps(members, values, merged.calls))


def _merge_kernels(kernels: Kernels) -> dict[str, SharedCall]:
    """Merge kernels, and return the new call for each old name."""
    texts = kernels.functions
    names = "|".join(sorted(map(re.escape, texts), key=len, reverse=True))
    used = re.compile(rf"\b(?:{names})\b")
    inner = {other for name, text in texts.items() for other in used.findall(text) if other != name}
    alike: defaultdict[object, list[tuple[str, Text]]] = defaultdict(list)
    for name, text in texts.items():
        plain = re.sub(rf"\b{re.escape(name)}\b", "@", without_numbered_comments(text))
        if name not in inner and len(_DEFINITION.findall(plain)) == 1:
            split = Text.of(plain)
            alike[split.form].append((name, split))
    calls: dict[str, SharedCall] = {}
    for group in alike.values():
        if len(group) == 1:
            continue
        texts = [text for _, text in group]
        argument = argument_name(texts)
        merged = merge(texts, argument)
        if len(merged.columns) > MAX_KERNEL_ARGUMENTS:
            continue
        first = group[0][0]
        new = f"{first}_shared" if merged.columns else first
        definition = _DEFINITION.search(merged.text)
        assert definition is not None
        head, body = merged.text[: definition.start(1)], merged.text[definition.end() :]
        added = [f", {column.ctype} {column.name}" for column in merged.columns]
        unused = [f"\n  (void){column.name};" for column in merged.columns]
        text = "".join([head, *added, definition[1], *unused, body])
        kernels.replace([name for name, _ in group], new, text.replace("@", new))
        for i, (name, _) in enumerate(group):
            calls[name] = SharedCall(new, tuple(c.values[i] for c in merged.columns))
    return calls


def _with_calls(text: str, kernels: Mapping[str, SharedCall]) -> str:
    """Replace the calls of merged kernels."""
    if not kernels:
        return text
    names = "|".join(sorted(map(re.escape, kernels), key=len, reverse=True))
    parts: list[str] = []
    at = 0
    for found in re.finditer(rf"\b({names})\(", text):
        call = kernels[found[1]]
        end = _closing(text, found.end())
        more = "".join(f", {argument}" for argument in call.arguments)
        parts += [text[at : found.start()], f"{call.function}(", text[found.end() : end], more]
        at = end
    return "".join([*parts, text[at:]])


def _closing(text: str, start: int) -> int:
    depth = 1
    for i in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if not depth:
            return i
    raise AssertionError(text)


SHORT = "uint16_t"
"""The type of integers in a table if all of a column fit."""
TABLES = {SHORT: "model_counts", INTEGER: "model_numbers", "float": "model_factors"}


class _Tables:
    """The numbers of all lengths that statements take from tables, a table for each type."""

    def __init__(self, count: int):
        self.count = count
        self._columns: dict[str, dict[tuple[str, ...], int]] = {kind: {} for kind in TABLES}

    def use(self, ctype: str, values: Sequence[str], where: Sequence[int]) -> str:
        """Return the C expression of a number with `values` at the lengths of index `where`."""
        full = ["0" if ctype == INTEGER else "0.0f"] * self.count
        for index, value in zip(where, values, strict=True):
            full[index] = value
        is_short = ctype == INTEGER and all(int(value) < 1 << 16 for value in full)
        kind = SHORT if is_short else ctype
        columns = self._columns[kind]
        return f"{TABLES[kind]}_at[{columns.setdefault(tuple(full), len(columns))}]"

    @property
    def lines(self) -> list[str]:
        """The declarations of the tables."""
        found: list[str] = []
        for kind, columns in self._columns.items():
            if columns:
                shape = f"[{self.count}][{len(columns)}]"
                found.append(f"  static const {kind} {TABLES[kind]}{shape} = {{")
                found += [f"    {{{', '.join(row)}}}," for row in zip(*columns, strict=True)]
                found.append("  };")
        return found

    @property
    def rows(self) -> list[str]:
        """The declarations of the rows of a length."""
        return [
            f"  const {kind} *const {TABLES[kind]}_at = {TABLES[kind]}[model_at];"
            for kind, columns in self._columns.items()
            if columns
        ]


@dataclass(frozen=True)
class _Named:
    """The lengths, and the name of the parameter."""

    name: str
    values: Sequence[int]


def _merge_steps(
    members: Sequence[PrintedModel], values: Sequence[int], calls: Mapping[int, SharedCall]
) -> tuple[list[str], list[str], list[str]]:
    """
    Return the tables, their rows, and the statements that run the network of the length with index
    `model_at`. Lengths with different sequences of operations have separate statements.
    """
    lengths = _Named(members[0].length_name, values)
    tables = _Tables(len(members))
    groups: defaultdict[object, list[tuple[int, list[str]]]] = defaultdict(list)
    for index, member in enumerate(members):
        lines = steps_of(member, calls=calls)
        groups[len(lines)].append((index, lines))
    if len(groups) == 1:
        ((_, group),) = groups.items()
        body = _unified(group, lengths, tables)
        return tables.lines, tables.rows, body
    chosen = ["0"] * len(members)
    for number, group in enumerate(groups.values()):
        for index, _ in group:
            chosen[index] = str(number)
    body = [f"  switch ({tables.use(INTEGER, chosen, range(len(members)))}) {{"]
    for number, group in enumerate(groups.values()):
        label = "default" if number == len(groups) - 1 else f"case {number}"
        inner = (f"  {line}" for line in _unified(group, lengths, tables))
        body += [f"  {label}: {{", *inner, "    break;", "  }"]
    return tables.lines, tables.rows, [*body, "  }"]


def _unified(group: Sequence[tuple[int, list[str]]], lengths: _Named, tables: _Tables) -> list[str]:
    """
    Return the statements of networks with the same number of statements. Where they call different
    functions, a number selects the call.
    """
    body: list[str] = []
    for lines in zip(*(lines for _, lines in group), strict=True):
        forms: defaultdict[object, list[tuple[int, Text]]] = defaultdict(list)
        for (index, _), line in zip(group, lines, strict=True):
            split = Text.of(line)
            forms[split.form].append((index, split))
        printed = [_statement(users, lengths, tables) for users in forms.values()]
        if len(printed) == 1:
            body += printed
            continue
        where = [index for users in forms.values() for index, _ in users]
        chosen = [str(i) for i, users in enumerate(forms.values()) for _ in users]
        body.append(f"  switch ({tables.use(INTEGER, chosen, where)}) {{")
        for i, text in enumerate(printed):
            label = "default" if i == len(printed) - 1 else f"case {i}"
            body += [f"  {label}:", f"  {text}", "    break;"]
        body.append("  }")
    return body


def _statement(users: Sequence[tuple[int, Text]], lengths: _Named, tables: _Tables) -> str:
    where = [index for index, _ in users]
    length = tuple(str(lengths.values[index]) for index in where)
    given = [Column(INTEGER, length, lengths.name)] if len(users) > 1 else []
    merged = merge([text for _, text in users], "NUMBER", given)
    text = merged.text
    for i, column in reversed(list(enumerate(merged.columns))):
        text = re.sub(rf"\bNUMBER{i}\b", tables.use(column.ctype, column.values, where), text)
    return text


def with_lengths(members: Sequence[PrintedModel], values: Sequence[int]) -> PrintedModel:
    """Return the program for all `members`, of ascending lengths `values`."""
    bodies = [body for member in members for body in member.bodies]
    code = merged_code(members, values)
    return replace(
        members[-1], bodies=bodies, members=list(members), lengths=list(values), code=code
    )


def check_states(members: Sequence[PrintedModel]) -> None:
    """Refuse states that do not have the same type at each length."""
    last = members[-1].program.states
    for member in members:
        for kept, other in zip(member.program.states, last, strict=True):
            if kept.place != other.place or kept.state.argument.type != other.state.argument.type:
                raise InputError(
                    f"state '{kept.state.name}' is {other.state.argument.type} at the largest "
                    f"length and {kept.state.argument.type} at another: a state needs the same "
                    "shape at each length; leave out --state, or compile one length"
                )
