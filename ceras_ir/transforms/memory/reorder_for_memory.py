"""
The order of operations that needs the least memory, over all orders or greedily.

A search over the sets of operations that are done, the set whose order so far had the lowest
peak first; the first complete set is optimal. An operation that frees at least what it makes
and stays below the peak so far is taken at once: no order is better that has it later.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects.graph import ConstantOp
from ceras_ir.dialects.graph.attributes import viewed_operand
from ceras_ir.dialects.mem import ARENA
from ceras_ir.network.function import result_values
from ceras_ir.transforms.memory.liveness import BufferOptions, analyse, byte_size, steps
from ceras_ir.transforms.memory.slices import may_overwrite
from ceras_ir.transforms.pass_kinds import NetworkPass


@dataclass(frozen=True)
class Job:
    """An operation: buffers it reads and writes, and those it may write its result over."""

    reads: frozenset[int]
    writes: frozenset[int]
    replaces: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Problem:
    """Jobs in one valid order, and buffers; `given` are there before, `kept` until the end."""

    jobs: Sequence[Job]
    sizes: Sequence[int]
    given: frozenset[int] = frozenset()
    kept: frozenset[int] = frozenset()

    def users(self) -> list[int]:
        """For each buffer the set of jobs that touch it, as bits."""
        users = [0] * len(self.sizes)
        for number, job in enumerate(self.jobs):
            for buffer in job.reads | job.writes:
                users[buffer] |= 1 << number
        return users

    def needs(self) -> list[int]:
        """
        For each job the set of jobs that must be done before, as bits: all that write what it
        reads and stand before it, since a view of a buffer is made after the buffer.
        """
        result: list[int] = []
        writers: dict[int, int] = {}
        for number, job in enumerate(self.jobs):
            before = 0
            for buffer in job.reads:
                before |= writers.get(buffer, 0)
            result.append(before)
            for buffer in job.writes:
                writers[buffer] = writers.get(buffer, 0) | 1 << number
        return result


def _members(jobs: int) -> Iterator[int]:
    """The numbers of a set of jobs, from the least."""
    while jobs:
        least = jobs & -jobs
        yield least.bit_length() - 1
        jobs ^= least


class _Memory:
    """What jobs cost, given what is done. Sets are bits: a search keeps thousands of them."""

    def __init__(self, problem: Problem):
        self.problem = problem
        self.users, self.needs = problem.users(), problem.needs()
        self.followers: list[list[int]] = [[] for _ in problem.jobs]
        for number, needs in enumerate(self.needs):
            for needed in _members(needs):
                self.followers[needed].append(number)

    def first(self) -> int:
        """The jobs that need nothing."""
        return sum(1 << n for n, needs in enumerate(self.needs) if not needs)

    def ready(self, before: int, done: int, number: int) -> int:
        """The jobs that can be next when `done` are, `number` the last; `before` could be then."""
        freed = sum(1 << n for n in self.followers[number] if self.needs[n] & ~done == 0)
        return before & ~(1 << number) | freed

    def run(self, done: int, alive: int, number: int) -> tuple[int, int]:
        """Bytes while job `number` runs, and after it, if `alive` were there before."""
        problem, job = self.problem, self.problem.jobs[number]
        after = done | 1 << number
        made = sum(
            problem.sizes[b]
            for b in job.writes
            if b not in problem.given and self.users[b] & done == 0
        )
        dying = [
            b
            for b in job.reads | job.writes
            if b not in problem.kept and self.users[b] & ~after == 0
        ]
        # A result takes the place of one operand at most.
        reused = max(
            (problem.sizes[b] for b in dying if b in job.replaces and b not in job.writes),
            default=0,
        )
        return alive + made - reused, alive + made - sum(problem.sizes[b] for b in dying)


WIDTH = 2
"""Jobs looked at for each state, on average, before there are too many."""


def best_order(problem: Problem, most_states: int) -> list[int]:
    """Job numbers in an order of least peak; a greedy one if there are too many states."""
    memory = _Memory(problem)
    everything = (1 << len(problem.jobs)) - 1
    alive = sum(problem.sizes[b] for b in problem.given)
    # Peak so far, jobs left, set done, bytes alive; ties go to what is nearest the end.
    queue = [(alive, len(problem.jobs), 0, alive, memory.first())]
    came: dict[int, tuple[int, int]] = {}
    seen: set[int] = set()
    looked_at = 0
    while queue:
        peak, left, done, alive, ready = heapq.heappop(queue)
        if done == everything:
            return _path(came, done)
        if done in seen:
            continue
        seen.add(done)
        options: list[tuple[int, int, int]] = []
        for number in _members(ready):
            looked_at += 1
            option = (number, *memory.run(done, alive, number))
            if option[1] <= peak and option[2] <= alive:
                options = [option]  # Costs nothing: no other order is better.
                break
            options.append(option)
        if len(seen) > most_states or looked_at > WIDTH * most_states:
            return _greedy(memory, everything)
        for number, during, after in options:
            next_done = done | 1 << number
            if next_done in seen:
                continue
            if next_done not in came or max(peak, during) < came[next_done][1]:
                came[next_done] = number, max(peak, during)
                following = memory.ready(ready, next_done, number)
                entry = (max(peak, during), left - 1, next_done, after, following)
                heapq.heappush(queue, entry)
    raise AssertionError("the order that jobs are given in is one")


def _path(came: dict[int, tuple[int, int]], done: int) -> list[int]:
    order: list[int] = []
    while done:
        number, _ = came[done]
        order.append(number)
        done ^= 1 << number
    return order[::-1]


GREEDY = 64
"""Of how many jobs that could be next one is taken, the earliest in the order there is."""


def _greedy(memory: _Memory, everything: int) -> list[int]:
    """Always the job that leaves the least alive, then the one that needs the least."""
    order: list[int] = []
    done = 0
    alive = sum(memory.problem.sizes[b] for b in memory.problem.given)
    ready = memory.first()
    while done != everything:
        options = ((*memory.run(done, alive, n), n) for n in islice(_members(ready), GREEDY))
        _, alive, number = min(options, key=lambda o: (o[1], o[0], o[2]))
        order.append(number)
        done |= 1 << number
        ready = memory.ready(ready, done, number)
    return order


# Run operations in the order that needs the least memory.


@dataclass(frozen=True)
class ReorderForMemoryPass(BufferOptions, NetworkPass):
    """
    Reorder operations so that the most bytes alive at one time are fewest. The order there is stays
    unless the new one needs less. Changes no value: every operand is still computed before its
    users.
    """

    name = "reorder-for-memory"

    states: int = 20_000
    """
    The search is exact while it needs at most so many sets of finished operations, and greedy
    beyond.
    """

    def change(self, main: FuncOp) -> None:
        if ARENA in main.attributes:
            # Its blocks are right for the order they were made for.
            return
        before = steps(main)
        peak = analyse(main, include_io=self.io).lower_bound(self.alignment)
        order = best_order(problem_of(main, include_io=self.io), self.states)
        if order == sorted(order):
            return
        end = main.body.block.last_op
        assert end is not None
        for number in order:
            before[number].detach()
            main.body.block.insert_op_before(before[number], end)
        if analyse(main, include_io=self.io).lower_bound(self.alignment) >= peak:
            for operation in before:
                operation.detach()
                main.body.block.insert_op_before(operation, end)


def problem_of(main: FuncOp, *, include_io: bool) -> Problem:
    """The operations of `main` as jobs, and the memory of its values as buffers."""
    numbers: dict[SSAValue, int] = {}
    sizes: list[int] = []
    kept: set[int] = set()
    outside: set[SSAValue] = set()
    if not include_io:
        outside.update(main.body.block.args, result_values(main))

    def buffer(value: SSAValue) -> int:
        if value not in numbers:
            owner = value.owner
            source = viewed_operand(owner) if isinstance(owner, Operation) else None
            if source is not None and value not in outside:
                numbers[value] = buffer(source)
            else:
                numbers[value] = len(sizes)
                is_free = value in outside or isinstance(owner, ConstantOp)
                sizes.append(0 if is_free else byte_size(value))
        return numbers[value]

    jobs = [
        Job(
            frozenset(map(buffer, op.operands)),
            frozenset(map(buffer, op.results)),
            frozenset(buffer(v) for v in op.operands if may_overwrite(op, v)),
        )
        for op in steps(main)
    ]
    kept.update(buffer(value) for value in result_values(main))
    given = frozenset(map(buffer, main.body.block.args))
    return Problem(jobs, sizes, given, frozenset(kept))
