"""
Select some cases of the tests with the marker `sample`: `make test` runs these, and
`make test-all` runs all.
"""

import random
from collections.abc import Iterable, Sequence
from itertools import combinations

import pytest


def select(cases: Sequence[Sequence[str]], count: int, first: Iterable[int] = ()) -> set[int]:
    """
    Return the indices of `count` cases which have as many different pairs of values as possible,
    where a case has the value `case[i]` for parameter `i`. The choice is always the same, and
    includes the indices `first`.
    """
    taken = set(first)
    covered = set[object]().union(*(_combined(cases[index]) for index in taken))
    rest = [index for index in range(len(cases)) if index not in taken]
    random.Random(0).shuffle(rest)
    while rest and len(taken) < count:
        best = max(rest, key=lambda index: len(_combined(cases[index]) - covered))
        rest.remove(best)
        taken.add(best)
        covered |= _combined(cases[best])
    return taken


def _combined(case: Sequence[str]) -> set[object]:
    """Return the values of a case with their positions, and the pairs of these."""
    values = list(enumerate(case))
    return {*values, *combinations(values, 2)}


def reduce(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """
    Return the collected tests that run, and the tests that `make test-all` runs in addition. Cases
    without the marker `slow` always run, because `make check` runs these.
    """
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out: set[pytest.Item] = set()
    for cases in tests.values():
        if mark := cases[0].get_closest_marker("sample"):
            ids = [item.nodeid.partition("[")[2].rstrip("]").split("-") for item in cases]
            fast = (i for i, item in enumerate(cases) if not item.get_closest_marker("slow"))
            taken = select(ids, mark.args[0], fast)
            left_out.update(item for i, item in enumerate(cases) if i not in taken)
    kept = [item for item in items if item not in left_out]
    return kept, [item for item in items if item in left_out]
