"""
Scan the tokens of MLIR text, from left to right and without backtracking.

A hand-written reader is needed because xDSL's parser does not know the attributes of recent TOSA
(`nan_mode = PROPAGATE`), ranges in locations, or most operations of TOSA. Constants are sliced from
the text, so that a file of many megabytes is parsed in seconds.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import NoReturn, TypeVar

from ceras_ir.command.exit_status import Diagnostic, SourceError, excerpt

T = TypeVar("T")

BLANK = re.compile(r"(?:\s++|//[^\n]*+)*+")
STRING = re.compile(r'"(?:[^"\\\n]++|\\.)*+"')
NAME = re.compile(r"[A-Za-z_][\w$.]*+")
NUMBER = re.compile(r"-?(?:0[xX][0-9a-fA-F]++|\d++(?:\.\d*+(?:[eE][+-]?\d++)?+)?+)")
VALUE = re.compile(r"%[\w$.-]++(?:#\d++)?+")
SYMBOL = re.compile(r'@(?:[\w$.-]++|"(?:[^"\\\n]++|\\.)*+")')
ALIAS = re.compile(r"[#!][A-Za-z_][\w$.]*+")
ESCAPE = re.compile(r"\\([0-9A-Fa-f]{2}|.)")
BRACKETS = re.compile(r'[()<>\[\]{}"]|->')
PAIRS = {"(": ")", "<": ">", "[": "]", "{": "}"}

MAX_NESTING = 64
"""The depth of brackets and attributes above which text is refused."""

END = "the text ends here"

MAX_SHOWN = 20
"""The number of characters of an unexpected text that a message shows."""


class Scanner:
    """A text and the current position in it, from which tokens are read."""

    def __init__(self, text: str, file: str):
        self.text = text
        self.file = file
        self.at = 0
        self._starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        self.skip()

    def place(self, at: int) -> tuple[int, int]:
        """Return the line and the column, from 1, of the position `at`."""
        line = bisect_right(self._starts, at)
        return line, at - self._starts[line - 1] + 1

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        """
        Raise a `SourceError` with `message` at the position `at`, by default the current position.
        """
        at = self.at if at is None else at
        source = excerpt(self.text, at, at + 1)
        raise SourceError([Diagnostic(message, self.file, *self.place(at), source)])

    def skip(self) -> None:
        """Skip blanks and comments."""
        found = BLANK.match(self.text, self.at)
        assert found is not None
        self.at = found.end()

    @property
    def is_at_end(self) -> bool:
        return self.at >= len(self.text)

    def take(self, pattern: re.Pattern[str]) -> str | None:
        """
        Return the text that matches `pattern` at the current position, and advance after it; `None`
        without a match.
        """
        found = pattern.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        self.skip()
        return found[0]

    def expect(self, pattern: re.Pattern[str], what: str) -> str:
        found = self.take(pattern)
        if found is None:
            self._unexpected(what)
        return found

    def sees(self, literal: str) -> bool:
        return self.text.startswith(literal, self.at)

    def accept(self, literal: str) -> bool:
        """Return whether the text continues with `literal`, and advance after it if so."""
        if not self.sees(literal):
            return False
        self.at += len(literal)
        self.skip()
        return True

    def accept_word(self, word: str) -> bool:
        """Return whether the next name is exactly `word`, and advance after it if so."""
        found = NAME.match(self.text, self.at)
        return found is not None and found[0] == word and self.accept(word)

    def require(self, literal: str) -> None:
        if not self.accept(literal):
            self._unexpected(f"'{literal}'")

    def _unexpected(self, what: str) -> NoReturn:
        shown = self.text[self.at : self.at + MAX_SHOWN].split("\n")[0]
        self.fail(f"expected {what}, got {shown!r}" if shown else f"{END}: expected {what}")

    def string(self) -> str | None:
        """
        Return the content of the string literal at the current position, and advance after it;
        `None` if there is no string literal.
        """
        found = self.take(STRING)
        return None if found is None else unescaped(found)

    def symbol(self) -> str:
        """
        Return the name of the symbol at the current position without the `@`, and advance after it.
        """
        found = self.expect(SYMBOL, "a symbol such as @main")[1:]
        return unescaped(found) if found.startswith('"') else found

    def listed(self, close: str, item: Callable[[], T]) -> list[T]:
        """
        Call `item` for each of the items that are separated by commas, up to and including `close`.
        Return the results.
        """
        found: list[T] = []
        if self.accept(close):
            return found
        while True:
            found.append(item())
            if self.accept(close):
                return found
            self.require(",")

    def balanced(self) -> str:
        """
        Return the text from the bracket at the current position to the matching bracket, without
        both, and advance after it.
        """
        start, open_brackets = self.at, list[str]()
        while True:
            found = BRACKETS.search(self.text, self.at)
            if found is None:
                self.fail("this bracket is not closed", start)
            token, self.at = found[0], found.end()
            if token == '"':
                literal = STRING.match(self.text, found.start())
                if literal is None:
                    self.fail("this string is not closed", found.start())
                self.at = literal.end()
            elif token in PAIRS:
                open_brackets.append(PAIRS[token])
                if len(open_brackets) > MAX_NESTING:
                    self.fail(f"brackets are nested more than {MAX_NESTING} deep", found.start())
            elif token != "->":
                if not open_brackets or open_brackets.pop() != token:
                    self.fail(f"unexpected '{token}'", found.start())
                if not open_brackets:
                    break
        inside = self.text[start + 1 : self.at - 1]
        self.skip()
        return inside


def unescaped(literal: str) -> str:
    """Return the content of a string literal without the quotes and escapes."""
    inside = literal[1:-1]
    if "\\" not in inside:
        return inside
    return ESCAPE.sub(lambda m: chr(int(m[1], 16)) if len(m[1]) == 2 else m[1], inside)
