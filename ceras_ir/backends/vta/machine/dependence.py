"""
Insert the dependence tokens with which a stream runs as if in order.

The input is in dataflow order. `Footprints` finds the memory that an instruction touches and that
another module can touch too, `Shadow` the last instructions that touched it. An instruction that
depends on an earlier one of another module gets a token from the latest such instruction, unless
vector clocks show that it is done.
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
"""Elements, contiguous or listed."""


class Space(Enum):
    """Memory that two modules share."""

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
LOADED = {MemoryType.INP: Space.INP, MemoryType.WGT: Space.WGT}
READERS = {
    Space.INP: (Module.COMPUTE,),
    Space.WGT: (Module.COMPUTE,),
    Space.OUT: (Module.STORE,),
    Space.DRAM: (Module.LOAD, Module.COMPUTE),
}


@dataclass
class Footprint:
    """Regions read and written, each in one space."""

    reads: list[tuple[Space, Region]] = field(default_factory=list[tuple[Space, Region]])
    writes: list[tuple[Space, Region]] = field(default_factory=list[tuple[Space, Region]])


class Footprints:
    """
    Makes footprints; equal loop nests share their index sets.

    OUT stands for the accumulators as well: the functional simulator stores from them
    (`SRAM::TruncStore`), so that even a load into ACC must wait for an earlier store. DRAM is
    followed in granules of one element of OUT, the smallest that is ever written there.
    """

    def __init__(self, board: VtaBoard):
        self._board = board
        self._sets: dict[Hashable, Region] = {}

    def of(self, i: Instruction, uops: MicroOps | None) -> Footprint:
        """The footprint of `i`, which runs the micro-ops `uops` if it runs any."""
        match i:
            case Load(memory=memory):
                reads = [(Space.DRAM, self._dram_region(i, memory))]
                chip = slice(i.sram_base, i.sram_base + i.elements)
                if memory is MemoryType.UOP:
                    return Footprint(reads)
                return Footprint(reads, [(LOADED.get(memory, Space.OUT), chip)])
            case Store():
                chip = slice(i.sram_base, i.sram_base + i.elements)
                target = self._dram_region(i, MemoryType.OUT)
                return Footprint([(Space.OUT, chip)], [(Space.DRAM, target)])
            case Gemm() | Alu():
                assert uops is not None
                dst = self._indices(uops, 0, i, i.dst_factor_out, i.dst_factor_in)
                footprint = Footprint([], [(Space.OUT, dst)])
                if isinstance(i, Gemm) and not i.reset:
                    src = self._indices(uops, 1, i, i.src_factor_out, i.src_factor_in)
                    wgt = self._indices(uops, 2, i, i.wgt_factor_out, i.wgt_factor_in)
                    footprint.reads = [(Space.INP, src), (Space.WGT, wgt)]
                return footprint
            case _:
                return Footprint()

    def _indices(
        self, uops: MicroOps, column: int, i: Gemm | Alu, factor_out: int, factor_in: int
    ) -> Region:
        fields = np.ascontiguousarray(uops[:, column])
        key = (fields.tobytes(), i.iter_out, i.iter_in, factor_out, factor_in)
        if (region := self._sets.get(key)) is None:
            reached = np.unique(fields)
            for factor, count in ((factor_out, i.iter_out), (factor_in, i.iter_in)):
                if factor:
                    steps = factor * np.arange(count, dtype=np.int64)
                    reached = np.unique(reached[:, None] + steps)
            region = reached
            if len(reached) == reached[-1] - reached[0] + 1:
                region = slice(int(reached[0]), int(reached[-1]) + 1)
            self._sets[key] = region
        return region

    def _dram_region(self, i: Load | Store, memory: MemoryType) -> Region:
        """The granules of a transfer."""
        if not i.x_size or not i.y_size:
            return slice(0, 0)
        granule, unit = (self._board.element_bytes(m) for m in (MemoryType.OUT, memory))
        start, width, pitch = i.dram_base * unit, i.x_size * unit, i.x_stride * unit
        if pitch == width or i.y_size == 1 or unit < granule:
            # Rows of small elements need not begin at a granule: take all between them as well.
            end = start + pitch * (i.y_size - 1) + width
            return slice(start // granule, -(-end // granule))
        rows = (start + pitch * np.arange(i.y_size, dtype=np.int64)) // granule
        return (rows[:, None] + np.arange(width // granule, dtype=np.int64)).reshape(-1)


class Shadow:
    """For every element of every space: the last instruction to write it, and to read it."""

    def __init__(self, board: VtaBoard):
        sizes = {Space.INP: board.inp, Space.WGT: board.wgt, Space.OUT: board.acc}
        self._last: dict[tuple[Space, Module], NDArray[np.int32]] = {
            (space, module): np.zeros(sizes.get(space, 1 << 12), np.int32)
            for space in Space
            for module in (WRITER[space], *READERS[space])
        }

    def needs(self, module: Module, footprint: Footprint) -> list[int]:
        """For each module, the last instruction that `footprint` in `module` must follow."""
        needs = [0, 0, 0]
        for space, region, other in self._conflicts(footprint):
            if other is not module:
                last = self._array(space, other, region)[region]
                if last.size:
                    needs[other] = max(needs[other], int(last.max()))
        return needs

    def latest(self, footprint: Footprint) -> int:
        """
        The last instruction that `footprint` must follow if nothing keeps two instructions of one
        module in order; positions must be those of the whole stream.
        """
        touched = [(s, r, m) for s, r, m in self._conflicts(footprint)]
        touched += [(space, region, WRITER[space]) for space, region in footprint.writes]
        found = 0
        for space, region, module in touched:
            last = self._array(space, module, region)[region]
            found = max(found, int(last.max()) if last.size else 0)
        return found

    def record(self, module: Module, position: int, footprint: Footprint) -> None:
        """Instruction `position` of `module` has touched `footprint`."""
        for space, region in (*footprint.reads, *footprint.writes):
            self._array(space, module, region)[region] = position

    @staticmethod
    def _conflicts(footprint: Footprint) -> Iterator[tuple[Space, Region, Module]]:
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


MOST_TOKENS = (TOKEN_LIMIT + 1) // 2
"""Tokens of one kind that may be outstanding."""

Clock = tuple[int, int, int]
"""How many instructions of each module are known to be done."""

NO_OP = Load(MemoryType.UOP, 0, 0, 0, 0, 0)
"""Does nothing, in the compute module."""


@dataclass
class _Node:
    instruction: Instruction
    clock: Clock
    """What is done when this instruction is, itself included."""
    flags: dict[str, bool] = field(default_factory=dict[str, bool])
    """The token flags that are on."""


class DependenceInserter:
    """
    Takes instructions in dataflow order, without flags; `instructions` returns them with flags.

    For each pair of neighbours, givers and takers both come in increasing order, one token each:

    - the k-th token taken is the k-th given, so anonymous tokens mean what they should;
    - no instruction gives or takes two tokens of one kind, and every token given is taken;
    - all tokens go forward in the stream, so it cannot deadlock, however short the queues.

    Load and store are no neighbours: a no-op of compute passes the token on.
    """

    def __init__(self, shadow: Shadow):
        self._shadow = shadow
        self._stream: list[_Node] = []
        self._modules: dict[Module, list[_Node]] = {m: [] for m in Module}
        self._pops: dict[tuple[Module, Module], list[int]] = {}
        """Per giver and taker: the positions, in the taker's module, of the takers."""
        self._floor: dict[tuple[Module, Module], int] = {}
        """Per taker and giver: what the next instruction of the taker must know."""

    def __len__(self) -> int:
        """Instructions so far."""
        return len(self._stream)

    def add(self, instruction: Instruction, footprint: Footprint) -> None:
        """Append `instruction`, which touches `footprint`."""
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
        for giver in Module:
            if abs(giver - module) == 1 and needed[giver] > node.clock[giver]:
                self._token(giver, module, needed[giver], node)
        done = list(node.clock)
        done[module] = len(queue) + 1
        node.clock = (done[0], done[1], done[2])
        queue.append(node)
        self._stream.append(node)

    def _relay(self, taker: Module, giver: Module, needed: int) -> int:
        """The first instruction of compute that knows `needed` of the far module `giver`."""
        taken = self._modules[taker]
        if needed <= (taken[-1].clock[giver] if taken else 0):
            return 0
        compute = self._modules[Module.COMPUTE]
        if not compute or compute[-1].clock[giver] < needed:
            needs = [0, 0, 0]
            needs[giver] = needed
            self._emit(Module.COMPUTE, NO_OP, needs)
        return bisect_right(compute, needed - 1, key=lambda node: node.clock[giver]) + 1

    def _token(self, giver: Module, taker: Module, position: int, node: _Node) -> None:
        """Let `node`, next of `taker`, wait for instruction `position` of `giver`."""
        pops = self._pops.setdefault((giver, taker), [])
        source = self._modules[giver][position - 1]
        if len(pops) + 1 - bisect_right(pops, source.clock[taker]) > MOST_TOKENS:
            # Wait for all that giver has been told to do, and let it wait for us in turn.
            position = len(self._modules[giver])
            source = self._modules[giver][-1]
            self._floor[giver, taker] = len(self._modules[taker]) + 1
        if giver < taker:
            source.flags["push_next"] = node.flags["pop_prev"] = True
        else:
            source.flags["push_prev"] = node.flags["pop_next"] = True
        pops.append(len(self._modules[taker]) + 1)
        before, known = node.clock, source.clock
        node.clock = (max(before[0], known[0]), max(before[1], known[1]), max(before[2], known[2]))

    def drain(self) -> None:
        """Let compute wait until the other modules are done."""
        compute = self._modules[Module.COMPUTE]
        known = compute[-1].clock if compute else (0, 0, 0)
        needs = [len(self._modules[m]) for m in Module]
        needs[Module.COMPUTE] = 0
        if any(n > k for n, k in zip(needs, known, strict=True)):
            self._emit(Module.COMPUTE, NO_OP, needs)

    def instructions(self) -> list[Instruction]:
        """The stream so far, with its token flags."""
        return [replace(node.instruction, **node.flags) for node in self._stream]
