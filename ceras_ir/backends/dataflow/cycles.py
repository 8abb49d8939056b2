"""
Model the cycles in which each word of a pipeline is transferred; no values are computed.

Each block is a process with the latencies of the SystemVerilog module; comments name the registers
that cause them. Ports never stall.
"""

import itertools
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from ceras_ir.backends.dataflow.blocks import (
    Addition,
    Block,
    Concatenation,
    Convolution,
    FunctionTable,
    MaxPool,
    Pipeline,
    Repetition,
    Selection,
)
from ceras_ir.backends.dataflow.convolution_cycles import ConvolutionModel, row_order, skid_buffer
from ceras_ir.backends.dataflow.plan import PipelinePlan, completed_windows
from ceras_ir.backends.dataflow.processes import (
    Engine,
    Events,
    Link,
    Next,
    Peek,
    Process,
    ProcessRequest,
    Receive,
    Registers,
    Send,
)
from ceras_ir.backends.dataflow.storage import ceiling
from ceras_ir.backends.dataflow.verilog import in_order, order_capacity

FRAMES = 5  # after which cycles per frame are constant in all networks that were tried


@dataclass(frozen=True)
class PipelineTiming:
    """
    The modelled latency of an inference in cycles, and the cycles per frame in a long sequence.
    """

    latency: int
    """The cycles until the first frame has left all output ports."""
    per_frame: int
    """The cycles between frames in the steady state."""


def port_cycles(pipeline: Pipeline, port_bytes: int) -> int:
    """
    Return a lower bound of the cycles per frame that no choice of lanes can improve: the maximum
    over the ports and the streams of the cycles that transfer a frame. A port transfers
    `port_bytes` per cycle, a stream transfers a word per cycle.
    """
    ports = [block.feature for block in (pipeline.source, *pipeline.results)]
    words = [port.words * ceiling(port.columns, port_bytes) for port in ports]
    words += [block.feature.words for block in pipeline.blocks]
    return max(words)


def model(
    pipeline: Pipeline, plan: PipelinePlan, port_bytes: int, frames: int = FRAMES
) -> PipelineTiming:
    """
    Return the latency and the cycles per frame of a circuit, from a simulation of `frames`
    consecutive frames in which words have times but no values. A port transfers `port_bytes` per
    cycle.
    """
    ports = _Model(pipeline, plan, port_bytes, frames).end_cycles
    ends = [max(port[frame] for port in ports) for frame in range(frames)]
    return PipelineTiming(ends[0], ends[frames - 1] - ends[frames - 2])


class _Model:
    def __init__(self, pipeline: Pipeline, plan: PipelinePlan, port_bytes: int, frames: int):
        self.plan, self.port_bytes, self.frames = plan, port_bytes, frames
        self.engine = Engine()
        self.end_cycles: list[list[int]] = [[] for _ in pipeline.results]
        """For each output port, the cycle in which each frame has been written."""
        streams: dict[tuple[Block, int] | int, Link] = {}
        outputs: dict[Block, Link] = {}
        for block in (pipeline.source, *pipeline.blocks):
            readers = [*pipeline.consumers(block), *pipeline.ports(block)]
            links = [Link() for _ in readers]
            streams.update(zip(readers, links, strict=True))
            outputs[block] = links[0]
            if len(readers) > 1:
                outputs[block] = Link()
                self.engine.start(self._fork(outputs[block], links))
        port = Link()
        self.engine.start(self._source(pipeline, port))
        self.engine.start(skid_buffer(port, outputs[pipeline.source]))
        for block in pipeline.blocks:
            operands = [streams[block, n] for n in range(len(block.inputs))]
            if block in plan.delays:
                operands[0] = self._queue(operands[0], plan.delays[block])
            self._block(block, operands, outputs[block])
        for port, result in enumerate(pipeline.results):
            last = streams[port]
            if not in_order(result, plan):
                ordered, written, freed = Link(), Events(), Events()
                capacity = order_capacity(result, plan)
                self.engine.start(self._ring(result, last, written, freed, capacity))
                self.engine.start(self._ordered(result, ordered, written, freed))
                last = ordered
            self.engine.start(self._sink(result, last, self.end_cycles[port]))
        self.engine.run()
        # A frame that consists of padding can be written before the input arrives.
        completed = min(len(cycles) for cycles in self.end_cycles)
        assert completed >= frames, "the model of the pipeline has stopped"

    def _source(self, pipeline: Pipeline, out: Link) -> Process:
        feature, now = pipeline.source.feature, 0
        beats = ceiling(feature.columns, self.port_bytes)
        for _ in range(self.frames * feature.words):
            now = yield Send([out], now + beats)

    def _sink(self, result: Block, link: Link, end_cycles: list[int]) -> Process:
        feature, ready = result.feature, 0
        beats = ceiling(feature.columns, self.port_bytes)
        while True:
            for _ in range(feature.words):
                ready = (yield Receive(link, ready)) + beats
            end_cycles.append(ready)

    def _fork(self, link: Link, outs: Sequence[Link]) -> Process:
        while True:
            offer = yield Peek(link)
            self.engine.accept(link, (yield Send(outs, offer)))

    def _registers(self, count: int, link: Link, out: Link) -> Process:
        registers, taken = Registers(count), -1
        while True:
            offer = yield Peek(link)
            taken = registers.advance(max(offer, taken + 1))
            self.engine.accept(link, taken)
            yield from self._leave(registers, taken, out)

    def _leave(
        self, registers: Registers, taken: int, out: Link
    ) -> Generator[ProcessRequest, int, None]:
        # Send a word that the first register took at `taken`.
        offer = registers.offer(taken)
        registers.leave(offer, (yield Send([out], offer)))

    def _queue(self, link: Link, words: int) -> Link:
        out, written, freed = Link(), Events(), Events()

        def writing() -> Process:
            ready = 0
            for count in itertools.count():
                if count >= words:
                    ready = max(ready, (yield Next(freed)))
                ready = (yield Receive(link, ready)) + 1
                # The memory, then the register after it.
                self.engine.post(written, ready + 1)

        def reading() -> Process:
            left = 0
            while True:
                offer = max((yield Next(written)), left + 1)
                self.engine.post(freed, offer)
                left = yield Send([out], offer)

        self.engine.start(writing())
        self.engine.start(reading())
        return out

    def _block(self, block: Block, operands: Sequence[Link], out: Link) -> None:
        match block:
            case Convolution():
                self._convolution(block, operands, out)
            case MaxPool():
                self.engine.start(self._pool(block, operands[0], out))
            case Addition():
                written, freed = Events(), Events()
                capacity = self.plan.ring_rows(block)
                self.engine.start(
                    self._ring(block.inputs[1], operands[1], written, freed, capacity)
                )
                self.engine.start(self._addition(block, operands[0], out, written, freed))
            case Concatenation():
                written, freed = Events(), Events()
                capacity = self.plan.ring_rows(block)
                ring = self._ring(block.inputs[1], operands[1], written, freed, capacity)
                self.engine.start(ring)
                joined = self._concatenation(block, operands[0], out, written, freed)
                self.engine.start(joined)
            case FunctionTable():
                self.engine.start(self._registers(2, operands[0], out))
            case Repetition():
                self.engine.start(self._repetition(block, operands[0], out))
            case Selection():
                self.engine.start(self._selection(block, operands[0], out))
            case _:
                raise AssertionError(block)

    def _ring(
        self, block: Block, link: Link, written: Events, freed: Events, capacity: int
    ) -> Process:
        # `written` and `freed` count complete rows.
        ready, rows, room = 0, 0, capacity
        order = row_order(block, self.plan)
        while True:
            base = rows
            for row in order:
                while base + row.number >= room:
                    ready = max(ready, (yield Next(freed)))
                    room += 1
                ready = (yield Receive(link, ready)) + 1
                if row.is_last:
                    # The register before the memory.
                    self.engine.post(written, ready + 1)
                    rows += 1

    def _ordered(self, block: Block, out: Link, written: Events, freed: Events) -> Process:
        registers, taken = Registers(2), -1
        while True:
            complete = yield Next(written)
            for _ in range(block.feature.channels):
                taken = registers.advance(max(complete, taken + 1))
                yield from self._leave(registers, taken, out)
            self.engine.post(freed, taken + 1)

    def _addition(
        self, block: Addition, link: Link, out: Link, written: Events, freed: Events
    ) -> Process:
        order, registers = row_order(block.inputs[0], self.plan), Registers(3)
        stored, rows, complete, taken = 0, 0, 0, -1
        while True:
            base = rows
            for row in order:
                while stored <= base + row.number:
                    complete = max(complete, (yield Next(written)))
                    stored += 1
                offer = yield Peek(link)
                taken = registers.advance(max(offer, taken + 1, complete))
                self.engine.accept(link, taken)
                if row.is_last:
                    self.engine.post(freed, taken + 1)
                    rows += 1
                yield from self._leave(registers, taken, out)

    def _concatenation(
        self, block: Concatenation, link: Link, out: Link, written: Events, freed: Events
    ) -> Process:
        order, second = row_order(block.inputs[0], self.plan), block.inputs[1].feature.channels
        registers, taken, complete = Registers(2), -1, 0
        while True:
            for word in order:
                offer = yield Peek(link)
                if word.channel == 0 and block.second_is_lower:
                    complete = max(offer, complete, (yield Next(written)))
                    taken = yield from self._stored(
                        second, out, registers, max(complete, taken + 1), freed
                    )
                taken = registers.advance(max(offer, taken + 1))
                self.engine.accept(link, taken)
                yield from self._leave(registers, taken, out)
                if word.is_last and not block.second_is_lower:
                    complete = max(complete, (yield Next(written)))
                    taken = yield from self._stored(
                        second, out, registers, max(complete, taken + 1), freed
                    )

    def _stored(
        self, channels: int, out: Link, registers: Registers, first: int, freed: Events
    ) -> Generator[ProcessRequest, int, int]:
        # Read the channels of a stored row from cycle `first` on, and return the last cycle.
        taken = first - 1
        for channel in range(channels):
            taken = registers.advance(taken + 1)
            if channel == channels - 1:
                self.engine.post(freed, taken + 1)
            yield from self._leave(registers, taken, out)
        return taken

    def _repetition(self, block: Repetition, link: Link, out: Link) -> Process:
        left = 0
        while True:
            left = yield Receive(link, left)
            for _ in range(block.factors[0]):
                left = yield Send([out], left + 1)

    def _selection(self, block: Selection, link: Link, out: Link) -> Process:
        order, left = row_order(block.inputs[0], self.plan), 0
        start, size = block.start, block.feature
        rows = range(start.rows, start.rows + size.rows)
        channels = range(start.channels, start.channels + size.channels)
        while True:
            for word in order:
                left = yield Receive(link, left)
                if word.number in rows and word.channel in channels:
                    left = yield Send([out], left + 1)
                else:
                    left += 1

    def _pool(self, block: MaxPool, link: Link, out: Link) -> Process:
        counts = completed_windows(block)
        order, clear, ready = row_order(block.inputs[0], self.plan), 0, 0
        while True:
            for row in order:
                taken = yield Receive(link, ready)
                # The middle register advances when the words of completed windows leave.
                ready = max(taken + 1, clear)
                offer = ready + 1
                for _ in range(counts[row.number]):
                    clear = yield Send([out], offer)
                    offer = clear + 1

    def _convolution(self, block: Convolution, operands: Sequence[Link], out: Link) -> None:
        rows, rows_freed = None, Events()
        if len(operands) > 1:
            rows, capacity = Events(), self.plan.ring_rows(block)
            self.engine.start(self._ring(block.inputs[1], operands[1], rows, rows_freed, capacity))
        order = row_order(block.inputs[0], self.plan)
        parts = ConvolutionModel(self.engine, self.plan.convolutions[block], order)
        parts.start(operands[0], out, rows, rows_freed)
