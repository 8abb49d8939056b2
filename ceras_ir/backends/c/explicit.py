"""
Write the precedence of operators, and the blocks of statements, explicitly in generated C.

Printers of layers write `a + i * 8` and `if (x) y;`. `explicit` returns `a + (i * 8)` and a block
in braces, as MISRA C:2012 requires (12.1, 15.6). Each new pair of parentheses encloses an operand
of the C grammar, so the program does not change. Preprocessor lines, assembler and incomplete
statements are returned unchanged.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

_TOKEN = re.compile(
    r"/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|\d[\d.]*e[+-]?\d+f?|[\w.]+|->|\+\+|--|<<=|>>=|<<|>>|&&|\|\|"
    r"|[<>=!+*/%&|^-]=|\S"
)
_LEVELS = ("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %")
PRECEDENCE = {sign: 3 + i for i, signs in enumerate(_LEVELS) for sign in signs.split()}
"""Binary operators by precedence; the conditional operator has 2, assignments and commas less."""
_CONDITIONAL, _PRIMARY = 2, 16
_PREFIX = {"-", "+", "!", "~", "&", "*", "++", "--", "sizeof"}
_ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
_TYPE = re.compile(r"const|struct|unsigned|signed|char|short|int|long|float|double|void|\*|\w+_t")
_SINGLE = re.compile(r"( *)((?:for|if|while) \()")
_OPEN, _CLOSE = "([{", ")]}"


class _Line:
    """
    The tokens of a line of C, and the text offsets of parentheses to insert. Methods take ranges of
    token indices, [first, end).
    """

    def __init__(self, text: str):
        self.text = text
        found = [m for m in _TOKEN.finditer(text) if not m[0].startswith("/*")]
        self.tokens = [m[0] for m in found]
        self.spans = [m.span() for m in found]
        self.inserted: list[tuple[int, str]] = []
        self.partner: dict[int, int] = {}
        opened: list[int] = []
        for i, token in enumerate(self.tokens):
            if token in _OPEN:
                opened.append(i)
            elif token in _CLOSE:
                if not opened:
                    raise ValueError(text)
                self.partner[opened.pop()] = i
        # The last token may be the brace of a block.
        if [self.tokens[i] for i in opened] not in ([], ["{"]):
            raise ValueError(text)
        for i in opened:
            self.partner[i] = len(self.tokens)

    def enclose(self, first: int, last: int) -> None:
        self.inserted += [(self.spans[first][0], "("), (self.spans[last][1], ")")]

    def result(self) -> str:
        text = self.text
        for at, sign in sorted(self.inserted, key=lambda i: (-i[0], i[1] == "(")):
            text = text[:at] + sign + text[at:]
        return text

    def top(self, first: int, end: int) -> Iterator[int]:
        """Yield the indices of tokens in a range that are not inside brackets of the range."""
        while first < end:
            yield first
            first = self.partner.get(first, first) + 1

    def group(self, first: int, end: int) -> None:
        """
        Insert the parentheses of a token range that consists of expressions separated by semicolons
        or commas.
        """
        begin = first
        for i in self.top(first, end):
            if self.tokens[i] in (";", ","):
                self.segment(begin, i)
                begin = i + 1
        self.segment(begin, end)

    def segment(self, first: int, end: int) -> None:
        """
        Insert the parentheses of a token range that is an expression, an assignment or a
        declaration.
        """
        top = list(self.top(first, end))
        assigned = [i for i in top if self.tokens[i] in _ASSIGNMENTS]
        start = assigned[-1] + 1 if assigned else first
        for i in top:
            if i < start and i in self.partner:
                self.group(i + 1, self.partner[i])
        while start < end:
            start = self.expression(start, end, _CONDITIONAL)[0]
            # Without an operator, the next expression is the statement after a head.
            start += start < end and self.tokens[start] in (":", "?")

    def expression(self, at: int, end: int, lowest: int) -> tuple[int, int, int]:
        """
        Insert the parentheses of the expression that starts at token `at`, with operators of
        precedence `lowest` or above. Return the index of the next token, the index of the last
        token of the expression, and the precedence of its outermost operator.
        """
        first = at
        at, last = self.operand(at, end)
        precedence = _PRIMARY
        while at < end:
            sign = self.tokens[at]
            level = _CONDITIONAL if sign == "?" else PRECEDENCE.get(sign, 0)
            if level < lowest or not level:
                break
            self._enclose_above(level, precedence, first, last)
            parts = [at]
            if sign == "?":
                at, middle, inner = self.expression(at + 1, end, _CONDITIONAL)
                self._enclose_above(level, inner, parts[0] + 1, middle)
                parts = [at]
            at, last, inner = self.expression(at + 1, end, level + (sign != "?"))
            self._enclose_above(level, inner, parts[0] + 1, last)
            precedence = level
        return at, last, precedence

    def _enclose_above(self, level: int, inner: int, first: int, last: int) -> None:
        if level < inner < _PRIMARY:
            self.enclose(first, last)

    def operand(self, at: int, end: int) -> tuple[int, int]:
        """
        Insert the parentheses inside the operand that starts at token `at`, with its prefix
        operators, casts, calls and indices. Return the indices of the next token and of the last
        token of the operand.
        """
        while at < end and (self.tokens[at] in _PREFIX or self._is_cast(at)):
            at = self.partner.get(at, at) + 1
        if at >= end:
            return at, at - 1
        if at in self.partner:
            self.group(at + 1, self.partner[at])
        at = self.partner.get(at, at) + 1
        while at < end and self.tokens[at] in ("(", "[", "{", "->", "++", "--"):
            if at in self.partner:
                self.group(at + 1, self.partner[at])
            at = self.partner.get(at, at) + (2 if self.tokens[at] == "->" else 1)
        return at, min(at, end) - 1

    def _is_cast(self, at: int) -> bool:
        inside = self.tokens[at + 1 : self.partner.get(at, at)]
        return self.tokens[at] == "(" and bool(inside) and all(map(_TYPE.fullmatch, inside))


@lru_cache(maxsize=4096)
def _parenthesized(text: str) -> str:
    try:
        line = _Line(text)
    except ValueError:
        return text
    line.group(0, len(line.tokens))
    return line.result()


def explicit(lines: Sequence[str]) -> Iterator[str]:
    """
    Yield the lines of C functions with parentheses that show the precedence of operators, and with
    braces around single statements: `if (x) y;` -> `if (x) {`, `y;`, `}`.
    """
    for text in lines:
        if text.startswith("#") or "__asm__" in text or "\n" in text:
            yield text
        else:
            yield from _in_braces(_parenthesized(text))


def _in_braces(text: str) -> Iterator[str]:
    if (head := _SINGLE.match(text)) is None:
        yield text
        return
    depth, end = 1, head.end()
    while depth and end < len(text):
        depth += (text[end] == "(") - (text[end] == ")")
        end += 1
    statement = text[end:].strip()
    if depth or not statement.endswith(";") or " else " in statement:
        yield text
        return
    indent = head[1]
    yield f"{text[:end]} {{"
    yield from _in_braces(f"{indent}  {statement}")
    yield f"{indent}}}"
