"""
What stands at a place of a text, and where it is defined: by its letters alone, so that a text
that does not parse can be read too.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

WORD = re.compile(
    r"%[\w$.-]+(?:\#\d+)?|@[\w$.-]+|\^[\w$.-]+|[!#]?[A-Za-z_][\w$-]*(?:\.[A-Za-z_][\w$-]*)*"
)
"""A value, a symbol, a block, or a name with dots: of an operation, a type, an attribute."""

FUNCTION = re.compile(r"^\s*(?:func\.func|\"func\.func\")")
STRING_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*')


@dataclass(frozen=True)
class Word:
    """Characters [start, end) of a line; both count from 0."""

    text: str
    line: int
    start: int
    end: int


def word_at(text: str, line: int, column: int) -> Word | None:
    """The word at a place, or just before it."""
    lines = text.split("\n")
    if not 0 <= line < len(lines):
        return None
    for match in WORD.finditer(lines[line]):
        if match.start() <= column <= match.end():
            return Word(match[0], line, match.start(), match.end())
    return None


def definition(text: str, word: Word) -> Word | None:
    """Where a value, block or symbol is defined: a value at the nearest place above."""
    lines = [_blanked(each) for each in text.split("\n")]
    name, _, _ = word.text.partition("#")
    if name.startswith("@"):
        pattern = re.compile(
            rf"(?:func\.func|module)\s+(?:private\s+|public\s+)?({re.escape(name)})\b"
        )
        return _first(pattern, text.split("\n"), range(len(lines)))
    if name.startswith("^"):
        pattern = re.compile(rf"^\s*({re.escape(name)})\b[^,)]*[:(]")
        return _first(pattern, lines, range(len(lines)))
    if not name.startswith("%"):
        return None
    start, end = _function_around(lines, word.line)
    made = re.compile(rf"(?:^|,|\bfor\b)\s*({re.escape(name)})(?::\d+)?\s*(?=[,=])(?=[^()]*=)")
    argument = re.compile(rf"[(,]\s*({re.escape(name)})\s*:\s")
    for at in (*range(word.line, start - 1, -1), *range(word.line + 1, end)):
        for pattern in (made, argument):
            if (found := _first(pattern, lines, range(at, at + 1))) is not None:
                return found
    return None


def uses(text: str, word: Word) -> Iterator[Word]:
    """Every place in the function where a value stands."""
    lines = [_blanked(each) for each in text.split("\n")]
    name, _, _ = word.text.partition("#")
    start, end = _function_around(lines, word.line)
    for at in range(start, end):
        for match in WORD.finditer(lines[at]):
            if match[0].partition("#")[0] == name:
                yield Word(match[0], at, match.start(), match.end())


def functions(text: str) -> Iterator[int]:
    """The lines on which functions called `main` begin."""
    for number, line in enumerate(text.split("\n")):
        if FUNCTION.match(line) and re.search(r"@main\b|sym_name\s*=\s*\"main\"", line):
            yield number


def _blanked(line: str) -> str:
    """The line with strings and comments as spaces."""
    return STRING_OR_COMMENT.sub(lambda match: " " * len(match[0]), line)


def _function_around(lines: list[str], line: int) -> tuple[int, int]:
    """Lines [start, end) from the function's beginning to the next one's."""
    begins = [i for i, each in enumerate(lines) if FUNCTION.match(each) or "// -----" in each]
    start = max((i for i in begins if i <= line), default=0)
    return start, min((i for i in begins if i > line), default=len(lines))


def _first(pattern: re.Pattern[str], lines: list[str], numbers: range) -> Word | None:
    for number in numbers:
        if (match := pattern.search(lines[number])) is not None:
            return Word(match[1], number, match.start(1), match.end(1))
    return None
