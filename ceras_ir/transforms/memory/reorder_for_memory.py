"""
Find the order of operations with the lowest peak of memory: the pass `reorder-for-memory`.

The search visits sets of completed operations, the set with the lowest peak so far first, so that
the first complete set is optimal. An operation that allocates no more than it frees and does not
exceed the peak so far is scheduled immediately: no order is better that schedules it later.
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
    """
    An operation in the search for an order. `reads`, `writes` and `replaces` are the numbers of the
    buffers that it reads, that it writes, and that it can overwrite.
    """

    reads: frozenset[int]
    writes: frozenset[int]
    replaces: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Problem:
    """
    The search for the order of operations with the lowest peak of memory: the operations (jobs) in
    a valid order, and the size in bytes of each buffer. The buffers `given` exist before the first
    job, `kept` remain until the end.
    """

    jobs: Sequence[Job]
    sizes: Sequence[int]
    given: frozenset[int] = frozenset()
    kept: frozenset[int] = frozenset()

    def users(self) -> list[int]:
        """
        Return, for each buffer, the set of jobs that read or write it. Bit n of an integer
        represents job n.
        """
        users = [0] * len(self.sizes)
        for number, job in enumerate(self.jobs):
            for buffer in job.reads | job.writes:
                users[buffer] |= 1 << number
        return users

    def needs(self) -> list[int]:
        """
        Return, for each job, the set of jobs that must run before it; bit n of an integer
        represents job n. These are the earlier jobs that write a buffer which the job reads.
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
    while jobs:
        lowest = jobs & -jobs
        yield lowest.bit_length() - 1
        jobs ^= lowest


class _JobMemory:
    """
    Computes the bytes that are live after a set of jobs is complete. Bit n of an integer represents
    job n in a set, because a search stores thousands of sets.
    """

    def __init__(self, problem: Problem):
        self.problem = problem
        self.users, self.needs = problem.users(), problem.needs()
        self.followers: list[list[int]] = [[] for _ in problem.jobs]
        for number, needs in enumerate(self.needs):
            for needed in _members(needs):
                self.followers[needed].append(number)

    def first(self) -> int:
        return sum(1 << n for n, needs in enumerate(self.needs) if not needs)

    def ready(self, before: int, done: int, number: int) -> int:
        # The jobs that can follow after job `number`, of which `before` could already run.
        freed = sum(1 << n for n in self.followers[number] if self.needs[n] & ~done == 0)
        return before & ~(1 << number) | freed

    def run(self, done: int, alive: int, number: int) -> tuple[int, int]:
        # The live bytes during job `number`, and after it.
        problem, job = self.problem, self.problem.jobs[number]
        after = done | 1 << number
        allocated = sum(
            problem.sizes[b]
            for b in job.writes
            if b not in problem.given and self.users[b] & done == 0
        )
        dying = [
            b
            for b in job.reads | job.writes
            if b not in problem.kept and self.users[b] & ~after == 0
        ]
        # A result overwrites at most a single operand.
        reused = max(
            (problem.sizes[b] for b in dying if b in job.replaces and b not in job.writes),
            default=0,
        )
        return alive + allocated - reused, alive + allocated - sum(problem.sizes[b] for b in dying)


MAX_OPTIONS_PER_STATE = 2
"""The number of jobs tried for each state, on average, before the search stops."""


def best_order(problem: Problem, max_states: int) -> list[int]:
    """
    Return the order of jobs (as indices) with the lowest peak of memory. If the search exceeds
    `max_states` sets of completed jobs, return a greedy order instead.
    """
    memory = _JobMemory(problem)
    everything = (1 << len(problem.jobs)) - 1
    alive = sum(problem.sizes[b] for b in problem.given)
    # Peak so far, remaining jobs, completed set, live bytes; ties prefer fewer remaining jobs.
    queue = [(alive, len(problem.jobs), 0, alive, memory.first())]
    last: dict[int, tuple[int, int]] = {}
    visited: set[int] = set()
    tried = 0
    while queue:
        peak, left, done, alive, ready = heapq.heappop(queue)
        if done == everything:
            return _path(last, done)
        if done in visited:
            continue
        visited.add(done)
        options: list[tuple[int, int, int]] = []
        for number in _members(ready):
            tried += 1
            option = (number, *memory.run(done, alive, number))
            if option[1] <= peak and option[2] <= alive:
                options = [option]  # No cost: no other order is better.
                break
            options.append(option)
        if len(visited) > max_states or tried > MAX_OPTIONS_PER_STATE * max_states:
            return _greedy(memory, everything)
        for number, during, after in options:
            next_done = done | 1 << number
            if next_done in visited:
                continue
            if next_done not in last or max(peak, during) < last[next_done][1]:
                last[next_done] = number, max(peak, during)
                following = memory.ready(ready, next_done, number)
                entry = (max(peak, during), left - 1, next_done, after, following)
                heapq.heappush(queue, entry)
    raise AssertionError("the given order is valid")


def _path(last: dict[int, tuple[int, int]], done: int) -> list[int]:
    order: list[int] = []
    while done:
        number, _ = last[done]
        order.append(number)
        done ^= 1 << number
    return order[::-1]


MAX_GREEDY_OPTIONS = 64
"""Jobs among which a greedy step chooses, the earliest in the present order."""


def _greedy(memory: _JobMemory, everything: int) -> list[int]:
    # Choose the job with the fewest live bytes after it, then the fewest during it.
    order: list[int] = []
    done = 0
    alive = sum(memory.problem.sizes[b] for b in memory.problem.given)
    ready = memory.first()
    while done != everything:
        options = (
            (*memory.run(done, alive, n), n) for n in islice(_members(ready), MAX_GREEDY_OPTIONS)
        )
        _, alive, number = min(options, key=lambda o: (o[1], o[0], o[2]))
        order.append(number)
        done |= 1 << number
        ready = memory.ready(ready, done, number)
    return order


@dataclass(frozen=True)
class ReorderForMemoryPass(BufferOptions, NetworkPass):
    """
    Reorder operations to reduce the peak of live bytes.

    The present order is kept unless the new order needs less. No value changes: each operand is
    still computed before the consumers.

    Before:

        %a = graph.concat %x, %x {axis = 0} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
        %b = graph.concat %z, %z {axis = 0} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
        %p = graph.reduce sum %a {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<1xf32>
        %q = graph.reduce sum %b {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<1xf32>
        %y = graph.binary add %p, %q : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>

    After:

        %a = graph.concat %x, %x {axis = 0} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
        %p = graph.reduce sum %a {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<1xf32>
        %b = graph.concat %z, %z {axis = 0} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
        %q = graph.reduce sum %b {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<1xf32>
        %y = graph.binary add %p, %q : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    """

    name = "reorder-for-memory"

    states: int = 20_000
    """
    The largest number of sets of completed operations of the exact search; beyond it the order is
    greedy.
    """

    def change(self, main: FuncOp) -> None:
        if ARENA in main.attributes:
            # The blocks are only correct for the present order.
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
    """
    Return the search problem for `main`: the operations as jobs, and the memory of the values as
    buffers. Without `include_io`, graph inputs and outputs have a size of 0, because they are in
    the caller's memory.
    """
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
