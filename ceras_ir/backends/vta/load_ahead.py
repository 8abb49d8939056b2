"""
Loads of the next kernel among the operations of the one before it.

The load module takes its instructions in order and runs ahead as far as buffers allow. What a
kernel loads first therefore goes behind the last load of the kernel before, where the memory that
it touches is free and what it reads is stored: the module fetches it while that kernel computes.

1. Only the order of loads of inputs and weights changes. Each stays behind every operation that
   touches what it writes on chip or wrote what it reads, so that values are the same.
2. A load that reads what the kernel before stores waits through a no-op of the compute module. The
   no-op goes where, by the rules of `timing`, the store is done when compute gets there: just
   before a load that is moved, and on its own ahead of one that stays.
3. No more is loaded ahead than the rest of the kernel before takes to compute.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.dependence import NO_OP
from ceras_ir.backends.vta.footprint import Footprint, Footprints, Shadow
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
from ceras_ir.backends.vta.machine.time import Timing
from ceras_ir.backends.vta.micro_ops import MicroOps


@dataclass(frozen=True, eq=False)
class Operation:
    """An instruction before it has tokens, and its micro-ops have places."""

    instruction: Instruction
    uops: MicroOps | None
    footprint: Footprint
    kernel: int
    """The number of its kernel in the stream."""


def listed(
    kernels: Sequence[Sequence[tuple[Instruction, MicroOps | None]]], footprints: Footprints
) -> list[Operation]:
    """The operations of all kernels, one after the other."""
    return [
        Operation(i, uops, footprints.of(i, uops), kernel)
        for kernel, operations in enumerate(kernels)
        for i, uops in operations
    ]


def load_ahead(operations: Sequence[Operation], board: VtaBoard) -> list[Operation]:
    """The same with loads of every kernel but the first moved forward."""
    if not operations or operations[-1].kernel == 0:
        return list(operations)
    clock = _Clock(operations, board)
    shadow = Shadow(board)
    timing = Timing.of(board)
    placed: list[tuple[int, int, Operation]] = []
    floor, last, relayed = 0, 0, 0
    start, budget = 0, 0
    for index, o in enumerate(operations):
        i, position = o.instruction, index
        load = i if isinstance(i, Load) and module_of(i) is Module.LOAD else None
        if index and o.kernel != operations[index - 1].kernel:
            start, floor = index, last
            budget = clock.compute[start] - clock.compute[floor]
        if o.kernel and load is not None:
            stored = shadow.latest(Footprint(o.footprint.reads))
            # Whatever of this kernel it must follow is behind `start`, where it stays.
            ahead = max(floor, shadow.latest(o.footprint), clock.when_stored(stored))
            if ahead < start and budget > 0:
                position = ahead
                budget -= sum(timing.load_bursts(load))
            elif stored > relayed and (relay := clock.when_stored(stored)) < index:
                placed.append((2 * relay - 1, index, _relay(o)))
            relayed = max(relayed, stored)
        if load is not None:
            last = max(last, position + (position == index))
        # Odd numbers are before what is there, an even number is the operation itself.
        placed.append((2 * position - (position != index), index, o))
        shadow.record(module_of(i), index + 1, o.footprint)
    return [o for _, _, o in sorted(placed, key=itemgetter(0, 1))]


def _relay(load: Operation) -> Operation:
    """What lets the compute module wait for the stores that `load` reads."""
    return Operation(NO_OP, None, Footprint(load.footprint.reads), load.kernel)


class _Clock:
    """When compute gets to each operation, and when stores are done, with nothing to wait for."""

    def __init__(self, operations: Sequence[Operation], board: VtaBoard):
        timing = Timing.of(board)
        self.compute: list[int] = []
        """Cycles of compute before each operation."""
        self.stored: dict[int, int] = {}
        """When stores are done, by their position from 1."""
        now = free = 0
        for index, o in enumerate(operations):
            self.compute.append(now)
            match o.instruction:
                case Store() as i:
                    free = max(free, now) + timing.store_cycles(i)
                    self.stored[index + 1] = free
                case Gemm() | Alu() as i:
                    assert o.uops is not None
                    now += timing.compute_cycles(replace(i, uop_bgn=0, uop_end=len(o.uops)))
                case Load(memory=MemoryType.ACC) as i:
                    now += timing.read_latency + sum(timing.load_bursts(i))
                case _:
                    pass

    def when_stored(self, position: int) -> int:
        """The first operation at which compute finds store `position` done; 0 if it is none."""
        done = self.stored.get(position)
        if done is None:
            return 0
        while position < len(self.compute) and self.compute[position] < done:
            position += 1
        return position
