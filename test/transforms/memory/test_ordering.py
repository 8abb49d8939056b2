"""Compare the order of the lowest peak with all orders of small random graphs."""

import random
import time
import tracemalloc
from itertools import permutations

import pytest
from slow_cases import first_fast

from ceras_ir.transforms.memory.reorder_for_memory import Job, Problem, best_order


def peak(problem: Problem, order: tuple[int, ...] | list[int]) -> int | None:
    """Return the peak of an order, or `None` if it is invalid."""
    worst = 0
    there = set(problem.given)
    for position, number in enumerate(order):
        job = problem.jobs[number]
        if not job.reads <= there:
            return None
        later = [problem.jobs[n] for n in order[position + 1 :]]
        needed = set(problem.kept).union(*(j.reads | j.writes for j in later))
        dying = job.reads - needed
        best = max((problem.sizes[b] for b in dying & job.replaces), default=0)
        held = sum(problem.sizes[b] for b in there | job.writes)
        worst = max(worst, held - best)
        there = (there | job.writes) & (needed | problem.kept)
    return worst


def graph(seed: int) -> Problem:
    source = random.Random(seed)
    count = source.randint(3, 7)
    sizes = [source.randint(1, 20) for _ in range(count + 1)]
    jobs: list[Job] = []
    for i in range(1, count + 1):
        reads = frozenset(source.sample(range(i), min(i, source.randint(1, 2))))
        replaces = frozenset(b for b in reads if sizes[b] == sizes[i] or source.random() < 0.2)
        replaces = frozenset(b for b in replaces if sizes[b] <= sizes[i])
        jobs.append(Job(reads, frozenset({i}), replaces))
    read = {b for job in jobs for b in job.reads}
    kept = frozenset(b for b in range(1, count + 1) if b not in read)
    return Problem(jobs, sizes, frozenset({0}), kept)


@pytest.mark.parametrize("seed", first_fast(50, range(150)))
def test_no_order_needs_less(seed: int):
    problem = graph(seed)
    peaks = [peak(problem, order) for order in permutations(range(len(problem.jobs)))]
    found = best_order(problem, 10**6)
    assert sorted(found) == list(range(len(problem.jobs)))
    assert peak(problem, found) == min(p for p in peaks if p is not None)
    assert peak(problem, best_order(problem, 0)) is not None


def test_many_branches_take_bounded_work():
    # Each of 400 slices of an input is needed at the end: any order is as good as any other.
    branches = range(400)
    jobs = [Job(frozenset({0}), frozenset({i + 1})) for i in branches]
    jobs.append(Job(frozenset(i + 1 for i in branches), frozenset({401})))
    problem = Problem(jobs, [400, *(1 for _ in branches), 400], frozenset({0}))
    start = time.process_time()
    order = best_order(problem, 2_000)
    assert time.process_time() - start < 10
    assert sorted(order) == list(range(401)) and order[-1] == 400


def test_a_view_is_made_before_it_is_read():
    # Job 1 computes a view of buffer 1, which job 2 uses; to do that first would free buffer 3.
    jobs = [
        Job(frozenset({0}), frozenset({1})),
        Job(frozenset({1}), frozenset({1})),
        Job(frozenset({1, 3}), frozenset({2})),
    ]
    problem = Problem(jobs, [8, 8, 8, 1000], frozenset({0, 3}), frozenset({2}))
    assert best_order(problem, 0) == best_order(problem, 10**6) == [0, 1, 2]


@pytest.mark.slow
def test_a_wide_network_takes_no_memory_for_each_pair_of_state_and_job() -> None:
    """A buffer has 300 consumers, and a search visits hundreds of sets of these."""
    count = 300
    branches = [Job(frozenset({0}), frozenset({n})) for n in range(1, count + 1)]
    joined = Job(frozenset(range(1, count + 1)), frozenset({count + 1}))
    problem = Problem([*branches, joined], [4] * (count + 2), frozenset({0}))
    tracemalloc.start()
    order = best_order(problem, 500)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sorted(order) == list(range(count + 1))
    assert peak < 1 << 20
