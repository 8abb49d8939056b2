"""
Compute the cycles of instructions of VTA, and the time at which each instruction of a stream runs.

`Timing` has the cycles of single instructions. The defaults were measured on the cycle-accurate RTL
of the Chisel source of VTA; `Timing.hls` has the parameters of the HLS source. `simulate_time` runs
fetch, load, compute and store. They overlap as dependence tokens allow, and share a channel for
reads from DRAM. Cost models, reports and calibration use the same rules.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from ceras_ir.backends.vta.machine.board import HlsModel, VtaBoard
from ceras_ir.backends.vta.machine.encoding import DEFAULT_VTA_BOARD, decode
from ceras_ir.backends.vta.machine.hls_models import MODELS
from ceras_ir.backends.vta.machine.isa import (
    INSTRUCTION_BYTES,
    QUEUE_LENGTH,
    Alu,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    Module,
    Store,
    TokenQueue,
    module_of,
    tokens_popped,
    tokens_pushed,
)
from ceras_ir.support.diagnostics import InputError

MAX_READ_BURST_BEATS = 256
"""The maximum number of beats (cycles of the bus with data) of a read burst of AXI."""
MAX_WRITE_BURST_BYTES = 2048
ALU_INTERVAL_CYCLES = 2
"""Cycles between micro-ops of an ALU operation; 1 for immediate operations of the Chisel source."""


@dataclass(frozen=True)
class Timing:
    """
    Cycles of the memory system and of the pipelines. The defaults are for the Chisel source,
    which joins rows that are contiguous in DRAM and requests rows of a load ahead.

    In the HLS source only the loops over micro-ops are pipelined: each iteration of the two outer
    loops refills the pipeline. Rows of a transfer do not overlap, and each zero of the padding of a
    load needs a cycle.
    """

    bus_bytes: int = 8
    """The bytes that the memory bus transfers in a cycle (a beat)."""
    read_latency: int = 50
    write_latency: int = 31
    load: int = 5
    """Cycles of a load of tensors, in addition to beats and latency."""
    load_micro_ops: int = 4
    command: int = 3
    """Cycles between the read requests for two rows of a load."""
    outstanding: int = 16
    """The number of requested rows of a load that can wait for data."""
    instruction: int = 7
    """Cycles of GEMM and ALU, in addition to iterations and refills."""
    refill: int = 0
    """Cycles that each iteration of the two loops around a list of micro-ops adds."""
    no_op: int = 2
    burst: int = 3
    """Cycles of a write burst, in addition to elements and latency."""
    fetch_batch: int = 128
    """The number of instructions that are fetched together."""
    board: VtaBoard = DEFAULT_VTA_BOARD
    """The board, which determines the sizes of elements."""
    is_hls: bool = False

    @classmethod
    def of(cls, board: VtaBoard) -> "Timing":
        if board.is_hls:
            return cls.hls(models_of(board)[0], board)
        bus = board.bus_bytes or cls.bus_bytes
        return cls(bus, board.read_latency, board.write_latency, board=board)

    @classmethod
    def hls(cls, model: HlsModel, board: VtaBoard) -> "Timing":
        each = model.instruction
        return cls(
            bus_bytes=model.bytes_per_cycle,
            read_latency=model.latency,
            write_latency=model.latency,
            load=each,
            load_micro_ops=each,
            command=0,
            outstanding=1,
            instruction=each,
            refill=model.refill,
            no_op=max(1, each),
            burst=0,
            board=board,
            is_hls=True,
        )

    @property
    def pipeline(self) -> int:
        """
        The cycles of a GEMM or ALU instruction in addition to those of the iterations, if it
        executes its list of micro-ops a single time.
        """
        return self.instruction + self.refill

    @property
    def store_element(self) -> int:
        """The cycles of a store per element: a read from OUT, then the beats of the bus."""
        return 1 + self.beats(self.board.element_bytes(MemoryType.OUT))

    @property
    def store_burst(self) -> int:
        return max(1, MAX_WRITE_BURST_BYTES // self.board.element_bytes(MemoryType.OUT))

    def beats_of(self, memory: MemoryType) -> float:
        """
        Return the beats of the bus (cycles with data) per element of `memory` in a long transfer.
        """
        return self.board.element_bytes(memory) / self.bus_bytes

    def beats(self, size: int) -> int:
        """
        Return the beats of the bus (cycles with data) for `size` consecutive bytes, rounded up.
        """
        return -(-size // self.bus_bytes)

    def load_bursts(self, i: Load) -> list[int]:
        """Return the number of beats of each DRAM read burst of the load `i`, in order."""
        rows, row = i.y_size, i.x_size * self.board.element_bytes(i.memory)
        if self.is_hls:
            return [self.beats(row)] * rows
        if i.x_stride == i.x_size and not (i.x_pad_left or i.x_pad_right):
            rows, row = 1, rows * row
        full_bursts, rest = divmod(self.beats(row), MAX_READ_BURST_BEATS)
        return ([MAX_READ_BURST_BEATS] * full_bursts + [rest] * (rest > 0)) * rows

    def after_load(self, i: Load) -> int:
        """Return the cycles of the load `i` after the data of its last burst has arrived."""
        if i.memory is MemoryType.UOP:
            return self.load_micro_ops
        return self.load + (i.elements - i.y_size * i.x_size if self.is_hls else 0)

    def store_cycles(self, i: Store) -> int:
        """Return the cycles of the store `i`, with bursts one after the other."""
        if self.is_hls:
            row = self.beats(i.x_size * self.board.element_bytes(MemoryType.OUT))
            return self.instruction + i.y_size * (self.write_latency + row)
        rows, row = (1, i.elements) if i.x_stride == i.x_size else (i.y_size, i.x_size)
        bursts = rows * -(-row // self.store_burst)
        return i.elements * self.store_element + bursts * (self.write_latency + self.burst)

    def compute_cycles(self, i: Instruction) -> int:
        """
        Return the cycles of the compute module for an instruction, without the transfer of a load.
        """
        if not isinstance(i, Gemm | Alu):
            return self.no_op
        by_alu = isinstance(i, Alu) and (self.is_hls or not i.use_imm)
        interval = ALU_INTERVAL_CYCLES if by_alu else 1
        return self.instruction + i.iter_out * i.iter_in * self.refill + interval * i.iterations


def models_of(board: VtaBoard) -> tuple[HlsModel, ...]:
    """
    Return the cycle models that are possible for a board with VTA's HLS source: only the fitted
    model of the board, or all models of `hls_models.py` if it has none.
    """
    return MODELS if board.hls is None else (board.hls,)


class Stall(StrEnum):
    """
    The cause of idle cycles of a module: it waits for an instruction, or for a token of another
    module.
    """

    FETCH = "fetch"
    LOAD = "load"
    COMPUTE = "compute"
    STORE = "store"


@dataclass(frozen=True, slots=True)
class Activity:
    """The execution of instruction number `index` by a module, in cycles [start, end)."""

    index: int
    module: Module
    start: int
    end: int
    waited: int
    """Idle cycles of the module before the instruction."""
    reason: Stall
    """The last event for which the module waited before the instruction."""


@dataclass
class TimedRun:
    """
    The simulated times of the instructions of a stream, and the DRAM traffic. `spans` has the
    execution of each instruction, `busy` and `stalls` the cycles of each module.
    """

    cycles: int = 0
    spans: list[Activity] = field(default_factory=list[Activity])
    busy: Counter[Module] = field(default_factory=Counter[Module])
    stalls: Counter[tuple[Module, Stall]] = field(default_factory=Counter[tuple[Module, Stall]])
    gemm_iterations: int = 0
    alu_cycles: int = 0
    loaded_bytes: int = 0
    stored_bytes: int = 0

    def add(self, span: Activity, i: Instruction, timing: Timing) -> None:
        """Add instruction `i`, which ran in `span`, to all counts except the total cycles."""
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
        """The share of the cycles in which the GEMM core multiplies, 0 to 1."""
        return self.gemm_iterations / self.cycles if self.cycles else 0.0

    @property
    def bound_by(self) -> str:
        return max(Module, key=lambda m: self.busy[m]).name.lower()


def simulate_time(
    instructions: bytes | Sequence[Instruction],
    board: VtaBoard = DEFAULT_VTA_BOARD,
    timing: Timing | None = None,
) -> TimedRun:
    """
    Return the modelled times at which a board executes each instruction of a stream. An
    `InputError` is raised for a deadlock. `timing` replaces the cycle model of the board.
    """
    stream = decode(instructions, board) if isinstance(instructions, bytes) else instructions
    state = _TimedState(stream, timing or Timing.of(board))
    units = [_TimedModule(m, state) for m in Module]
    fetch = _Fetch(state, units)
    # Events are processed in the order of their start, so that the read channel serves requests in
    # order.
    actors = (fetch, *units)
    while True:
        times = [actor.next_time() for actor in actors]
        if (first := min(times)) == inf:
            break
        actors[times.index(first)].step()
    if stuck := [unit.queue[0][0] for unit in units if unit.queue]:
        raise InputError(f"deadlock: instruction {stuck[0]} waits for a token that is never pushed")
    state.result.cycles = max((unit.free for unit in units), default=0)
    return state.result


class _TimedState:
    """The state that the simulated modules share: stream, tokens, and the DRAM read channel."""

    def __init__(self, stream: Sequence[Instruction], timing: Timing):
        self.stream, self.timing = stream, timing
        self.popped = [tokens_popped(i) for i in stream]
        self.result = TimedRun()
        self.channel = 0
        """The cycle from which the read channel is free."""
        self.tokens: dict[TokenQueue, deque[int]] = {
            pair: deque() for pair in ((0, 1), (1, 0), (1, 2), (2, 1))
        }

    def read(self, at: int, beats: int) -> int:
        """
        Reserve the read channel for a burst that is requested at cycle `at`, and return the cycle
        at which its last data arrives.
        """
        self.channel = max(self.channel, at + self.timing.read_latency) + beats
        return self.channel


class _Fetch:
    """
    Simulates the fetch of instructions in batches, and their issue to the queues of the modules:
    one per cycle while a queue has space.
    """

    def __init__(self, state: _TimedState, units: "Sequence[_TimedModule]"):
        self.state, self.units = state, units
        self.next, self.end = 0, 0
        self.time = 0
        """The cycle of the last action."""

    def _target(self) -> "_TimedModule":
        return self.units[module_of(self.state.stream[self.next])]

    def next_time(self) -> float:
        if self.next == self.end:
            return self.time if self.end < len(self.state.stream) else inf
        return self.time + 1 if len(self._target().queue) < QUEUE_LENGTH else inf

    def step(self) -> None:
        state = self.state
        if self.next == self.end:
            self.end = min(len(state.stream), self.end + state.timing.fetch_batch)
            beats = state.timing.beats((self.end - self.next) * INSTRUCTION_BYTES)
            self.time = state.read(self.time, beats)
            return
        while self.next < self.end and len((unit := self._target()).queue) < QUEUE_LENGTH:
            self.time = max(self.time, unit.room_at) + 1
            unit.queue.append((self.next, self.time))
            self.next += 1


class _TimedModule:
    """Simulates the execution of the instructions of a module: load, compute or store."""

    def __init__(self, module: Module, state: _TimedState):
        self.module, self.state = module, state
        self.queue: deque[tuple[int, int]] = deque()
        """Instructions and their arrival times."""
        self.room_at = 0
        """The last time at which an instruction was removed from the queue."""
        self.free = self.started = self.index = 0
        self.waited, self.reason = 0, Stall.FETCH
        self.bursts: list[int] = []
        """Beats of the bursts that the current instruction has yet to request, in reverse order."""
        self.next_request = 0
        self.arrivals: deque[int] = deque()
        """The arrivals of the last bursts that were requested."""

    def next_time(self) -> float:
        if self.bursts:
            return self._next_command()
        return self._ready()[0] if self.queue else inf

    def _next_command(self) -> int:
        full = len(self.arrivals) == self.state.timing.outstanding
        return max(self.next_request, self.arrivals[0]) if full else self.next_request

    def _ready(self) -> tuple[float, Stall]:
        """
        Return the cycle in which the next instruction can start, or infinity if a token is missing,
        and the last event for which it waits.
        """
        index, latest = self.queue[0]
        reason = Stall.FETCH
        for pair in self.state.popped[index]:
            if not (queue := self.state.tokens[pair]):
                return inf, reason
            if queue[0] > latest:
                latest, reason = queue[0], Stall(Module(pair[0]).name.lower())
        return max(latest, self.free), reason

    def step(self) -> None:
        if self.bursts:
            self._request_burst()
            return
        time, self.reason = self._ready()
        start = int(time)
        self.index, _ = self.queue.popleft()
        i, timing = self.state.stream[self.index], self.state.timing
        for pair in self.state.popped[self.index]:
            self.state.tokens[pair].popleft()
        self.waited = max(0, start - self.free)
        self.room_at = self.started = start
        match i:
            case Load() if i.x_size and i.y_size:
                self.bursts = timing.load_bursts(i)[::-1]
                self.next_request = start
                self.arrivals.clear()
            case Store() if i.x_size:
                self._end(start + timing.store_cycles(i))
            case _:
                self._end(start + timing.compute_cycles(i))

    def _request_burst(self) -> None:
        """
        Request the next burst of the current load. The arrival of the last burst determines the end
        of the load.
        """
        at, timing = self._next_command(), self.state.timing
        if len(self.arrivals) == timing.outstanding:
            self.arrivals.popleft()
        arrival = self.state.read(at, self.bursts.pop())
        self.arrivals.append(arrival)
        self.next_request = at + timing.command
        if not self.bursts:
            i = self.state.stream[self.index]
            assert isinstance(i, Load)
            self._end(arrival + timing.after_load(i))

    def _end(self, time: int) -> None:
        self.free = time
        i = self.state.stream[self.index]
        span = Activity(self.index, self.module, self.started, time, self.waited, self.reason)
        self.state.result.add(span, i, self.state.timing)
        for pair in tokens_pushed(i):
            self.state.tokens[pair].append(time)
