"""Commands that print the boards, the targets and the supported operators as text tables."""

from collections.abc import Iterable, Iterator
from textwrap import wrap

WIDTH = 80
"""The width of tables, which suits a terminal."""

MIN_TEXT = 20
"""The smallest width of the second column."""


def definitions(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """
    Yield the lines of a table of two columns, in which the texts of the second column are wrapped.
    """
    rows = list(pairs)
    width = max((len(name) for name, _ in rows), default=0)
    for name, text in rows:
        lines = wrap(text, max(WIDTH - width - 2, MIN_TEXT), break_on_hyphens=False) or [""]
        for first, line in zip((name, *[""] * len(lines)), lines, strict=False):
            yield f"{first.ljust(width)}  {line}".rstrip()
