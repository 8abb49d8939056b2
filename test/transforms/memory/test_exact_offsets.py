"""
Compare the search for memory plans with all plans of small instances, and with hard instances.
"""

import random
from pathlib import Path

import pytest
from slow_cases import first_fast

from ceras_ir.transforms.memory.offsets import (
    OffsetPlan,
    SearchOutcome,
    Span,
    first_fit,
    greedy_plans,
    improve,
    max_live_bytes,
    misplaced,
    place_within,
    plan_offsets,
)

INSTANCES = Path(__file__).parents[4] / "shared/minimalloc"
CAPACITY = 1 << 20


NO_PLAN_AT_THE_BOUND = [
    (5, "1,3,5 1,3,4 2,0,3 2,5,6 2,1,2 3,4,6 1,2,5 2,0,1 1,0,4 1,2,4"),
    (6, "3,0,1 3,5,6 1,1,4 2,1,5 2,4,6 3,0,3 1,3,6 1,3,5 1,3,4"),
    (5, "3,5,6 2,3,5 1,1,2 3,0,3 2,4,6 2,0,1 1,2,5 1,1,4 1,3,4"),
]
"""Maximum live bytes, and size, lower, upper of each request; the best plan needs a byte more."""


def has_plan(spans: list[Span], capacity: int) -> bool:
    """Return whether a plan exists, by a search through all offsets of all requests."""
    offsets: list[int] = []

    def place(i: int) -> bool:
        if i == len(spans):
            return True
        for offset in range(capacity - spans[i].size + 1):
            offsets.append(offset)
            fits = not any(
                spans[i].overlaps(spans[j])
                and offset < offsets[j] + spans[j].size
                and offsets[j] < offset + spans[i].size
                for j in range(i)
            )
            if fits and place(i + 1):
                return True
            offsets.pop()
        return False

    return place(0)


def dense_instance(seed: int) -> tuple[list[Span], int]:
    """Draw requests until no further request fits below a capacity."""
    source = random.Random(seed)
    capacity, times = source.randint(4, 7), 6
    load, spans = [0] * times, list[Span]()
    for _ in range(100):
        lower = source.randrange(times)
        span = Span(source.randint(1, 3), lower, min(times, lower + source.randint(1, 4)))
        if max(load[lower : span.upper]) + span.size <= capacity:
            spans.append(span)
            for time in range(lower, span.upper):
                load[time] += span.size
    return spans, capacity


@pytest.mark.parametrize("seed", range(0, 80, 10))
def test_agrees_with_trying_everything(seed: int):
    for s in range(seed, seed + 10):
        spans, capacity = dense_instance(s)
        if len(spans) > 9:
            continue
        found = place_within(spans, capacity)
        assert (found.outcome is SearchOutcome.FOUND) == has_plan(spans, capacity)
        assert found.outcome is not SearchOutcome.STOPPED


@pytest.mark.parametrize("bound, text", NO_PLAN_AT_THE_BOUND)
def test_proves_that_the_bound_cannot_be_reached(bound: int, text: str):
    spans = [Span(*map(int, part.split(","))) for part in text.split()]
    assert (
        max_live_bytes(spans) == bound and not has_plan(spans, bound) and has_plan(spans, bound + 1)
    )
    assert place_within(spans, bound).outcome is SearchOutcome.IMPOSSIBLE
    one_by_one = tuple(sum(s.size for s in spans[:i]) for i in range(len(spans)))
    worst = OffsetPlan(one_by_one, sum(s.size for s in spans), bound)
    best = improve(spans, worst, 1, 10**6)
    assert best.peak == best.bound == bound + 1


def test_offsets_are_aligned():
    spans = [Span(5, 0, 2), Span(3, 1, 3), Span(7, 2, 4), Span(16, 3, 5), Span(1, 0, 5)]
    plan = plan_offsets(spans, 16)
    assert all(offset % 16 == 0 for offset in plan.offsets)
    assert plan.peak == plan.bound == 48


def test_greedy_plans_hold_what_is_asked():
    """Each order gives a plan with the alignment, within the peak."""
    for seed in range(40):
        source = random.Random(seed)
        starts = [source.randrange(8) for _ in range(12)]
        spans = [Span(source.randint(1, 8), t, t + source.randint(1, 6)) for t in starts]
        for offsets, peak in greedy_plans(spans, 2):
            assert not misplaced(range(len(spans)), spans, offsets, peak)
            assert not any(offset % 2 for offset in offsets)


def test_requests_that_are_never_alive_need_nothing():
    """Requests have no bytes, or no time: the search must not wait for a plan without them."""
    spans = [Span(64, 0, 2), Span(100, 1, 1), Span(0, 0, 2), Span(64, 1, 3)]
    assert first_fit(spans, 64)[1] == 128
    plan = improve(spans, OffsetPlan((0, 0, 0, 64), 256, 128), 64, 1000)
    assert plan.peak == plan.bound == 128


def test_nothing_to_place():
    assert plan_offsets([], 16).peak == 0
    assert place_within([Span(0, 0, 3)], 0).offsets == (0,)


def test_stops_at_its_limit():
    spans, capacity = dense_instance(3)
    assert place_within(spans, capacity, nodes=1).outcome is SearchOutcome.STOPPED


@pytest.mark.needs("workbench")
@pytest.mark.parametrize("name", first_fast(1, "ABCDEF"))
def test_solves_the_minimalloc_instances(name: str):
    """All are solved at their capacity; the greedy orders do not solve them."""
    from ceras_ir.workbench.plan import read_requests

    path = INSTANCES / f"{name}.{CAPACITY}.csv"
    if not path.exists():
        pytest.skip("no instances beside the project")
    spans = [Span(r.size, r.lower, r.upper) for r in read_requests(str(path))]
    assert first_fit(spans, 1)[1] > CAPACITY
    found = place_within(spans, CAPACITY, seconds=60)
    assert found.outcome is SearchOutcome.FOUND
    assert not misplaced(range(len(spans)), spans, found.offsets, CAPACITY)
    assert found == place_within(spans, CAPACITY, seconds=60)


def test_the_validator_sees_every_kind_of_mistake():
    spans = [Span(4, 0, 2), Span(4, 1, 3), Span(4, 2, 4)]
    good = [0, 4, 0]
    assert not misplaced("abc", spans, good, 8)
    assert misplaced("abc", spans, [0, 3, 0], 8) == [
        "ids a and b share bytes while both are alive",
        "ids b and c share bytes while both are alive",
    ]
    assert misplaced("abc", spans, good, 7) == ["id b: bytes [4, 8) are not inside [0, 7)"]
    assert misplaced("abc", spans, [-1, 4, 0], 8) == ["id a: bytes [-1, 3) are not inside [0, 8)"]


def test_a_gap_that_is_not_searched_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ceras_ir.transforms.memory import offsets

    # There is a plan at the bound, and no order of first fit finds it.
    spans = [Span(2, 0, 1), Span(2, 0, 3), Span(3, 1, 4), Span(2, 0, 1)]
    monkeypatch.setattr(offsets, "has_compiler", lambda: False)
    offsets.warn_missing_search.cache_clear()
    for _ in range(2):
        plan = plan_offsets(spans, 1)
        assert plan.peak > plan.bound
    (line,) = capsys.readouterr().err.splitlines()
    assert "warning: no C++ compiler for the exact search" in line
