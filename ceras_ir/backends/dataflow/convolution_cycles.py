"""
Model the cycles of a convolution: the window buffer, the sequencer of weights, and the epilogue.

`lane_cycles` is the lower bound of a convolution that never waits, which is used to choose lanes.
`ConvolutionModel` is the exact model for `cycles.py`.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from ceras_ir.backends.dataflow.blocks import (
    Block,
    Concatenation,
    Convolution,
    MaxPool,
    Repetition,
    Selection,
    Source,
)
from ceras_ir.backends.dataflow.plan import (
    PipelinePlan,
    PlannedConvolution,
    batches,
    completed_windows,
)
from ceras_ir.backends.dataflow.processes import (
    Engine,
    Events,
    Link,
    Next,
    Process,
    Receive,
    Registers,
    Send,
)

DRAIN = 7  # cycles from the last weight of a filter to the first word of sums
RESTART = 4  # cycles from the last weight for a group of rows to the first weight for the next
FETCH = 3  # cycles from the last row that a group needs to the first weight: go, running, fetched
BY_ROW_FETCH = 1  # the same if weights are in the order of rows: the first weight waits
COUNTED = 2  # cycles from the last weight for a group until the rows of the next are counted


def lane_cycles(planned: PlannedConvolution) -> int:
    """
    Return the cycles per frame of a convolution that never waits for other blocks: the larger of
    the cycles to compute with the given lanes and the cycles to write the input to the window
    buffer.
    """
    feature, lanes, groups = planned.layer.feature, planned.lanes, planned.buffer.groups
    buffer = planned.buffer
    writing = buffer.padded_rows * planned.layer.input.channels * buffer.phases
    last = feature.rows - (groups - 1) * lanes.rows
    if groups == 1:
        return max(writing, group_cycles(planned, last, last))
    full = group_cycles(planned, lanes.rows, lanes.rows)
    first = group_cycles(planned, lanes.rows, last)
    computing = first + (groups - 2) * full + group_cycles(planned, last, lanes.rows)
    return max(writing, computing)


def turns(planned: PlannedConvolution) -> tuple[int, list[int]]:
    """
    Return the words of the weight memory in two parts: those that are read before a filter can end,
    and those at the end of each block of filters. The first are the rows of the window before the
    last, if weights are in their order; 0 otherwise.
    """
    lengths = planned.weights.lengths()
    if not planned.is_by_row:
        return 0, lengths
    rows = planned.layer.windows.kernel[0]
    last = [length // rows for length in lengths]
    return sum(lengths) - sum(last), last


def group_cycles(planned: PlannedConvolution, rows: int, before: int) -> int:
    """
    Return the cycles of a group of `rows` output rows after a group of `before` rows: the cycles of
    the weights, or of the words of the sums if they take longer.
    """
    channels, lanes, parts = planned.layer.feature.channels, planned.lanes, planned.lanes.parts
    early, lengths = turns(planned)
    total = early * parts
    previous = channels - (len(lengths) - 1) * lanes.filters
    for n, length in enumerate(lengths):
        draining = previous * (rows if n else before) * parts + DRAIN + parts - 1
        previous = min(lanes.filters, channels - n * lanes.filters)
        total += max(length * parts + (0 if n else RESTART + planned.decoding - 1), draining)
    return total


@dataclass(frozen=True)
class Word:
    """A word of a stream."""

    number: int
    """The index of the row to which the word belongs."""
    channel: int
    channels: int
    """The number of channels of the row."""

    @property
    def is_last(self) -> bool:
        return self.channel == self.channels - 1


def row_order(block: Block, plan: PipelinePlan) -> list[Word]:
    """Return the words that `block` sends for a frame, in their order."""
    count = block.feature.channels
    if isinstance(block, Convolution | Source):
        return [
            Word(row, channel, count)
            for batch in batches(block, plan.convolutions)
            for channel in range(count)
            for row in batch
        ]
    found: list[Word] = []
    ends = [0, *accumulate(completed_windows(block))] if isinstance(block, MaxPool) else []
    for word in row_order(block.inputs[0], plan):
        row, channel, rows = word.number, word.channel, range(word.number, word.number + 1)
        match block:
            case MaxPool():
                rows = range(ends[row], ends[row + 1])
            case Repetition():
                rows = range(row * block.factors[0], (row + 1) * block.factors[0])
            case Selection():
                row, channel = row - block.start.rows, channel - block.start.channels
                if row not in range(block.feature.rows) or channel not in range(count):
                    continue
                rows = range(row, row + 1)
            case Concatenation():
                second, first = block.inputs[1].feature.channels, block.input.channels
                if block.second_is_lower and channel == 0:
                    found += [Word(row, c, count) for c in range(second)]
                channel += second if block.second_is_lower else 0
                found.append(Word(row, channel, count))
                if word.is_last and not block.second_is_lower:
                    found += [Word(row, first + c, count) for c in range(second)]
                continue
            case _:
                pass
        found += [Word(row, channel, count) for row in rows]
    return found


def skid_buffer(link: Link, out: Link) -> Process:
    """Pass words on in the cycle in which they arrive, and hold a word that is not taken."""
    left = -1
    while True:
        left = yield Send([out], (yield Receive(link, left + 1)))


@dataclass(eq=False)
class ConvolutionModel:
    """The processes of a convolution. `order` has the words of the input."""

    engine: Engine
    planned: PlannedConvolution
    order: Sequence[Word]
    written: Events = field(default_factory=Events)
    """An event per padded row that is complete in the window buffer."""
    channels: deque[list[int]] = field(default_factory=deque[list[int]])
    """
    For each of these rows, the cycles in which the channels were complete while the row was the
    next to be complete.
    """
    freed: Events = field(default_factory=Events)
    """An event per slot of the window buffer that is no longer needed."""
    sums: Events = field(default_factory=Events)
    """An event per block of filters whose sums are complete."""
    done: Events = field(default_factory=Events)
    """An event per block of filters whose sums have left."""

    def start(self, link: Link, out: Link, rows: Events | None, rows_freed: Events) -> None:
        """
        Start the processes. `rows` and `rows_freed` count the rows of the residual that are stored
        and that are no longer needed.
        """
        sent = Link()
        self.engine.start(self._window_buffer(link))
        self.engine.start(self._sequencer())
        self.engine.start(self._epilogue(sent, rows, rows_freed))
        self.engine.start(skid_buffer(sent, out))

    def _window_buffer(self, link: Link) -> Process:
        buffer, layer = self.planned.buffer, self.planned.layer
        top, rows, each = layer.windows.before[0], layer.input.rows, buffer.phases
        ready, first_slot, room = 0, 0, buffer.slots
        while True:
            complete, times = 0, list[int]()
            below = range(top + rows, buffer.padded_rows)
            for row in (*range(top), None, *below):
                if row is None:
                    for word in self.order:
                        slot = first_slot + (top + word.number) // buffer.slot_rows
                        while slot >= room:
                            ready = max(ready, (yield Next(self.freed)))
                            room += 1
                        ready = (yield Receive(link, ready, each - 1)) + 1
                        if top + word.number == complete:
                            times.append(ready)
                        if word.is_last:
                            self.channels.append(times)
                            self.engine.post(self.written, ready)
                            complete, times = complete + 1, []
                    continue
                while first_slot + row // buffer.slot_rows >= room:
                    ready = max(ready, (yield Next(self.freed)))
                    room += 1
                channels = range(1, layer.input.channels + 1)
                self.channels.append([ready + each * channel for channel in channels])
                ready += each * layer.input.channels
                self.engine.post(self.written, ready)
                complete += 1
            first_slot += buffer.frame_slots

    def _sequencer(self) -> Process:
        planned, buffer, parts = self.planned, self.planned.buffer, self.planned.lanes.parts
        lengths, by_row = turns(planned)[1], planned.is_by_row
        # The first weight of the first frame is read after the reset.
        end, free, is_draining = FETCH - RESTART, 0, False
        while True:
            stored, channels = list[int](), list[int]()
            for group in range(buffer.groups):
                last_group = group == buffer.groups - 1
                needed = buffer.last_rows if last_group else buffer.needed_rows(group)
                while len(stored) < needed:
                    stored.append((yield Next(self.written)))
                    channels = self.channels.popleft()
                if by_row:
                    now, arrivals = self._arrivals(stored[:needed], channels, end)
                else:
                    now, arrivals = max(end + RESTART, stored[needed - 1] + FETCH), []
                    now += planned.decoding
                for number, length in enumerate(lengths):
                    if is_draining:
                        free = (yield Next(self.done)) + 1
                    is_draining = True
                    # The last weight waits with the first part of the columns.
                    last = self._last_weight(now, number, length, arrivals)
                    last = max(last, free) + parts - 1
                    self.engine.post(self.sums, last + DRAIN)
                    now = last + 1
                end = now - 1
                if not last_group:
                    self.engine.post(self.freed, end + 1)
            for _ in range(buffer.frame_slots - buffer.groups + 1):
                self.engine.post(self.freed, end + 1)
            # Rows without a window precede the rows of the next frame.
            for _ in range(buffer.padded_rows - len(stored)):
                yield Next(self.written)
                self.channels.popleft()

    def _arrivals(
        self, stored: Sequence[int], channels: Sequence[int], end: int
    ) -> tuple[int, list[int]]:
        # The cycle of the first weight for the last row of the windows, without waiting for it, and
        # the cycle from which all channels of an address of this row are known to exist.
        planned, w = self.planned, self.planned.layer.windows
        early = turns(planned)[0] * planned.lanes.parts // max(1, w.kernel[0] - 1)
        now, known = end + RESTART, end + COUNTED - 1
        for row in range(w.kernel[0]):
            at = stored[len(stored) - 1 - w.reach[0] + row * w.dilations[0]]
            known = max(known + 1, at + BY_ROW_FETCH)
            if row < w.kernel[0] - 1:
                now = max(now, known) + early
        terms = planned.lanes.terms
        arrived = channels[terms - 1 : -1 : terms]
        arrivals = [min(known, max(at + BY_ROW_FETCH, end + COUNTED)) for at in arrived]
        missing = planned.layer.input.channels // terms - len(arrivals)
        return now, arrivals + [known] * missing

    def _last_weight(self, now: int, number: int, length: int, arrivals: Sequence[int]) -> int:
        # The cycle of the last weight of a block of filters, if the sums have room. `arrivals` has
        # the cycles of channels for which the first column of the windows must wait.
        parts, layer = self.planned.lanes.parts, self.planned.layer
        depth = layer.weights.shape[3] // self.planned.lanes.terms
        if not arrivals:
            return now + (length - 1) * parts
        blocks = max(1, self.planned.weights.blocks // layer.groups)
        first = number // blocks * depth
        for at in arrivals[first : first + depth]:
            now = max(now, at) + parts
        return now + (length - depth - 1) * parts

    def _epilogue(self, out: Link, rows: Events | None, rows_freed: Events) -> Process:
        lanes, layer = self.planned.lanes, self.planned.layer
        channels, height = layer.feature.channels, layer.feature.rows
        registers, at = Registers(3), 0
        while True:
            for start in range(0, height, lanes.rows):
                count = min(lanes.rows, height - start)
                for channel in range(0, channels, lanes.filters):
                    filters = min(lanes.filters, channels - channel)
                    taken = (yield Next(self.sums)) - 1
                    for word in range(filters * count):
                        if rows is not None and channel == 0 and word < count:
                            at = max(at, (yield Next(rows)))
                        # Each part of the word enters the first register.
                        taken = registers.advance(max(taken + 1, at), lanes.parts)
                        if word == filters * count - 1:
                            self.engine.post(self.done, taken)
                            if rows is not None and channel + filters == channels:
                                for _ in range(count):
                                    self.engine.post(rows_freed, taken + 1)
                        offer = registers.offer(taken)
                        registers.leave(offer, (yield Send([out], offer)))
