"""
Build a stream from loads, GEMMs, ALU operations and stores in the order of the dataflow.

The result computes what the calls compute one after the other, but the three modules overlap as far
as the memory that they touch allows, and loads of a kernel move before the end of the previous one.
Micro-ops are given with each call; their residency and the dependence tokens are found here, never
by the caller.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.dependence import (
    NO_OP,
    DependenceInserter,
    Footprint,
    Footprints,
    Shadow,
)
from ceras_ir.backends.vta.machine.encoding import (
    DEFAULT_BOARD,
    MicroOps,
    VtaProgram,
    encode_instruction,
    encode_micro_ops,
    micro_ops,
)
from ceras_ir.backends.vta.machine.isa import (
    Alu,
    AluOpcode,
    Finish,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    Module,
    Store,
    module_of,
    violations,
)
from ceras_ir.backends.vta.machine.micro_op_lists import plan_residency, with_long_lists
from ceras_ir.backends.vta.machine.time import Timing


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
    """
    The same with loads of every kernel but the first moved forward. The load module takes its
    instructions in order and runs ahead as far as buffers allow, so the first loads of a kernel go
    directly after the last load of the previous one, and are fetched while that one computes.

    1. Only the order of loads of inputs and weights changes. Each remains after every operation
       that touches what it writes on chip or wrote what it reads, so that values are the same.
    2. A load that reads what the previous kernel stores waits through a no-op of the compute
       module. The no-op goes where, by `machine.time`, the store is done when compute gets there:
       just before a load that is moved, and separately before a load that is not.
    3. No more is loaded ahead than the rest of the previous kernel takes to compute.
    """
    if not operations or operations[-1].kernel == 0:
        return list(operations)
    clock = _ComputeClock(operations, board)
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


class _ComputeClock:
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


Rows = Iterable[Sequence[int]] | MicroOps
"""Micro-ops: one row of dst, src, wgt each; trailing zeros may be left out."""

Pair = tuple[int, int]
"""Outer and inner."""


class StreamBuilder:
    """Collects operations; `finish` makes the program. Bases and sizes count elements."""

    def __init__(self, board: VtaBoard = DEFAULT_BOARD):
        self.board = board
        self._kernels: list[list[tuple[Instruction, MicroOps | None]]] = []

    @property
    def kernel(self) -> Sequence[tuple[Instruction, MicroOps | None]]:
        """The operations of the kernel that was begun last."""
        return self._kernels[-1]

    def begin_kernel(self) -> None:
        """What follows is another kernel, whose loads may overlap the end of the one before."""
        self._kernels.append([])

    def load(
        self,
        memory: MemoryType,
        sram: int,
        dram: int,
        x_size: int,
        y_size: int = 1,
        x_stride: int | None = None,
        *,
        pad: tuple[int, int, int, int] = (0, 0, 0, 0),
    ) -> None:
        """DRAM to INP, WGT or ACC; `pad` is top, bottom, left, right."""
        if memory not in (MemoryType.INP, MemoryType.WGT, MemoryType.ACC):
            raise ValueError(f"a stream loads inp, wgt and acc, not {memory.name.lower()}")
        stride = x_size if x_stride is None else x_stride
        i = Load(memory, sram, dram, y_size, x_size, stride, *pad)
        self._within(memory, sram, i.elements)
        self._append(i)

    def store(
        self, sram: int, dram: int, x_size: int, y_size: int = 1, x_stride: int | None = None
    ) -> None:
        """OUT to DRAM."""
        i = Store(sram, dram, y_size, x_size, x_size if x_stride is None else x_stride)
        self._within(MemoryType.OUT, sram, i.elements)
        self._append(i)

    def gemm(
        self,
        uops: Rows,
        *,
        iter: Pair = (1, 1),
        dst: Pair = (0, 0),
        src: Pair = (0, 0),
        wgt: Pair = (0, 0),
        reset: bool = False,
    ) -> None:
        """`acc[dst] += inp[src] . wgt^T` over `iter` and `uops`, or zeros with `reset`."""
        self._loop(Gemm(0, 1, *iter, *dst, *src, *wgt, reset=reset), micro_ops(uops))

    def alu(
        self,
        opcode: AluOpcode,
        uops: Rows,
        *,
        iter: Pair = (1, 1),
        dst: Pair = (0, 0),
        src: Pair | None = None,
        imm: int | None = None,
    ) -> None:
        """
        `acc[dst] = opcode(acc[dst], imm or acc[src])`. With `imm`, sources are destinations
        (their indices need not be given); without, `src` is `dst` where it is left out.
        """
        table = micro_ops(uops)
        if imm is not None:
            table = table * (1, 0, 0)
            table[:, 1] = table[:, 0]
        src = dst if src is None or imm is not None else src
        use_imm, value = imm is not None, imm or 0
        self._loop(Alu(opcode, 0, 1, *iter, *dst, *src, use_imm=use_imm, imm=value), table)

    def finish(self, uop_base: int = 0) -> VtaProgram:
        """The program, with its micro-op table from 4-byte element `uop_base` of DRAM on."""
        kernels = self._kernels
        if self.board.is_hls:
            kernels = [with_long_lists(operations, self.board) for operations in kernels]
        footprints = Footprints(self.board)
        operations = load_ahead(listed(kernels, footprints), self.board)
        residency = plan_residency(
            [o.uops for o in operations], self.board.portable_uops, [o.kernel for o in operations]
        )
        inserter = DependenceInserter(Shadow(self.board))
        owners: list[int] = []
        phases = iter(residency.phases)
        phase = next(phases, None)
        for position, o in enumerate(operations):
            if phase is not None and position == phase.start:
                base, count = uop_base + phase.table_base, phase.length
                load = Load(MemoryType.UOP, phase.place, base, 1, count, count)
                inserter.add(load, footprints.of(load, None))
                phase = next(phases, None)
            i = o.instruction
            if isinstance(i, Gemm | Alu):
                place = residency.places[position]
                assert place is not None and o.uops is not None
                i = replace(i, uop_bgn=place, uop_end=place + len(o.uops))
            inserter.add(i, o.footprint)
            owners += [o.kernel] * (len(inserter) - len(owners))
        inserter.drain()
        inserter.add(Finish(), Footprint())
        owners += [max(0, len(kernels) - 1)] * (len(inserter) - len(owners))
        return VtaProgram(inserter.instructions(), residency.table, uop_base, owners)

    def _append(self, i: Instruction, uops: MicroOps | None = None) -> None:
        encode_instruction(i, self.board)
        for message in violations(i):
            raise ValueError(message)
        if not self._kernels:
            self.begin_kernel()
        self._kernels[-1].append((i, uops))

    def _loop(self, i: Gemm | Alu, uops: MicroOps) -> None:
        if not 0 < len(uops) <= self.board.portable_uops:
            raise ValueError(
                f"one instruction takes 1 to {self.board.portable_uops} micro-ops, got {len(uops)}"
            )
        encode_micro_ops(uops, self.board)
        self._append(i, uops)
        # Factors are unsigned, so the highest index is the one of the last iteration.
        top: list[int] = uops.max(axis=0).tolist()
        a, b = i.iter_out - 1, i.iter_in - 1
        self._below("acc", top[0] + i.dst_factor_out * a + i.dst_factor_in * b, self.board.acc)
        src = top[1] + i.src_factor_out * a + i.src_factor_in * b
        if isinstance(i, Alu):
            self._below("acc", src, self.board.acc)
        elif not i.reset:
            self._below("inp", src, self.board.inp)
            wgt = top[2] + i.wgt_factor_out * a + i.wgt_factor_in * b
            self._below("wgt", wgt, self.board.wgt)

    def _within(self, memory: MemoryType, base: int, count: int) -> None:
        self._below(memory.name.lower(), base + count - 1, self.board.elements(memory))

    @staticmethod
    def _below(name: str, last: int, size: int) -> None:
        if last >= size:
            raise ValueError(f"{name} element {last} of {size}")
