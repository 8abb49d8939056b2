"""
Plan the rows and filters that each convolution computes in parallel, and the sizes of ring buffers.

1. The pass `allot-lanes` stores lanes on operations as `#dataflow.lanes`, which can be edited.
2. The rows of a stream form batches. A convolution that computes three rows in parallel sends them
   channel by channel, so all rows of a batch are completed by the last channel. A consumer that
   waits for a row must store the entire batch.
3. `rings.py` plans the ring buffers and queues for operands of additions and concatenations.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import accumulate

from ceras_ir.backends.dataflow.blocks import (
    Block,
    Convolution,
    MaxPool,
    Repetition,
    Selection,
    Source,
)
from ceras_ir.backends.dataflow.storage import WindowBuffer, ceiling
from ceras_ir.backends.dataflow.weights import WeightEncoding, WeightMemory
from ceras_ir.dialects.quant import BYTE_BITS


@dataclass(frozen=True)
class BlockLanes:
    """
    The outputs that a layer computes in parallel: `rows` rows of `filters` filters. The columns of
    a row are divided into `parts` parts, which are computed in sequence; the columns of a part are
    computed in parallel.
    """

    rows: int = 1
    filters: int = 1
    encoding: WeightEncoding = WeightEncoding.DENSE
    slots: int = 2
    """
    The number of slots of the window buffer, each for some input rows; `min_slots` returns the
    minimum.
    """
    parts: int = 1
    in_tables: bool = False
    """Whether lookup tables multiply, instead of multipliers of the FPGA."""
    terms: int = 1
    """
    The adjacent channels that are multiplied in a cycle, a power of two. A lane adds their products
    at once. More than 1 require lookup tables that multiply, and weights with all zeros.
    """


class Pairs(Enum):
    """The products that a multiplier computes in a cycle."""

    NONE = 0
    COLUMNS = 1
    """Two lanes of a filter, with a common weight."""
    FILTERS = 2
    """Two filters with one lane each, with a common input."""


@dataclass(frozen=True, eq=False)
class PlannedConvolution:
    """A convolution with its lanes, and the sizes of buffers and memories that follow from them."""

    layer: Convolution
    lanes: BlockLanes
    paired: bool
    """Whether a multiplier of the chip can compute two products of int8."""

    @cached_property
    def buffer(self) -> WindowBuffer:
        lanes = self.lanes
        return WindowBuffer(self.layer, lanes.rows, lanes.slots, lanes.parts, lanes.terms)

    @cached_property
    def weights(self) -> WeightMemory:
        return WeightMemory(self.layer, self.lanes.filters, self.lanes.encoding, self.lanes.terms)

    @property
    def readers(self) -> int:
        """
        The number of copies of the window buffer. Dense weights need one; sparse weights need a
        copy per parallel filter, because the filters read different inputs in a cycle.
        """
        return self.lanes.filters if self.lanes.encoding.is_sparse else 1

    @property
    def decoding(self) -> int:
        """
        The cycles that decoding adds before the first weight: 1 for the output register of the
        memory of sparse weights, and 1 for delta encoding, which must sum distances.
        """
        return self.lanes.encoding.is_sparse + (self.lanes.encoding is WeightEncoding.DELTA)

    @property
    def is_by_row(self) -> bool:
        """Whether a group of output rows can start before the last row of its windows exists."""
        return self.lanes.encoding is WeightEncoding.BY_ROW

    @property
    def places(self) -> int:
        """The number of sums that a lane adds in turn: of the parts, and by rows of the filters."""
        return self.lanes.parts * (self.weights.blocks if self.is_by_row else 1)

    @property
    def pairs(self) -> "Pairs":
        """The products that a multiplier computes."""
        if not self.paired or self.layer.weight_bits > BYTE_BITS or self.lanes.in_tables:
            return Pairs.NONE
        # Sparse filters consume different inputs.
        if self.filter_lanes > 1 or self.lanes.encoding.is_sparse:
            return Pairs.COLUMNS
        return Pairs.FILTERS

    @property
    def filter_lanes(self) -> int:
        """The number of lanes of a filter."""
        return self.lanes.rows * self.buffer.part_columns

    @property
    def lane_count(self) -> int:
        """
        The number of sums to which the convolution adds in a cycle; each lane adds to one.
        """
        return self.lanes.filters * self.filter_lanes

    @property
    def products(self) -> int:
        """The number of products that the convolution computes per cycle."""
        return self.lane_count * self.lanes.terms

    @property
    def multipliers(self) -> int:
        """
        The number of multipliers of the convolution: one per product, or one per two products with
        a common factor if a multiplier of the FPGA can compute two.
        """
        match self.pairs:
            case Pairs.COLUMNS:
                return self.lanes.filters * ceiling(self.filter_lanes, 2)
            case Pairs.FILTERS:
                return ceiling(self.lane_count, 2)
            case Pairs.NONE:
                return self.lane_count

    @property
    def dsp(self) -> int:
        """The number of multipliers of the FPGA that the convolution uses."""
        return 0 if self.lanes.in_tables else self.multipliers


@dataclass(frozen=True, eq=False)
class PipelinePlan:
    """The lanes of the convolutions of a pipeline, and the sizes of its ring buffers and queues."""

    convolutions: Mapping[Block, PlannedConvolution]
    capacities: Mapping[Block, int]
    """The rows of the ring buffer that stores the second operand of a block: a power of two."""
    delays: Mapping[Block, int]
    """The words of the queue that stores the first operand of a block, if it arrives earlier."""

    def busy_share(self, cycles: int) -> float:
        """
        Return the share of nonzero products: the products with nonzero weights in a frame, divided
        by the products that all lanes together can compute in `cycles` cycles.
        """
        useful = products = 0
        for planned in self.convolutions.values():
            feature = planned.layer.feature
            useful += int(planned.layer.non_zeros.sum()) * feature.rows * feature.columns
            products += planned.products
        return useful / (products * cycles) if products else 0.0

    def ring_rows(self, block: Block) -> int:
        """
        Return the number of rows that the ring buffer for the second operand of `block` holds.
        """
        assert len(block.inputs) > 1
        return self.capacities[block]


Planned = Mapping[Block, PlannedConvolution]


def batches(block: Block, planned: Planned) -> list[range]:
    """
    Return the output rows of a frame of `block` in batches, in the order of the stream. The rows of
    a batch are sent together, channel by channel: `[range(0, 3), range(3, 6), ...]` for a
    convolution that computes 3 rows in parallel.
    """
    match block:
        case Convolution():
            rows, step = block.feature.rows, planned[block].lanes.rows
            return [range(start, min(start + step, rows)) for start in range(0, rows, step)]
        case MaxPool():
            counts = [0, *accumulate(completed_windows(block))]
            found = [
                range(counts[batch.start], counts[batch.stop])
                for batch in batches(block.inputs[0], planned)
            ]
            return [batch for batch in found if batch]
        case Repetition():
            factor = block.factors[0]
            found = batches(block.inputs[0], planned)
            return [range(factor * batch.start, factor * batch.stop) for batch in found]
        case Selection():
            start, rows = block.start.rows, range(block.feature.rows)
            found = batches(block.inputs[0], planned)
            moved = [rows[max(0, b.start - start) : max(0, b.stop - start)] for b in found]
            return [batch for batch in moved if batch]
        case Source():
            return [range(row, row + 1) for row in range(block.feature.rows)]
        case _:
            return batches(block.inputs[0], planned)


def completed_windows(block: MaxPool) -> list[int]:
    """
    Return a count for each input row: the number of output rows with windows that end in this row.
    """
    w, rows = block.windows, block.input.rows
    counts = [0] * rows
    for window in range(block.feature.rows):
        counts[min(rows - 1, w.strides[0] * window - w.before[0] + w.kernel[0] - 1)] += 1
    return counts


def max_batch_rows(block: Block, planned: Planned) -> int:
    """
    Return the number of output rows in the largest of the `batches` of `block`, which are sent
    together.
    """
    return max(map(len, batches(block, planned)))


def sent_rows(found: list[range], rows: int) -> int:
    """
    Return the number of rows that have been sent when the first `rows` rows are complete. It can be
    larger than `rows`, because the batches in `found` are sent as a unit: 3 for 2 rows in batches
    of 3.
    """
    return next((batch.stop for batch in found if batch.stop >= rows), rows)


def min_slots(buffer: WindowBuffer, source: list[range]) -> int:
    """
    Return the minimum number of slots of a window buffer with which no group of output rows waits
    forever. `source` has the batches in which the producer sends the input rows (`batches`).
    """
    w, slots = buffer.layer.windows, 1
    for group in range(buffer.groups):
        needed = buffer.needed_rows(group)
        inside = max(0, min(needed - w.before[0], buffer.layer.input.rows))
        sent = sent_rows(source, inside) + w.before[0]
        slots = max(slots, (max(needed, sent) - 1) // buffer.slot_rows - group + 1)
    return slots


def good_slots(buffer: WindowBuffer, source: list[range]) -> int:
    """
    Return the number of slots of a window buffer with which neither the producer nor the layer
    waits, if both need the same time per frame. `source` has the batches of the producer.

    The model assumes that batches are written evenly over the frame, and that groups of output rows
    are computed evenly, each when its input rows are complete.
    """
    top, height = buffer.layer.windows.before[0], buffer.layer.input.rows
    frames = 4
    # The begin and the end of each batch in frames, and the last slot, counted over all frames.
    written: list[tuple[float, float, int]] = []
    for frame in range(frames):
        for n, batch in enumerate(source):
            slot = frame * buffer.frame_slots + (top + batch.stop - 1) // buffer.slot_rows
            begin, end = (frame + (n + i) / len(source) for i in (0, 1))
            written.append((begin, end, slot))
    # The time at which each group frees slots.
    freed: list[tuple[float, int]] = []
    now = 0.0
    for frame in range(frames):
        for group in range(buffer.groups):
            inside = max(0, min(buffer.needed_rows(group) - top, height))
            n = next((n for n, batch in enumerate(source) if batch.stop >= inside), 0)
            complete = written[frame * len(source) + n][1] if inside else 0.0
            now = max(now, complete) + 1 / buffer.groups
            done = group + 1 if group < buffer.groups - 1 else buffer.frame_slots
            freed.append((now, frame * buffer.frame_slots + done))
    # `freed` is sorted by time and by slots.
    times = [at for at, _ in freed]
    slots = min_slots(buffer, source)
    for begin, _, slot in written[2 * len(source) :]:
        before = bisect_right(times, begin + 1e-9)
        free = freed[before - 1][1] if before else 0
        slots = max(slots, slot - free + 1)
    return slots
