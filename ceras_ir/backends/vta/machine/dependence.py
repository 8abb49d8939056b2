"""
Insert dependence tokens, with which a stream has the results of in-order execution.

The modules load, compute and store of VTA run at the same time; a token makes one wait for another.
The input is in dataflow order. `Footprints` computes the memory that an instruction accesses and
that another module can access too, `Shadow` holds the last instructions that accessed it. An
instruction that depends on an earlier instruction of another module gets a token from the latest
such instruction, unless vector clocks show that it is done.
"""

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.encoding import MicroOps
from ceras_ir.backends.vta.machine.isa import (
    TOKEN_LIMIT,
    Alu,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    Module,
    Store,
    module_of,
)

Region = slice | NDArray[np.int64]
"""A set of elements of a memory: a contiguous range, or a list of indices."""


class Space(Enum):
    """A memory that two modules of VTA access."""

    INP = auto()
    WGT = auto()
    OUT = auto()
    DRAM = auto()


WRITER = {
    Space.INP: Module.LOAD,
    Space.WGT: Module.LOAD,
    Space.OUT: Module.COMPUTE,
    Space.DRAM: Module.STORE,
}
LOADED_SPACES = {MemoryType.INP: Space.INP, MemoryType.WGT: Space.WGT}
READERS = {
    Space.INP: (Module.COMPUTE,),
    Space.WGT: (Module.COMPUTE,),
    Space.OUT: (Module.STORE,),
    Space.DRAM: (Module.LOAD, Module.COMPUTE),
}


@dataclass
class InstructionFootprint:
    """The memory regions that an instruction reads and writes, each with the memory."""

    reads: list[tuple[Space, Region]] = field(default_factory=list[tuple[Space, Region]])
    writes: list[tuple[Space, Region]] = field(default_factory=list[tuple[Space, Region]])


class Footprints:
    """
    Computes the memory regions that instructions access; equal loop nests share index sets.

    OUT includes the accumulators: the functional simulator stores from them (`SRAM::TruncStore`),
    so a load into ACC must wait for an earlier store too. DRAM is tracked in granules of one
    element of OUT, the smallest unit that is written there.
    """

    def __init__(self, board: VtaBoard):
        self._board = board
        self._sets: dict[Hashable, Region] = {}

    def of(self, i: Instruction, uops: MicroOps | None) -> InstructionFootprint:
        """
        Return the memory regions that the instruction `i` reads and writes. `uops` has the
        micro-ops of a GEMM or ALU instruction; `None` for others.
        """
        match i:
            case Load(memory=memory):
                reads = [(Space.DRAM, self._dram_region(i, memory))]
                chip = slice(i.sram_base, i.sram_base + i.elements)
                if memory is MemoryType.UOP:
                    return InstructionFootprint(reads)
                return InstructionFootprint(reads, [(LOADED_SPACES.get(memory, Space.OUT), chip)])
            case Store():
                chip = slice(i.sram_base, i.sram_base + i.elements)
                target = self._dram_region(i, MemoryType.OUT)
                return InstructionFootprint([(Space.OUT, chip)], [(Space.DRAM, target)])
            case Gemm() | Alu():
                assert uops is not None
                dst = self._indices(uops, 0, i, i.dst_factors)
                footprint = InstructionFootprint([], [(Space.OUT, dst)])
                if isinstance(i, Gemm) and not i.reset:
                    src = self._indices(uops, 1, i, i.src_factors)
                    wgt = self._indices(uops, 2, i, i.wgt_factors)
                    footprint.reads = [(Space.INP, src), (Space.WGT, wgt)]
                return footprint
            case _:
                return InstructionFootprint()

    def _indices(
        self, uops: MicroOps, column: int, i: Gemm | Alu, factors: tuple[int, int]
    ) -> Region:
        fields = np.ascontiguousarray(uops[:, column])
        counts = (i.iter_out, i.iter_in)
        key = (fields.tobytes(), counts, factors)
        if (region := self._sets.get(key)) is None:
            reached = np.unique(fields)
            for factor, count in zip(factors, counts, strict=True):
                if factor:
                    steps = factor * np.arange(count, dtype=np.int64)
                    reached = np.unique(reached[:, None] + steps)
            region = reached
            if len(reached) == reached[-1] - reached[0] + 1:
                region = slice(int(reached[0]), int(reached[-1]) + 1)
            self._sets[key] = region
        return region

    def _dram_region(self, i: Load | Store, memory: MemoryType) -> Region:
        if not i.x_size or not i.y_size:
            return slice(0, 0)
        granule, unit = (self._board.element_bytes(m) for m in (MemoryType.OUT, memory))
        start, width, pitch = i.dram_base * unit, i.x_size * unit, i.x_stride * unit
        if pitch == width or i.y_size == 1 or unit < granule:
            # Rows of small elements need not begin at a granule: include all bytes between rows as
            # well.
            end = start + pitch * (i.y_size - 1) + width
            return slice(start // granule, -(-end // granule))
        rows = (start + pitch * np.arange(i.y_size, dtype=np.int64)) // granule
        return (rows[:, None] + np.arange(width // granule, dtype=np.int64)).reshape(-1)


class Shadow:
    """
    Stores the last instruction of each module that accessed each element of each shared memory.
    """

    def __init__(self, board: VtaBoard):
        sizes = {Space.INP: board.inp, Space.WGT: board.wgt, Space.OUT: board.acc}
        self._last: dict[tuple[Space, Module], NDArray[np.int32]] = {
            (space, module): np.zeros(sizes.get(space, 1 << 12), np.int32)
            for space in Space
            for module in (WRITER[space], *READERS[space])
        }

    def needs(self, module: Module, footprint: InstructionFootprint) -> list[int]:
        """
        Return a position for each module: that of its last instruction that must be complete before
        `module` may access `footprint`. Positions start at 1; 0 means none.
        """
        needs = [0, 0, 0]
        for space, region, other in self._conflicts(footprint):
            if other is not module:
                last = self._array(space, other, region)[region]
                if last.size:
                    needs[other] = max(needs[other], int(last.max()))
        return needs

    def latest(self, footprint: InstructionFootprint) -> int:
        """
        Return the position in the stream of the last instruction that must precede an access to
        `footprint`, 0 if there is none. In contrast to `needs`, this includes the module of the
        access itself, and all recorded positions must count the entire stream.
        """
        touched = [(s, r, m) for s, r, m in self._conflicts(footprint)]
        touched += [(space, region, WRITER[space]) for space, region in footprint.writes]
        found = 0
        for space, region, module in touched:
            last = self._array(space, module, region)[region]
            found = max(found, int(last.max()) if last.size else 0)
        return found

    def record(self, module: Module, position: int, footprint: InstructionFootprint) -> None:
        """
        Record that `module` accesses the regions of `footprint` in the instruction with number
        `position`, from 1 on.
        """
        for space, region in (*footprint.reads, *footprint.writes):
            self._array(space, module, region)[region] = position

    @staticmethod
    def _conflicts(footprint: InstructionFootprint) -> Iterator[tuple[Space, Region, Module]]:
        for space, region in footprint.reads:
            yield space, region, WRITER[space]
        for space, region in footprint.writes:
            for reader in READERS[space]:
                yield space, region, reader

    def _array(self, space: Space, module: Module, region: Region) -> NDArray[np.int32]:
        array = self._last[space, module]
        if space is Space.DRAM:
            end = region.stop if isinstance(region, slice) else int(region.max()) + 1
            if end > len(array):
                grown = np.zeros(max(end, 2 * len(array)), np.int32)
                grown[: len(array)] = array
                array = self._last[space, module] = grown
        return array


MAX_OUTSTANDING_TOKENS = (TOKEN_LIMIT + 1) // 2
"""The maximum number of tokens from one module to another that were pushed but not yet popped."""

Clock = tuple[int, int, int]
"""The numbers of instructions of load, compute and store that are known to be done."""

NO_OP = Load(MemoryType.UOP, 0, 0, 0, 0, 0)
"""An instruction of the compute module that has no effect except for its tokens."""


@dataclass
class _Node:
    instruction: Instruction
    clock: Clock
    """
    The numbers of instructions of each module that are done when this instruction is done, which
    counts too.
    """
    flags: dict[str, bool] = field(default_factory=dict[str, bool])
    """The token flags that are set, by name."""


class DependenceInserter:
    """
    Adds token flags to instructions in dataflow order; `instructions` returns the stream.

    For each pair of adjacent modules, the instructions that push and the instructions that pop are
    both in increasing order, with one token each:

    - The k-th token popped is the k-th token pushed, so anonymous tokens have the intended meaning.
    - No instruction pushes or pops two tokens of a kind, and each pushed token is popped.
    - All tokens go forward in the stream, so it cannot deadlock for any length of the queues.

    Load and store are not adjacent: a no-op of compute passes the token on.
    """

    def __init__(self, shadow: Shadow):
        self._shadow = shadow
        self._stream: list[_Node] = []
        self._modules: dict[Module, list[_Node]] = {m: [] for m in Module}
        self._pops: dict[tuple[Module, Module], list[int]] = {}
        """Per source and target: the positions, in the target module, of instructions that pop."""
        self._floor: dict[tuple[Module, Module], int] = {}
        """Per target and source: the minimum that the next instruction of the target must know."""

    def __len__(self) -> int:
        return len(self._stream)

    def add(self, instruction: Instruction, footprint: InstructionFootprint) -> None:
        module = module_of(instruction)
        position = len(self._modules[module]) + 1
        self._emit(module, instruction, self._shadow.needs(module, footprint))
        self._shadow.record(module, position, footprint)

    def _emit(self, module: Module, instruction: Instruction, needs: Sequence[int]) -> None:
        needed = [
            max(n, self._floor.get((module, m), 0)) for m, n in zip(Module, needs, strict=True)
        ]
        for far in Module:
            if abs(far - module) == 2:
                relay = self._relay(module, far, needed[far])
                needed[Module.COMPUTE] = max(needed[Module.COMPUTE], relay)
        queue = self._modules[module]
        clock = queue[-1].clock if queue else (0, 0, 0)
        node = _Node(instruction, clock)
        for source in Module:
            if abs(source - module) == 1 and needed[source] > node.clock[source]:
                self._token(source, module, needed[source], node)
        done = list(node.clock)
        done[module] = len(queue) + 1
        node.clock = (done[0], done[1], done[2])
        queue.append(node)
        self._stream.append(node)

    def _relay(self, target: Module, source: Module, needed: int) -> int:
        """
        Return the position of the first compute instruction that waits, directly or indirectly, for
        instruction `needed` of `source`; 0 if `target` already waited for it. Load and store
        exchange no tokens, so that compute relays them. An empty compute instruction is added if
        none waits.
        """
        waiting = self._modules[target]
        if needed <= (waiting[-1].clock[source] if waiting else 0):
            return 0
        compute = self._modules[Module.COMPUTE]
        if not compute or compute[-1].clock[source] < needed:
            needs = [0, 0, 0]
            needs[source] = needed
            self._emit(Module.COMPUTE, NO_OP, needs)
        return bisect_right(compute, needed - 1, key=lambda node: node.clock[source]) + 1

    def _token(self, source: Module, target: Module, position: int, node: _Node) -> None:
        """
        Set the token flags so that `node`, the next instruction of `target`, waits for instruction
        `position` of `source`.
        """
        pops = self._pops.setdefault((source, target), [])
        pushing = self._modules[source][position - 1]
        if len(pops) + 1 - bisect_right(pops, pushing.clock[target]) > MAX_OUTSTANDING_TOKENS:
            # Wait for all instructions of the source so far, and let the source wait in turn.
            position = len(self._modules[source])
            pushing = self._modules[source][-1]
            self._floor[source, target] = len(self._modules[target]) + 1
        if source < target:
            pushing.flags["push_next"] = node.flags["pop_prev"] = True
        else:
            pushing.flags["push_prev"] = node.flags["pop_next"] = True
        pops.append(len(self._modules[target]) + 1)
        before, known = node.clock, pushing.clock
        node.clock = (max(before[0], known[0]), max(before[1], known[1]), max(before[2], known[2]))

    def drain(self) -> None:
        compute = self._modules[Module.COMPUTE]
        known = compute[-1].clock if compute else (0, 0, 0)
        needs = [len(self._modules[m]) for m in Module]
        needs[Module.COMPUTE] = 0
        if any(n > k for n, k in zip(needs, known, strict=True)):
            self._emit(Module.COMPUTE, NO_OP, needs)

    def instructions(self) -> list[Instruction]:
        return [replace(node.instruction, **node.flags) for node in self._stream]
