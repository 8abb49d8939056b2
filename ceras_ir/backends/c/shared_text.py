"""
Merge C functions that differ only in numbers: the differing numbers become arguments.

A program for several lengths of an input has the functions of each length. Most of them differ only
in extents, strides and offsets. A number of a merged function that is an affine function of another
number for all users is computed from it, so most functions have a single argument. The text of each
user results exactly if the arguments have its numbers, so results remain equal bit for bit.

Numbers that C requires to be constant keep their place in the text: preprocessor lines, sizes of
arrays, tables, labels, pragmas and arguments of intrinsics.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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

_CASTS = {"U": "(uint32_t)", "UL": "(unsigned long)", "": ""}
MAX_INTEGER = (1 << 31) - 1

INTEGER, REAL = "int32_t", "float"


@dataclass(frozen=True)
class Text:
    """A text, split at the numbers that can become arguments."""

    pieces: tuple[str, ...]
    """The text between the numbers, one more than there are numbers."""
    kinds: tuple[tuple[str, str], ...]
    """The C type and the suffix of each number."""
    numbers: tuple[str, ...]
    """The literals without suffix."""

    @property
    def form(self) -> tuple[object, ...]:
        """The text without the numbers. Texts of equal form can be merged."""
        return self.pieces, self.kinds

    @classmethod
    def of(cls, text: str) -> "Text":
        pieces, kinds, numbers = [""], list[tuple[str, str]](), list[str]()
        in_table = False
        for line in text.splitlines(keepends=True):
            in_table = in_table or bool(_TABLE.search(line))
            at = 0
            if not in_table and not _CONSTANT.search(line):
                for found in _NUMBER.finditer(line):
                    integer = found["integer"]
                    if integer is not None and int(integer) > MAX_INTEGER:
                        continue
                    pieces[-1] += line[at : found.start()]
                    pieces.append("")
                    kinds.append((INTEGER, found["suffix"] or "") if integer else (REAL, ""))
                    numbers.append(integer or found["real"])
                    at = found.end()
            pieces[-1] += line[at:]
            in_table = in_table and not line.rstrip().endswith(";")
        return cls(tuple(pieces), tuple(kinds), tuple(numbers))

    def filled(self, expressions: Sequence[str]) -> str:
        """Return the text with an expression for each number."""
        parts = [self.pieces[0]]
        for expression, piece in zip(expressions, self.pieces[1:], strict=True):
            parts += [expression, piece]
        return "".join(parts)


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
    pieces, kinds, numbers = [""], list[tuple[str, str]](), list[str]()
    for i, text in enumerate(texts):
        pieces[-1] += (mark if i else "") + text.pieces[0]
        pieces += text.pieces[1:]
        kinds += text.kinds
        numbers += text.numbers
    return Text(tuple(pieces), tuple(kinds), tuple(numbers))


def without_numbered_comments(text: str) -> str:
    """Return a text without the comments that have a number."""
    return COMMENT.sub(lambda found: "" if re.search(r"\d", found[0]) else found[0], text)


@dataclass(frozen=True)
class Column:
    """A number that differs between the users of a merged text: a literal for each user."""

    ctype: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Merged:
    """A text for several users, and the numbers that each user passes to it."""

    text: str
    columns: tuple[Column, ...]


def merge(
    texts: Sequence[Text],
    name: str,
    given: Mapping[str, Column] | None = None,
    start: int = 0,
) -> Merged:
    """
    Merge texts of equal form, one for each user. Numbers that differ are replaced by an affine
    function of a column of `given`, by name, or of a new column: `name` with the numbers from
    `start`.
    """
    rows = list(zip(*(text.numbers for text in texts), strict=True))
    kinds = texts[0].kinds
    differing = {(kinds[i][0], row) for i, row in enumerate(rows) if len(set(row)) > 1}
    # Small numbers first: larger numbers are often multiples.
    order = sorted(differing, key=lambda each: (each[0], _magnitude(each)))
    known = given or {}
    columns, names = list(known.values()), list(known)
    spelled: dict[tuple[str, tuple[str, ...]], str] = {}
    for ctype, row in order:
        found = _computed(Column(ctype, row), columns, names)
        if found is None:
            columns.append(Column(ctype, row))
            names.append(f"{name}{start + len(columns) - 1 - len(known)}")
            found = names[-1]
        spelled[ctype, row] = found
    expressions: list[str] = []
    for (ctype, suffix), row in zip(kinds, rows, strict=True):
        expression = spelled.get((ctype, row))
        if expression is None:
            expressions.append(row[0] + suffix)
        else:
            expressions.append(f"({_CASTS[suffix]}{expression})" if suffix else expression)
    return Merged(texts[0].filled(expressions), tuple(columns[len(known) :]))


def _magnitude(each: tuple[str, tuple[str, ...]]) -> tuple[object, ...]:
    ctype, row = each
    return tuple(map(int, row)) if ctype == INTEGER else row


def _computed(wanted: Column, columns: Sequence[Column], names: Sequence[str]) -> str | None:
    """Return an affine function of a column with the values of `wanted`, or `None`."""
    if wanted.ctype != INTEGER:
        equal = (n for c, n in zip(columns, names, strict=True) if c == wanted)
        return next(equal, None)
    values = [int(v) for v in wanted.values]
    for column, name in zip(columns, names, strict=True):
        if column.ctype != INTEGER:
            continue
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
