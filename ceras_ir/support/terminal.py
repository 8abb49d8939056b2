"""
Text for a terminal: tables with columns of equal width, names of a limited length, progress bars.

A progress bar is written to stderr for long work, and only where a person reads the output.
"""

import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence, Sized
from typing import TypeVar


def shortened(name: str, longest: int = 40) -> str:
    """The name, of a longer one its beginning and three dots."""
    return name if len(name) <= longest else f"{name[: longest - 3]}..."


def aligned(rows: Sequence[Sequence[str]], right: Collection[int]) -> list[str]:
    """A line for each row; the columns in `right` end together, the others start together."""
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

DELAY = 2.0
"""Seconds before a bar appears: what is done sooner needs none."""


def progress(items: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """
    `items`, with a bar that appears after `DELAY` seconds if stderr is a terminal; `total` is
    their number where they do not know it themselves.
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
            if not shown and time.monotonic() - started > DELAY:
                bar.start()
                shown = True
    finally:
        if shown:
            bar.stop()
