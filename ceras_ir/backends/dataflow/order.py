"""
In which order the rows of a stream come: in batches, of which every channel has all rows at once.

A convolution that computes three rows at once sends them channel by channel: three rows of the
first, three of the second. No row of a batch is complete before all of them are, so that whoever
waits for one must have room for the others.
"""

from bisect import bisect_right
from collections.abc import Mapping

from ceras_ir.backends.dataflow.blocks import Addition, Block, Convolution, MaxPool, Table
from ceras_ir.backends.dataflow.plan import PlannedConvolution
from ceras_ir.backends.dataflow.window import WindowBuffer

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
        case Addition() | Table():
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
