"""Mark cases of a parametrized test that only `make test` runs, not `make check`."""

from collections.abc import Iterable
from itertools import islice

import pytest
from _pytest.mark import ParameterSet


def slow(*arguments: object) -> ParameterSet:
    """Mark a case as slow."""
    return pytest.param(*arguments, marks=pytest.mark.slow)


def first_fast(count: int, cases: Iterable[object]) -> list[ParameterSet]:
    """Mark all cases but the first `count` as slow."""
    rest = iter(cases)
    return [*map(pytest.param, islice(rest, count)), *map(slow, rest)]
