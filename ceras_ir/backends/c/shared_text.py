"""
Merge C functions that differ only in constants or in numbers, which become arguments.

Layers of equal shapes differ only in their constants: weights, biases, tables. A program for
several lengths of an input has the functions of each length, most of which differ only in extents,
strides and offsets. A number of a merged function that is an affine function of another number for
all users is computed from it, so most functions have a single argument. The text of each user
results exactly if the arguments have its constants and numbers, so results remain equal bit for
bit.

Constants in tables and in assembler keep their place in the text. So do numbers that C requires to
be constant: preprocessor lines, sizes of arrays, tables, labels, pragmas and arguments of
intrinsics.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import TypeAlias

LAYER_CONSTANT = re.compile(r"\bLAYER_\d+_(?P<name>\w+)")
"""The name of a constant of a layer."""

COMMENT = re.compile(r"[ \t]*/\*.*?\*/\n?", re.DOTALL)
"""A comment, which a merged function omits if it has a number."""

_NUMBER = re.compile(
    r"(?<![\w.])(?:(?P<real>(?:\d+\.\d*|\d+(?=e))(?:e[+-]?\d+)?f|0x[\da-f.]+p[+-]?\d+f)"
    r"|(?P<integer>0|[1-9]\d*)(?P<suffix>UL|U)?)(?![\w.])"
)
_CONSTANT = re.compile(
    r"^\s*#|\b(?:static const(?! struct)|enum|case|union|__asm__|_Pragma)\b"
    r"|\bMODEL_(?:THREADS|STATIC_ASSERT)\b"
    r"|\b(?:_mm\w*|__builtin\w*|__riscv\w*|v[a-z]+q_\w+)\(|^\s*(?:const )?\w+(?: \w+)? \*?\w+\["
)
"""A line with numbers that must be constant."""

_TABLE = re.compile(r"\bstatic const (?!struct)")
"""The start of a table. A structure becomes a variable if a number in it is an argument."""

_ADDRESS = re.compile(r"^\s*#|\b(?:static const|__asm__)\b")
"""A line that may need the address of a constant when it is compiled."""

_CASTS = {"U": "(uint32_t)", "UL": "(unsigned long)", "": ""}
MAX_INTEGER = (1 << 31) - 1

INTEGER, REAL = "int32_t", "float"

Found: TypeAlias = tuple[re.Match[str], tuple[str, str], str]
"""The place of a constant or number in a line, its kind and its value; see `Text`."""


@dataclass(frozen=True)
class Text:
    """A text, split at the constants and numbers that can become arguments."""

    pieces: tuple[str, ...]
    """The text between them, one more than there are constants and numbers."""
    kinds: tuple[tuple[str, str], ...]
    """The C type of each, and the suffix of a number or the name of a constant in its layer."""
    values: tuple[str, ...]
    """The constants, and the literals of numbers without suffix."""

    @property
    def form(self) -> tuple[object, ...]:
        """The text without the constants and numbers. Texts of equal form can be merged."""
        return self.pieces, self.kinds

    @classmethod
    def of(cls, text: str) -> "Text":
        """Split a text at its numbers."""
        return cls._split(text, _numbers_in, _CONSTANT)

    @classmethod
    def at_constants(cls, text: str, pointers: Mapping[str, str]) -> "Text":
        """Split a text at the names of constants in `pointers`, which has the C type of each."""

        def constants_in(line: str) -> Iterator[Found]:
            for name in LAYER_CONSTANT.finditer(line):
                if (ctype := pointers.get(name[0])) is not None:
                    yield name, (ctype, name["name"].lower()), name[0]

        return cls._split(text, constants_in, _ADDRESS)

    @classmethod
    def _split(
        cls, text: str, found_in: Callable[[str], Iterator[Found]], fixed: re.Pattern[str]
    ) -> "Text":
        pieces, kinds, values = [""], list[tuple[str, str]](), list[str]()
        in_table = False
        for line in text.splitlines(keepends=True):
            in_table = in_table or bool(_TABLE.search(line))
            at = 0
            if not in_table and not fixed.search(line):
                for found, kind, value in found_in(line):
                    pieces[-1] += line[at : found.start()]
                    pieces.append("")
                    kinds.append(kind)
                    values.append(value)
                    at = found.end()
            pieces[-1] += line[at:]
            in_table = in_table and not line.rstrip().endswith(";")
        return cls(tuple(pieces), tuple(kinds), tuple(values))

    def filled(self, expressions: Sequence[str]) -> str:
        """Return the text with an expression for each number."""
        parts = [self.pieces[0]]
        for expression, piece in zip(expressions, self.pieces[1:], strict=True):
            parts += [expression, piece]
        return "".join(parts)

    @property
    def words(self) -> set[str]:
        """The words of the text, which cannot be names of arguments."""
        return set(re.findall(r"[A-Za-z_]\w*", " ".join(self.pieces)))


def _numbers_in(line: str) -> Iterator[Found]:
    for found in _NUMBER.finditer(line):
        integer = found["integer"]
        if integer is None:
            yield found, (REAL, ""), found["real"]
        elif int(integer) <= MAX_INTEGER:
            yield found, (INTEGER, found["suffix"] or ""), integer


@dataclass(frozen=True)
class Segment:
    """
    A part of a function: code that all users have, or code that may differ, for a kind of processor
    or in a call of a function that is generated for a shape.
    """

    text: Text
    is_fixed: bool
    kind: str = ""
    """The call without shape, if the code is a call. Only calls of equal kind replace another."""


_DECLARED = re.compile(r"^  (?:const )?\w+(?: \w+)? \*?(?:const )?(\w+)(?: =|;|\[)", re.MULTILINE)
"""A variable of the outermost block."""

_CALL = re.compile(r"^ +([A-Za-z_]+)\d\w*\(.*\);\n", re.MULTILINE)
"""A statement that calls a function with numbers of a shape in the name."""


def segments_of(text: str) -> list[Segment]:
    """
    Split a function at `#if`, `#else` and `#endif`, and at calls. The code before an `#else` may
    differ, unless later code uses one of its variables.
    """
    parts: list[tuple[bool, str]] = [(True, "")]
    depth = 0
    lines = text.splitlines(keepends=True)
    for i, line in enumerate(lines):
        if line.startswith("#if"):
            depth += 1
        starts = line.startswith("#if") and depth == 1 and _has_else(lines[i + 1 :])
        ends = depth == 1 and line.startswith("#else") and not parts[-1][0]
        if ends:
            parts.append((True, ""))
        parts[-1] = parts[-1][0], parts[-1][1] + line
        if starts:
            parts.append((False, ""))
        if line.startswith("#endif"):
            depth -= 1
    found: list[Segment] = []
    for i, (is_fixed, part) in enumerate(parts):
        later = "".join(text for _, text in parts[i + 1 :])
        _, _, after = later.partition("#endif")
        names = _DECLARED.findall(part)
        used = any(re.search(rf"\b{name}\b", after) for name in names)
        if is_fixed or used:
            found += _calls_of(part)
        else:
            found.append(Segment(Text.of(part), is_fixed=False))
    return found


def _calls_of(text: str) -> list[Segment]:
    found: list[Segment] = []
    at = 0
    for call in _CALL.finditer(text):
        found.append(Segment(Text.of(text[at : call.start()]), is_fixed=True))
        found.append(Segment(Text.of(call[0]), is_fixed=False, kind=call[1]))
        at = call.end()
    return [*found, Segment(Text.of(text[at:]), is_fixed=True)]


def _has_else(lines: Sequence[str]) -> bool:
    """Return whether an `#if` before `lines` has an `#else`."""
    depth = 0
    for line in lines:
        if line.startswith("#if"):
            depth += 1
        elif line.startswith("#endif"):
            if not depth:
                return False
            depth -= 1
        elif line.startswith("#else") and not depth:
            return True
    return False


def joined(texts: Sequence[Text], mark: str) -> Text:
    """Return one text, with a mark between the parts."""
    pieces, kinds, values = [""], list[tuple[str, str]](), list[str]()
    for i, text in enumerate(texts):
        pieces[-1] += (mark if i else "") + text.pieces[0]
        pieces += text.pieces[1:]
        kinds += text.kinds
        values += text.values
    return Text(tuple(pieces), tuple(kinds), tuple(values))


def without_numbered_comments(text: str) -> str:
    """Return a text without the comments that have a number."""
    return COMMENT.sub(lambda found: "" if re.search(r"\d", found[0]) else found[0], text)


@dataclass(frozen=True)
class Column:
    """An argument of a merged text: a constant or the literal of a number for each user."""

    ctype: str
    values: tuple[str, ...]
    name: str = field(default="", compare=False)
    """The name in the merged text."""

    @property
    def is_number(self) -> bool:
        return self.ctype in (INTEGER, REAL)


@dataclass(frozen=True)
class Merged:
    """A text for several users, and the arguments that each user passes to it."""

    text: str
    columns: tuple[Column, ...]


def merge(
    texts: Sequence[Text], name: str, given: Sequence[Column] = (), taken: Collection[str] = ()
) -> Merged:
    """
    Merge texts of equal form, one for each user. Constants and numbers that differ are replaced by
    an argument: a column of `given`, or a new one. Numbers can also be affine functions of an
    argument. New arguments for numbers are called `name` and a number, those for constants as in
    their layer, if that is not in `taken`.
    """
    rows = list(zip(*(text.values for text in texts), strict=True))
    kinds = texts[0].kinds
    columns, used = list(given), {*taken, *(column.name for column in given)}
    spelled: dict[tuple[str, tuple[str, ...]], str] = {}

    def spell(ctype: str, row: tuple[str, ...], names: Iterator[str]) -> None:
        found = _computed(Column(ctype, row), columns)
        if found is None:
            found = next(each for each in names if each not in used)
            used.add(found)
            columns.append(Column(ctype, row, found))
        spelled[ctype, row] = found

    numbers: set[tuple[str, tuple[str, ...]]] = set()
    for (ctype, called), row in zip(kinds, rows, strict=True):
        if len(set(row)) > 1:
            if Column(ctype, row).is_number:
                numbers.add((ctype, row))
            elif (ctype, row) not in spelled:
                spell(ctype, row, chain([called], (f"{called}_{i}" for i in count(2))))
    # Small numbers first: larger numbers are often multiples.
    for ctype, row in sorted(numbers, key=lambda each: (each[0], _magnitude(each))):
        spell(ctype, row, (f"{name}{i}" for i in count()))
    expressions: list[str] = []
    for (ctype, suffix), row in zip(kinds, rows, strict=True):
        expression = spelled.get((ctype, row))
        if not Column(ctype, row).is_number:
            expressions.append(expression or row[0])
        elif expression is None:
            expressions.append(row[0] + suffix)
        else:
            expressions.append(f"({_CASTS[suffix]}{expression})" if suffix else expression)
    return Merged(texts[0].filled(expressions), tuple(columns[len(given) :]))


def _magnitude(each: tuple[str, tuple[str, ...]]) -> tuple[object, ...]:
    ctype, row = each
    return tuple(map(int, row)) if ctype == INTEGER else row


def _computed(wanted: Column, columns: Sequence[Column]) -> str | None:
    """Return an affine function of a column with the values of `wanted`, or `None`."""
    if wanted.ctype != INTEGER:
        return next((column.name for column in columns if column == wanted), None)
    values = [int(v) for v in wanted.values]
    for column in columns:
        if column.ctype != INTEGER:
            continue
        name = column.name
        base = [int(v) for v in column.values]
        i = next((i for i, b in enumerate(base) if b != base[0]), None)
        if i is None:
            continue
        factor, rest = divmod(values[i] - values[0], base[i] - base[0])
        offset = values[0] - factor * base[0]
        if rest or any(factor * b + offset != v for b, v in zip(base, values, strict=True)):
            continue
        if factor < 1 or max(factor * b for b in base) > MAX_INTEGER:
            continue
        text = name if factor == 1 else f"({name} * {factor})"
        if offset:
            text = f"({text} {'+' if offset > 0 else '-'} {abs(offset)})"
        return text
    return None
