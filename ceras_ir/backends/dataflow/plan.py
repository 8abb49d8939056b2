"""
A plan: the rows and filters that each convolution computes at once, the order of rows, and rings.

1. The pass `allot-lanes` creates lanes and stores them on operations as `#dataflow.lanes`, where
   they can be read and changed.
2. Rows of a stream come in batches: a convolution that computes three rows at once sends them
   channel by channel, so no row of a batch is complete before all of them are. A consumer that
   waits for a row must have room for the others.
3. The operands of an addition come from a single stream. While the path of the first operand needs
   more of that stream, the second path continues to produce rows, which a ring stores. If the rows
   of the second operand are complete later, a queue stores words of the first. With fewer places
   the circuit would stop. The minimum follows from windows and batches, not from times, so that it
   holds however the ports stall. More is there for speed: while a convolution of the other path
   computes a group of rows, as many follow.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ceras_ir.backends.dataflow.blocks import (
    Addition,
    Block,
    Convolution,
    FunctionTable,
    MaxPool,
    Pipeline,
    Source,
)
from ceras_ir.backends.dataflow.storage import WeightEncoding, WeightMemory, WindowBuffer, ceiling


@dataclass(frozen=True)
class BlockLanes:
    """
    What is computed at once of a layer: `rows` rows for `filters` filters, of all columns, or of
    one of `parts` parts after the other.
    """

    rows: int = 1
    filters: int = 1
    encoding: WeightEncoding = WeightEncoding.DENSE
    slots: int = 2
    """Slots of the window buffer; see `least_slots` for the minimum."""
    parts: int = 1


@dataclass(frozen=True, eq=False)
class PlannedConvolution:
    """A convolution with its lanes: the sizes of all that it is made of."""

    layer: Convolution
    lanes: BlockLanes
    paired: bool
    """Whether a multiplier may make two products of int8."""

    @cached_property
    def buffer(self) -> WindowBuffer:
        return WindowBuffer(self.layer, self.lanes.rows, self.lanes.slots, self.lanes.parts)

    @cached_property
    def weights(self) -> WeightMemory:
        return WeightMemory(self.layer, self.lanes.filters, self.lanes.encoding)

    @property
    def readers(self) -> int:
        """Copies of the window buffer: filters with indices of their own read each its own."""
        return self.lanes.filters if self.lanes.encoding.is_sparse else 1

    @property
    def decoding(self) -> int:
        """Cycles from a word of the weight memory to what it means: a sum behind the last."""
        return int(self.lanes.encoding is WeightEncoding.DELTA)

    @property
    def is_paired(self) -> bool:
        return self.paired and self.layer.weight_bits <= 8

    @property
    def lane_count(self) -> int:
        """Products of a cycle."""
        return self.lanes.filters * self.lanes.rows * self.buffer.part_columns

    @property
    def multipliers(self) -> int:
        """Those of the chip; a product with more bits than 18 has several."""
        per_filter = self.lanes.rows * self.buffer.part_columns
        return self.lanes.filters * (-(-per_filter // 2) if self.is_paired else per_filter)


@dataclass(frozen=True, eq=False)
class PipelinePlan:
    """What was decided for the blocks of a pipeline."""

    convolutions: Mapping[Block, PlannedConvolution]
    capacities: Mapping[Block, int]
    """Rows of the ring in which the second operand of an addition waits: a power of two."""
    delays: Mapping[Block, int]
    """Words of the queue in which the first waits, where it comes earlier."""

    def busy_share(self, cycles: int) -> float:
        """Of all lanes' cycles, where a frame takes so many, those that multiply by no zero."""
        useful = lanes = 0
        for planned in self.convolutions.values():
            feature = planned.layer.feature
            useful += int(planned.layer.non_zeros.sum()) * feature.rows * feature.columns
            lanes += planned.lane_count
        return useful / (lanes * cycles) if lanes else 0.0

    def second(self, block: Block) -> int:
        """Capacity for the second operand of `block`."""
        assert isinstance(block, Addition | Convolution) and len(block.inputs) > 1
        return self.capacities[block]


Planned = Mapping[Block, PlannedConvolution]


def batches(block: Block, planned: Planned) -> list[range]:
    """The rows of a frame of `block`, batch by batch."""
    match block:
        case Convolution():
            rows, step = block.feature.rows, planned[block].lanes.rows
            return [range(start, min(start + step, rows)) for start in range(0, rows, step)]
        case MaxPool():
            ends = ends_of_windows(block)
            counts = [sum(ends[:row]) for row in range(len(ends) + 1)]
            found = [
                range(counts[batch.start], counts[batch.stop])
                for batch in batches(block.inputs[0], planned)
            ]
            return [batch for batch in found if batch]
        case Addition() | FunctionTable():
            return batches(block.inputs[0], planned)
        case _:
            return [range(row, row + 1) for row in range(block.feature.rows)]


def ends_of_windows(block: MaxPool) -> list[int]:
    """How many windows end with each row of the input."""
    w, rows = block.windows, block.input.rows
    ends = [0] * rows
    for window in range(block.feature.rows):
        ends[min(rows - 1, w.strides[0] * window - w.before[0] + w.kernel[0] - 1)] += 1
    return ends


def largest(block: Block, planned: Planned) -> int:
    """Rows of the largest batch."""
    return max(map(len, batches(block, planned)))


def complete_with(found: list[range], rows: int) -> int:
    """Rows that have been sent when the first `rows` are complete."""
    return next((batch.stop for batch in found if batch.stop >= rows), rows)


def least_slots(buffer: WindowBuffer, source: list[range]) -> int:
    """Slots with which every group of rows can become complete."""
    w, slots = buffer.layer.windows, 1
    for group in range(buffer.groups):
        needed = min(buffer.last_rows, buffer.first_rows + group * buffer.slot_rows)
        inside = max(0, min(needed - w.before[0], buffer.layer.input.rows))
        sent = complete_with(source, inside) + w.before[0]
        slots = max(slots, (max(needed, sent) - 1) // buffer.slot_rows - group + 1)
    return slots


def good_slots(buffer: WindowBuffer, source: list[range]) -> int:
    """
    Slots with which neither side waits where both take as long for a frame: batches are written
    evenly over the frame, groups of rows are computed evenly, each once its rows are there.
    """
    top, height = buffer.layer.windows.before[0], buffer.layer.input.rows
    frames = 4
    # When each batch begins and ends, in frames; rows are counted over all frames.
    written: list[tuple[float, float, int]] = []
    for frame in range(frames):
        for n, batch in enumerate(source):
            slot = frame * buffer.frame_slots + (top + batch.stop - 1) // buffer.slot_rows
            begin, end = (frame + (n + i) / len(source) for i in (0, 1))
            written.append((begin, end, slot))
    # When the slots of each group are free.
    freed: list[tuple[float, int]] = []
    now = 0.0
    for frame in range(frames):
        for group in range(buffer.groups):
            needed = min(buffer.last_rows, buffer.first_rows + group * buffer.slot_rows)
            inside = max(0, min(needed - top, height))
            n = next((n for n, batch in enumerate(source) if batch.stop >= inside), 0)
            there = written[frame * len(source) + n][1] if inside else 0.0
            now = max(now, there) + 1 / buffer.groups
            done = group + 1 if group < buffer.groups - 1 else buffer.frame_slots
            freed.append((now, frame * buffer.frame_slots + done))
    # Later groups free more.
    times = [at for at, _ in freed]
    most = least_slots(buffer, source)
    for begin, _, slot in written[2 * len(source) :]:
        before = bisect_right(times, begin + 1e-9)
        gone = freed[before - 1][1] if before else 0
        most = max(most, slot - gone + 1)
    return most


def with_rings(pipeline: Pipeline, planned: Planned) -> PipelinePlan:
    """The plan of these convolutions, with a place for all that waits for an addition."""
    both = [block for block in pipeline.blocks if len(block.inputs) > 1]
    delays = {block: _delay(block, pipeline, planned) for block in both}
    return PipelinePlan(
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
