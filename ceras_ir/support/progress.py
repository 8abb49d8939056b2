"""A progress bar on stderr for work that takes long, where a person is watching."""

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

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
