"""Cases of a parametrized test that `make check` leaves to `make test`."""

from collections.abc import Iterable
from itertools import islice

import pytest
from _pytest.mark import ParameterSet


def slow(*arguments: object) -> ParameterSet:
    """Mark one case as slow."""
    return pytest.param(*arguments, marks=pytest.mark.slow)


def first_fast(count: int, cases: Iterable[object]) -> list[ParameterSet]:
    """Mark all cases but the first `count` as slow."""
    rest = iter(cases)
    return [*map(pytest.param, islice(rest, count)), *map(slow, rest)]
