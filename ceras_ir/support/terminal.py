"""
Format text for a terminal: tables, names of limited length and progress bars.

A progress bar is written to stderr for long work, and only if stderr is a terminal.
"""

import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence, Sized
from typing import TypeVar


def shortened(name: str, longest: int = 40) -> str:
    """Return the name; a longer name is cut to `longest` characters, three dots included."""
    return name if len(name) <= longest else f"{name[: longest - 3]}..."


def aligned(rows: Sequence[Sequence[str]], right: Collection[int]) -> list[str]:
    """Return a line for each row; columns in `right` are right-aligned, the rest left-aligned."""
    columns = max(map(len, rows))
    full = [[*row, *[""] * (columns - len(row))] for row in rows]
    widths = [max(map(len, column)) for column in zip(*full, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in full
    ]


T = TypeVar("T")

DELAY_S = 2.0
"""The delay before a bar appears; shorter work shows no bar."""


def progress(items: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """
    Yield `items`, with a bar after `DELAY_S` seconds if stderr is a terminal. `total` is the number
    of items if `items` has no length.
    """
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    total = len(items) if isinstance(items, Sized) else total
    started = time.monotonic()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(description, total=total)
    shown = False
    try:
        for item in items:
            yield item
            bar.advance(task)
            if not shown and time.monotonic() - started > DELAY_S:
                bar.start()
                shown = True
    finally:
        if shown:
            bar.stop()
