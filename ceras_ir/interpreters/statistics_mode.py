"""A mode of the interpreter in which functions are fast and lack the bits that are defined."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_STATISTICS: ContextVar[bool] = ContextVar("statistics", default=False)


@contextmanager
def for_statistics() -> Generator[None]:
    """
    Have `float_functions.exp` be numpy's, which takes a sixth of the time: what only says how
    values are distributed needs no bits. Within 3 units in the last place.
    """
    token = _STATISTICS.set(True)
    try:
        yield
    finally:
        _STATISTICS.reset(token)


def is_for_statistics() -> bool:
    """Whether what is computed now may lack bits."""
    return _STATISTICS.get()
