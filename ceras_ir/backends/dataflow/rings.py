"""
How many rows one operand of an addition may be ahead of the other.

Both come from one stream. While the first operand's way needs more of that stream, the second's
goes on making rows, and they must have a place: a ring. Where it is the second whose rows are
complete later, words of the first have a queue. With fewer places the circuit would stop. What is
needed follows from windows and from how many rows a block makes at once, not from times, so that
it holds however the ports stall. More is there for speed: while a convolution of the other way
computes a group of rows, as many come behind it.
"""

from ceras_ir.backends.dataflow.blocks import Block, Convolution, MaxPool, Source
from ceras_ir.backends.dataflow.extraction import Pipeline
from ceras_ir.backends.dataflow.order import Planned, batches, complete_with, largest
from ceras_ir.backends.dataflow.plan import Plan
from ceras_ir.backends.dataflow.window import ceiling


def with_rings(pipeline: Pipeline, planned: Planned) -> Plan:
    """The plan of these convolutions, with a place for all that waits for an addition."""
    both = [block for block in pipeline.blocks if len(block.inputs) > 1]
    delays = {block: _delay(block, pipeline, planned) for block in both}
    return Plan(
        planned,
        {block: _capacity(block, pipeline, planned) for block in both},
        {block: words for block, words in delays.items() if words},
    )


def _delay(block: Block, pipeline: Pipeline, planned: Planned) -> int:
    """Words of the first operand that come before the second lets the block read them."""
    first, second = block.inputs
    fork = _meeting(first, second, pipeline)
    step = planned[block].lanes.rows if isinstance(block, Convolution) else 1
    # Words leave a convolution when rows are complete, other blocks as words come.
    way = [b for b in pipeline.blocks if fork in b.line and b in first.line]
    whole = any(isinstance(b, Convolution) and b is not fork for b in way)
    most = 0
    for start in range(0, block.feature.rows, step):
        end = min(start + step, block.feature.rows)
        taken = _backward(second, end, fork, planned)
        if whole:
            taken = max((b.start for b in batches(fork, planned) if b.start < taken), default=0)
        # A sum reads no row before the second's; a convolution has read all that it needs.
        read = _needed(block, end)[0] if isinstance(block, Convolution) else start
        most = max(most, _forward(first, taken, fork, planned) - read)
    if not most:
        return 0
    rows = most + largest(first, planned) + _computed(second, fork, first.feature.rows, planned)
    return rows * first.feature.channels


def _capacity(block: Block, pipeline: Pipeline, planned: Planned) -> int:
    first, second = block.inputs
    fork = _meeting(first, second, pipeline)
    step = planned[block].lanes.rows if isinstance(block, Convolution) else 1
    most = 1
    for start in range(0, block.feature.rows, step):
        # What the first way takes from the fork until the block has read all it needs.
        end = min(start + step, block.feature.rows)
        rows = _needed(block, end)[0]
        taken = _backward(first, rows, fork, planned)
        ahead = _forward(second, taken, fork, planned)
        most = max(most, ahead - start)
    # A batch comes while one is read, so that neither way waits for the other in turn.
    batch = largest(second, planned)
    rows = max(most, batch) + max(step, batch)
    rows += _computed(first, fork, block.feature.rows, planned)
    return 1 << (rows - 1).bit_length()


def _computed(last: Block, fork: Block, rows: int, planned: Planned) -> int:
    """
    Rows that the convolutions behind `fork` up to `last` compute at a time, all together, where a
    frame has `rows`.
    """
    return sum(
        ceiling(planned[block].lanes.rows * rows, block.feature.rows)
        for block in last.line
        if isinstance(block, Convolution) and fork in block.line and block is not fork
    )


def _meeting(first: Block, second: Block, pipeline: Pipeline) -> Block:
    """The last block from which both operands come."""
    above = first.line & second.line
    order = [pipeline.source, *pipeline.blocks]
    return max(above, key=order.index)


def _needed(block: Block, rows: int) -> tuple[int, ...]:
    """Rows of each operand for the first `rows` rows of the result."""
    if isinstance(block, Convolution | MaxPool):
        last = rows - 1
        w = block.windows
        end = w.strides[0] * last + (w.kernel[0] - 1) * w.dilations[0] + 1 - w.before[0]
        return (max(0, min(block.input.rows, end)), rows)
    return (rows, rows)


def _backward(block: Block, rows: int, fork: Block, planned: Planned) -> int:
    """Rows of `fork` that must have been made for `rows` rows of `block`."""
    if block is fork or isinstance(block, Source):
        return complete_with(batches(block, planned), rows)
    needs = _needed(block, complete_with(batches(block, planned), rows))
    return max(
        _backward(operand, need, fork, planned)
        for operand, need in zip(block.inputs, needs, strict=False)
        if fork in operand.line
    )


def _forward(block: Block, taken: int, fork: Block, planned: Planned) -> int:
    """Rows of `block` that can be there when `fork` has made `taken`."""
    if block is fork:
        return taken
    low, high = 0, block.feature.rows
    while low < high:
        middle = (low + high + 1) // 2
        if _backward(block, middle, fork, planned) <= taken:
            low = middle
        else:
            high = middle - 1
    return low
