"""
Plan the ring buffers and queues for the operands of additions and concatenations.

The operands originate from a single stream, which a fork copies to two paths. The paths need a
different number of its rows for a result. While the first operand waits for words of this stream,
the second path continues to produce rows; a ring buffer stores them. If the second operand is the
later one, a queue stores words of the first operand. With less storage the circuit would stop. The
minimum follows from windows and batches, not from times, so it holds for all stalls of the ports.
Additional storage increases speed: it holds the rows that convolutions of the other path compute in
parallel.

The fork is the last block of which both operands are results. An earlier fork also counts if a path
from it to an operand avoids that block.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ceras_ir.backends.dataflow.blocks import (
    Block,
    Convolution,
    MaxPool,
    Pipeline,
    Repetition,
    Selection,
    Source,
)
from ceras_ir.backends.dataflow.plan import (
    PipelinePlan,
    Planned,
    batches,
    max_batch_rows,
    sent_rows,
)
from ceras_ir.backends.dataflow.storage import ceiling


def with_rings(pipeline: Pipeline, planned: Planned) -> PipelinePlan:
    """
    Return the plan of a pipeline: the convolutions `planned`, and the sizes of ring buffers and
    queues that prevent a deadlock at additions, concatenations and residual connections.
    """
    both = [block for block in pipeline.blocks if len(block.inputs) > 1]
    capacities: dict[Block, int] = {}
    delays: dict[Block, int] = {}
    for block in both:
        paths = [_Paths(block, fork, planned) for fork in _forks(block, pipeline)]
        capacities[block] = max(each.capacity() for each in paths)
        if words := max(each.delay() for each in paths):
            delays[block] = words
    return PipelinePlan(planned, capacities, delays)


def _forks(block: Block, pipeline: Pipeline) -> Iterator[Block]:
    first, second = block.inputs
    order = [pipeline.source, *pipeline.blocks]
    common = first.ancestors & second.ancestors
    last = max(common, key=order.index)
    yield last
    found, waiting = set[Block](), [first, second]
    while waiting:
        if (passed := waiting.pop()) is not last and passed not in found:
            found.add(passed)
            waiting += passed.inputs
    yield from sorted(found & common, key=order.index)


@dataclass(frozen=True, eq=False)
class _Paths:
    """The paths from `fork` to the two operands of `block`."""

    block: Block
    fork: Block
    planned: Planned
    known: dict[tuple[Block, int], int] = field(default_factory=dict[tuple[Block, int], int])

    @property
    def step(self) -> int:
        """The rows that the block computes together."""
        block = self.block
        return self.planned[block].lanes.rows if isinstance(block, Convolution) else 1

    def delay(self) -> int:
        """Return the words of the first operand that arrive before the second can be read."""
        block, (first, second) = self.block, self.block.inputs
        # A convolution sends words when rows are complete; other blocks send them on arrival.
        path = [b for b in first.ancestors if self.fork in b.ancestors and b is not self.fork]
        has_convolution = any(isinstance(b, Convolution) for b in path)
        waiting = 0
        for start in range(0, block.feature.rows, self.step):
            end = min(start + self.step, block.feature.rows)
            taken = self.needed(second, end)
            if has_convolution:
                starts = (b.start for b in batches(self.fork, self.planned) if b.start < taken)
                taken = max(starts, default=0)
            # An addition reads no row before that of the second operand; a convolution has read all
            # rows that it needs.
            read = _operand_rows(block, end)[0] if isinstance(block, Convolution) else start
            waiting = max(waiting, self.possible(first, taken) - read)
        if not waiting:
            return 0
        rows = waiting + max_batch_rows(first, self.planned)
        rows += self.in_progress(second, first.feature.rows)
        return rows * first.feature.channels

    def capacity(self) -> int:
        """Return the rows of the ring buffer for the second operand."""
        block, (first, second) = self.block, self.block.inputs
        waiting = 1
        for start in range(0, block.feature.rows, self.step):
            # The rows of the fork that the path of the first operand needs.
            rows = _operand_rows(block, min(start + self.step, block.feature.rows))[0]
            waiting = max(waiting, self.possible(second, self.needed(first, rows)) - start)
        # A batch is written while another is read, so that the paths do not wait for each other.
        batch = max_batch_rows(second, self.planned)
        rows = max(waiting, batch) + max(self.step, batch)
        rows += self.in_progress(first, block.feature.rows)
        return 1 << (rows - 1).bit_length()

    def in_progress(self, last: Block, rows: int) -> int:
        """
        Return the sum of the rows that the convolutions between the fork and `last` compute in
        parallel, scaled to frames of `rows` rows.
        """
        return sum(
            ceiling(self.planned[block].lanes.rows * rows, block.feature.rows)
            for block in last.ancestors
            if isinstance(block, Convolution)
            and self.fork in block.ancestors
            and block is not self.fork
        )

    def needed(self, block: Block, rows: int) -> int:
        """Return the rows of the fork that are needed for `rows` rows of `block`."""
        rows = sent_rows(batches(block, self.planned), rows)
        if block is self.fork or isinstance(block, Source):
            return rows
        if (block, rows) not in self.known:
            self.known[block, rows] = max(
                self.needed(operand, need)
                for operand, need in zip(block.inputs, _operand_rows(block, rows), strict=False)
                if self.fork in operand.ancestors
            )
        return self.known[block, rows]

    def possible(self, block: Block, taken: int) -> int:
        """Return the rows of `block` that are possible if the fork has sent `taken` rows."""
        if block is self.fork:
            return taken
        low, high = 0, block.feature.rows
        while low < high:
            middle = (low + high + 1) // 2
            if self.needed(block, middle) <= taken:
                low = middle
            else:
                high = middle - 1
        return low


def _operand_rows(block: Block, rows: int) -> tuple[int, ...]:
    # The rows of each operand for the first `rows` rows of the result.
    match block:
        case Convolution() | MaxPool():
            w = block.windows
            end = w.strides[0] * (rows - 1) + w.reach[0] + 1 - w.before[0]
            return (max(0, min(block.input.rows, end)), rows)
        case Repetition():
            return (ceiling(rows, block.factors[0]),)
        case Selection():
            return (rows + block.start.rows,)
        case _:
            return (rows, rows)
