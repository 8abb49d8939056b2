"""What passes say to the user on stderr; of lines that are the same, one in a run of a command."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_said: ContextVar[set[str] | None] = ContextVar("said", default=None)


def remark(line: str) -> None:
    """Print `line` to stderr, unless it has been inside of the same `each_once`."""
    said = _said.get()
    if said is not None:
        if line in said:
            return
        said.add(line)
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
