"""Check the choice of cases of tests with the marker `sample`."""

from dataclasses import dataclass, field
from itertools import product

import pytest
from sampled_cases import reduce, select


@dataclass(eq=False)
class Case:
    """A collected test with markers by name."""

    nodeid: str
    marks: dict[str, pytest.Mark] = field(default_factory=dict[str, pytest.Mark])

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.marks.get(name)


def test_pairs_of_values_are_covered():
    cases = [(a, b, c) for a, b, c in product("012", "xyz", "pqr")]
    taken = [cases[index] for index in select(cases, 9)]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert len({(case[i], case[j]) for case in taken}) >= 8
    assert select(cases, 9) == select(cases, 9)
    assert {5, 7} <= select(cases, 4, [5, 7])
    assert select(cases, 100) == set(range(27))


def test_cases_without_the_marker_slow_run():
    sample = {"sample": pytest.mark.sample(4).mark}
    slow = sample | {"slow": pytest.mark.slow.mark}
    cases = [
        Case(f"test.py::test_samples[{a}-{b}]", slow if b == "z" else sample)
        for a, b in product("012", "xz")
    ]
    others = [Case(f"test.py::test_all[{a}]", {"slow": slow["slow"]}) for a in "012"]
    kept, left_out = reduce([*cases, *others])  # pyright: ignore[reportArgumentType]
    assert len(left_out) == 2 and all(item.nodeid.endswith("-z]") for item in left_out)
    assert {item.nodeid for item in kept} | {item.nodeid for item in left_out} == {
        case.nodeid for case in (*cases, *others)
    }
