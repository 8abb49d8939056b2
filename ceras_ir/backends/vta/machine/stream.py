"""
Build an instruction stream of VTA from loads, GEMMs, ALU operations and stores in dataflow order.

The result computes the same values as the calls in sequence, but the three modules overlap as far
as the accessed memory allows, and loads of a kernel move before the end of the previous kernel.
Each call gives micro-ops; their placement on chip and the dependence tokens are computed here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.dependence import (
    NO_OP,
    DependenceInserter,
    Footprints,
    InstructionFootprint,
    Shadow,
)
from ceras_ir.backends.vta.machine.encoding import (
    DEFAULT_VTA_BOARD,
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
from ceras_ir.backends.vta.machine.micro_op_lists import lengthen_lists, plan_residency
from ceras_ir.backends.vta.machine.time import Timing


@dataclass(frozen=True, eq=False)
class Operation:
    """
    An instruction before the stream is complete: without tokens, and its micro-ops have no place on
    chip yet.
    """

    instruction: Instruction
    uops: MicroOps | None
    footprint: InstructionFootprint
    kernel: int
    """The number of the kernel to which the instruction belongs, in the order of the stream."""


def list_operations(
    kernels: Sequence[Sequence[tuple[Instruction, MicroOps | None]]], footprints: Footprints
) -> list[Operation]:
    return [
        Operation(i, uops, footprints.of(i, uops), kernel)
        for kernel, operations in enumerate(kernels)
        for i, uops in operations
    ]


def load_ahead(operations: Sequence[Operation], board: VtaBoard) -> list[Operation]:
    """
    Return the operations with loads moved forward, so that they overlap the previous kernel. Loads
    of the first kernel are not moved.

    The load module executes instructions in order and runs ahead as far as buffers allow. The first
    loads of a kernel are placed directly after the last load of the previous kernel, and are
    fetched while that kernel computes.

    1. Only the order of loads of inputs and weights changes. Each load remains after all operations
       that access the on-chip target or write the DRAM source, so values are the same.
    2. A load of results of the previous kernel waits through a no-op of the compute module. By
       `machine.time`, the store is done when compute reaches the no-op. It is placed directly
       before a load that is moved, and separately before a load that is not moved.
    3. The loads that are moved take no longer than the remaining computation of the previous
       kernel.
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
            stored = shadow.latest(InstructionFootprint(o.footprint.reads))
            # Operations of this kernel on which the load depends are after `start`; then it is not
            # moved.
            ahead = max(floor, shadow.latest(o.footprint), clock.when_stored(stored))
            if ahead < start and budget > 0:
                position = ahead
                budget -= sum(timing.load_bursts(load))
            elif stored > relayed and (relay := clock.when_stored(stored)) < index:
                placed.append((2 * relay - 1, index, _relay(o)))
            relayed = max(relayed, stored)
        if load is not None:
            last = max(last, position + (position == index))
        # Odd keys precede the operation at a position; an even key is the operation itself.
        placed.append((2 * position - (position != index), index, o))
        shadow.record(module_of(i), index + 1, o.footprint)
    return [o for _, _, o in sorted(placed, key=itemgetter(0, 1))]


def _relay(load: Operation) -> Operation:
    return Operation(NO_OP, None, InstructionFootprint(load.footprint.reads), load.kernel)


class _ComputeClock:
    """
    Estimates, without stalls, the cycle in which the compute module starts each operation and in
    which each store ends.
    """

    def __init__(self, operations: Sequence[Operation], board: VtaBoard):
        timing = Timing.of(board)
        self.compute: list[int] = []
        """The cycle in which the compute module starts each operation."""
        self.stored: dict[int, int] = {}
        """The end of each store, by position from 1."""
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
        """
        Return the position of the first operation that compute starts after the store at `position`
        has ended; 0 if there is no store at this position.
        """
        done = self.stored.get(position)
        if done is None:
            return 0
        while position < len(self.compute) and self.compute[position] < done:
            position += 1
        return position


MicroOpRows = Iterable[Sequence[int]] | MicroOps
"""
Micro-ops: rows of the indices of accumulator, input and weight. Zeros at the end may be omitted.
"""

Pair = tuple[int, int]
"""A value for the outer loop and a value for the inner loop."""


class StreamBuilder:
    """
    Collects the instructions of a stream in dataflow order; `finish` returns the program. Positions
    and sizes count elements of the accessed memory. A `ValueError` is raised for an operation that
    the board cannot execute.
    """

    def __init__(self, board: VtaBoard = DEFAULT_VTA_BOARD):
        self.board = board
        self._kernels: list[list[tuple[Instruction, MicroOps | None]]] = []

    @property
    def kernel(self) -> Sequence[tuple[Instruction, MicroOps | None]]:
        return self._kernels[-1]

    def begin_kernel(self) -> None:
        """Begin the next kernel. Its loads may overlap the end of the previous kernel."""
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
        """
        Append a load of `y_size` rows of `x_size` elements, `x_stride` apart in DRAM, to INP, WGT
        or ACC. `pad` has the numbers of rows and columns of zeros at top, bottom, left and right.
        """
        if memory not in (MemoryType.INP, MemoryType.WGT, MemoryType.ACC):
            raise ValueError(f"a stream loads inp, wgt and acc, not {memory.name.lower()}")
        stride = x_size if x_stride is None else x_stride
        i = Load(memory, sram, dram, y_size, x_size, stride, *pad)
        self._within(memory, sram, i.elements)
        self._append(i)

    def store(
        self, sram: int, dram: int, x_size: int, y_size: int = 1, x_stride: int | None = None
    ) -> None:
        i = Store(sram, dram, y_size, x_size, x_size if x_stride is None else x_stride)
        self._within(MemoryType.OUT, sram, i.elements)
        self._append(i)

    def gemm(
        self,
        uops: MicroOpRows,
        *,
        iter: Pair = (1, 1),
        dst: Pair = (0, 0),
        src: Pair = (0, 0),
        wgt: Pair = (0, 0),
        reset: bool = False,
    ) -> None:
        """
        Append a `Gemm` (`acc[dst] += inp[src] . wgt`), or with `reset` clear the accumulators.
        `iter` has the iterations of the outer and the inner loop. `dst`, `src` and `wgt` have the
        increments per iteration of these loops, which are added to the indices in each of `uops`.
        """
        self._loop(Gemm(0, 1, *iter, *dst, *src, *wgt, reset=reset), micro_ops(uops))

    def alu(
        self,
        opcode: AluOpcode,
        uops: MicroOpRows,
        *,
        iter: Pair = (1, 1),
        dst: Pair = (0, 0),
        src: Pair | None = None,
        imm: int | None = None,
    ) -> None:
        """
        Append `acc[dst] = opcode(acc[dst], imm or acc[src])` for loops as in `gemm`. With `imm`,
        sources equal destinations and their indices may be omitted. Without `imm`, `src` is `dst`
        by default.
        """
        table = micro_ops(uops)
        if imm is not None:
            table = table * (1, 0, 0)
            table[:, 1] = table[:, 0]
        src = dst if src is None or imm is not None else src
        use_imm, value = imm is not None, imm or 0
        self._loop(Alu(opcode, 0, 1, *iter, *dst, *src, use_imm=use_imm, imm=value), table)

    def finish(self, uop_base: int = 0) -> VtaProgram:
        """
        Return the complete program, with tokens. Its table of micro-ops is expected at element
        `uop_base` (of 4 bytes) of DRAM.
        """
        kernels = self._kernels
        if self.board.is_hls:
            kernels = [lengthen_lists(operations, self.board) for operations in kernels]
        footprints = Footprints(self.board)
        operations = load_ahead(list_operations(kernels, footprints), self.board)
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
        inserter.add(Finish(), InstructionFootprint())
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
            limit = self.board.portable_uops
            raise ValueError(f"an instruction has 1 to {limit} micro-ops, got {len(uops)}")
        encode_micro_ops(uops, self.board)
        self._append(i, uops)
        top: list[int] = uops.max(axis=0).tolist()
        self._below("acc", i.last_index(top[0], i.dst_factors), self.board.acc)
        src = i.last_index(top[1], i.src_factors)
        if isinstance(i, Alu):
            self._below("acc", src, self.board.acc)
        elif not i.reset:
            self._below("inp", src, self.board.inp)
            self._below("wgt", i.last_index(top[2], i.wgt_factors), self.board.wgt)

    def _within(self, memory: MemoryType, base: int, count: int) -> None:
        self._below(memory.name.lower(), base + count - 1, self.board.elements(memory))

    @staticmethod
    def _below(name: str, last: int, size: int) -> None:
        if last >= size:
            raise ValueError(f"{name} element {last} of {size}")
