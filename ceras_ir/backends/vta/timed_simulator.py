"""
When each instruction of a stream runs: load, compute and store overlap as tokens allow, fetch
feeds their queues, and all reads share one channel of DRAM.

Only time is followed here, by the rules of `timing`; values are `simulator`'s. Everything
happens in the order of its start, so that the channel serves whoever asks first.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.encoding import DEFAULT_BOARD, decode
from ceras_ir.backends.vta.hardware import INSTRUCTION_BYTES, QUEUE_LENGTH
from ceras_ir.backends.vta.hls_timing import timing_of
from ceras_ir.backends.vta.isa import (
    Alu,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    Module,
    Store,
    module_of,
)
from ceras_ir.backends.vta.timing import Timing
from ceras_ir.support.diagnostics import InputError


class Stall(StrEnum):
    """Why a module did nothing."""

    FETCH = "fetch"
    LOAD = "load"
    COMPUTE = "compute"
    STORE = "store"
    """The module whose token was waited for."""


@dataclass(frozen=True, slots=True)
class Span:
    """When instruction `index` ran in its module: cycles [start, end)."""

    index: int
    module: Module
    start: int
    end: int
    waited: int
    """Cycles in which the module did nothing before it."""
    reason: Stall
    """What it waited for last."""


@dataclass
class TimedRun:
    """What a stream takes."""

    cycles: int = 0
    spans: list[Span] = field(default_factory=list[Span])
    busy: Counter[Module] = field(default_factory=Counter[Module])
    stalls: Counter[tuple[Module, Stall]] = field(default_factory=Counter[tuple[Module, Stall]])
    gemm_iterations: int = 0
    alu_cycles: int = 0
    loaded_bytes: int = 0
    stored_bytes: int = 0

    def add(self, span: Span, i: Instruction, timing: Timing) -> None:
        """Count instruction `i`, which ran in `span`, but for the cycles of the whole run."""
        self.spans.append(span)
        self.busy[span.module] += span.end - span.start
        if span.waited:
            self.stalls[span.module, span.reason] += span.waited
        match i:
            case Load():
                self.loaded_bytes += i.y_size * i.x_size * timing.board.element_bytes(i.memory)
            case Store():
                size = timing.board.element_bytes(MemoryType.OUT)
                self.stored_bytes += i.elements * size if i.x_size else 0
            case Gemm() if not i.reset:
                self.gemm_iterations += i.iterations
            case Alu():
                self.alu_cycles += timing.compute_cycles(i)
            case _:
                pass

    @property
    def gemm_share(self) -> float:
        """Of all cycles, those in which the GEMM core multiplies."""
        return self.gemm_iterations / self.cycles if self.cycles else 0.0

    @property
    def bound_by(self) -> str:
        """The module that is busy longest."""
        return max(Module, key=lambda m: self.busy[m]).name.lower()


def simulate_time(
    instructions: bytes | Sequence[Instruction],
    board: VtaBoard = DEFAULT_BOARD,
    timing: Timing | None = None,
) -> TimedRun:
    """The run of a stream on `board`; refuses one that waits for tokens that never come."""
    stream = decode(instructions, board) if isinstance(instructions, bytes) else instructions
    machine = _Machine(stream, timing or timing_of(board))
    machine.run()
    return machine.result


class _Machine:
    """Fetch and three modules, each at its own time."""

    def __init__(self, stream: Sequence[Instruction], timing: Timing):
        self.stream, self.timing = stream, timing
        self.result = TimedRun()
        self.channel = 0
        """When the read channel is free."""
        self.modules = [_Module(m, self) for m in Module]
        self.fetch = _Fetch(self)
        self.tokens: dict[tuple[int, int], deque[int]] = {
            pair: deque() for pair in ((0, 1), (1, 0), (1, 2), (2, 1))
        }

    def run(self) -> None:
        actors = (self.fetch, *self.modules)
        while True:
            times = [actor.next_time() for actor in actors]
            if (first := min(times)) == inf:
                break
            actors[times.index(first)].step()
        if stuck := [m.queue[0][0] for m in self.modules if m.queue]:
            raise InputError(f"deadlock: instruction {stuck[0]} waits for a token that never comes")
        self.result.cycles = max((m.free for m in self.modules), default=0)

    def read(self, at: int, beats: int) -> int:
        """When the data of a burst that is asked for at `at` is there."""
        self.channel = max(self.channel, at + self.timing.read_latency) + beats
        return self.channel


class _Fetch:
    """Reads instructions in batches and hands them out, one a cycle, while queues have room."""

    def __init__(self, machine: _Machine):
        self.machine = machine
        self.next, self.end = 0, 0
        self.time = 0
        """Of the last thing done."""

    def next_time(self) -> float:
        if self.next == self.end:
            return self.time if self.end < len(self.machine.stream) else inf
        module = self.machine.modules[module_of(self.machine.stream[self.next])]
        return self.time + 1 if len(module.queue) < QUEUE_LENGTH else inf

    def step(self) -> None:
        machine = self.machine
        if self.next == self.end:
            self.end = min(len(machine.stream), self.end + machine.timing.fetch_batch)
            beats = machine.timing.beats((self.end - self.next) * INSTRUCTION_BYTES)
            self.time = machine.read(self.time, beats)
            return
        while self.next < self.end:
            module = machine.modules[module_of(machine.stream[self.next])]
            if len(module.queue) == QUEUE_LENGTH:
                break
            self.time = max(self.time, module.room_at) + 1
            module.queue.append((self.next, self.time))
            self.next += 1


class _Module:
    """One of load, compute and store."""

    def __init__(self, module: Module, machine: _Machine):
        self.module, self.machine = module, machine
        self.queue: deque[tuple[int, int]] = deque()
        """Instructions and when they arrived."""
        self.room_at = 0
        """When an instruction was last taken from the queue."""
        self.free = 0
        self.started = 0
        self.waited, self.reason = 0, Stall.FETCH
        self.bursts: list[int] = []
        """Beats of the reads that the running instruction has still to ask for, the next last."""
        self.asked = 0
        self.arrivals: deque[int] = deque()
        """Of the bursts that were asked for last."""

    def next_time(self) -> float:
        if self.bursts:
            return self.next_command()
        return self.ready()[0] if self.queue else inf

    def next_command(self) -> int:
        """When the next row can be asked for."""
        timing = self.machine.timing
        at = self.asked
        if len(self.arrivals) == timing.outstanding:
            at = max(at, self.arrivals[0])
        return at

    def waits(self, i: Instruction) -> list[tuple[int, int]]:
        m = int(self.module)
        return [(m - 1, m)] * i.pop_prev + [(m + 1, m)] * i.pop_next

    def ready(self) -> tuple[float, Stall]:
        """When the next instruction can start, and what it waited for last."""
        index, arrived = self.queue[0]
        latest, reason = arrived, Stall.FETCH
        for pair in self.waits(self.machine.stream[index]):
            if not (queue := self.machine.tokens[pair]):
                return inf, reason
            if queue[0] > latest:
                latest, reason = queue[0], Stall(Module(pair[0]).name.lower())
        return max(latest, self.free), reason

    def step(self) -> None:
        if self.bursts:
            self.ask()
            return
        time, reason = self.ready()
        start = int(time)
        index, _ = self.queue.popleft()
        self.room_at = start
        i = self.machine.stream[index]
        for pair in self.waits(i):
            self.machine.tokens[pair].popleft()
        self.waited, self.reason = max(0, start - self.free), reason
        self.index, self.started = index, start
        timing = self.machine.timing
        match i:
            case Load() if i.x_size and i.y_size:
                self.bursts = timing.load_bursts(i)[::-1]
                self.asked = start
                self.arrivals.clear()
            case Store() if i.x_size:
                self.end(start + timing.store_cycles(i))
            case _:
                self.end(start + timing.compute_cycles(i))

    def ask(self) -> None:
        """Ask for the next burst; with the last one, the instruction's end is known."""
        at = self.next_command()
        if len(self.arrivals) == self.machine.timing.outstanding:
            self.arrivals.popleft()
        arrival = self.machine.read(at, self.bursts.pop())
        self.arrivals.append(arrival)
        self.asked = at + self.machine.timing.command
        if not self.bursts:
            i = self.machine.stream[self.index]
            assert isinstance(i, Load)
            self.end(arrival + self.machine.timing.after_load(i))

    def end(self, time: int) -> None:
        """The running instruction is done at `time`."""
        self.free = time
        m, i = int(self.module), self.machine.stream[self.index]
        span = Span(self.index, self.module, self.started, time, self.waited, self.reason)
        self.machine.result.add(span, i, self.machine.timing)
        for pushes, pair in ((i.push_prev, (m, m - 1)), (i.push_next, (m, m + 1))):
            if pushes:
                self.machine.tokens[pair].append(time)
