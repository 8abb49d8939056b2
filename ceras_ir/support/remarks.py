"""What passes say to the user on stderr; of lines that are the same, one in a run of a command."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_said: ContextVar[set[str] | None] = ContextVar("said", default=None)

_silent: ContextVar[bool] = ContextVar("silent", default=False)


def remark(line: str) -> None:
    """Print `line` to stderr, unless it has been inside of the same `each_once`."""
    said = _said.get()
    if said is not None and not _silent.get():
        if line in said:
            return
        said.add(line)
    if not _silent.get():
        print(line, file=sys.stderr)


@contextmanager
def each_once() -> Generator[None]:
    """
    Print equal remarks once: a network that is quantized for several targets is calibrated for
    each, on the same samples.
    """
    token = _said.set(set())
    try:
        yield
    finally:
        _said.reset(token)


@contextmanager
def no_remarks() -> Generator[None]:
    """Print no remarks about a network that is made only to see whether it can be."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)
