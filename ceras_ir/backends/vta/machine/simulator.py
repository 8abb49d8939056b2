"""
Run an instruction stream of VTA on a DRAM image: the semantics of `isa`, bit for bit, in numpy.

Load, compute and store are three queues of instructions that only dependence tokens synchronize, as
on the hardware. On-chip memories start with noise, so a missing token or an uninitialized read
changes the result. OUT is a separate memory, as in the HLS design and the RTL.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.encoding import (
    DEFAULT_VTA_BOARD,
    MicroOps,
    decode,
    decode_micro_ops,
)
from ceras_ir.backends.vta.machine.instruction_plans import (
    AluPlan,
    GemmPlan,
    compute,
    iteration_indices,
    plan_alu,
    plan_gemm,
)
from ceras_ir.backends.vta.machine.isa import (
    Alu,
    Finish,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    Module,
    Store,
    TokenQueue,
    describe,
    module_of,
    tokens_popped,
    tokens_pushed,
)
from ceras_ir.support.diagnostics import InputError

Dram = NDArray[np.uint8]
Integer = TypeVar("Integer", np.int8, np.int32, np.uint32)

_MAX_PLANNED_ITERATIONS = 1 << 18
"""The maximum number of iterations that are simulated together, to limit memory."""
MAX_ITERATIONS = 1 << 29
"""The maximum number of iterations of a stream: seconds on hardware, minutes in this simulator."""
MAX_ALU_STAGES = 1 << 16
"""
The maximum number of stages of ALU iterations that depend on each other; each takes a numpy
operation.
"""
_MAX_CACHED_ITERATIONS = 1 << 22


@dataclass
class SimulationStatistics:
    """
    The numbers of instructions and iterations that a simulation executed, and of tokens that are
    left at the end.
    """

    instructions: Counter[str] = field(default_factory=Counter[str])
    """The number of instructions of each kind, for example `load inp`."""
    gemm_iterations: int = 0
    tokens_left: int = 0
    """Tokens that were pushed and not popped; they would affect the next launch."""


class _Fault(Exception):
    """
    An error of an instruction, which becomes an `InputError` with the index of the instruction.
    """


def simulate(
    dram: Dram,
    instructions: bytes | Sequence[Instruction],
    board: VtaBoard = DEFAULT_VTA_BOARD,
    *,
    order: Sequence[Module] = tuple(Module),
    switch_every: int | None = None,
    seed: int | None = 0,
) -> SimulationStatistics:
    """
    Run a stream of `instructions` on the DRAM image `dram`, which is changed in place.

    If several modules can run, the first in `order` does, for at most `switch_every` instructions
    in sequence (`None`: no limit). `seed` generates the noise in on-chip memories; `None` means
    zeros. An `InputError` is raised if an instruction is wrong or waits forever.
    """
    stream = decode(instructions, board) if isinstance(instructions, bytes) else instructions
    if (count := sum(_iterations(i) for i in stream)) > MAX_ITERATIONS:
        raise InputError(
            f"the stream has {count:,} iterations, the limit of the simulator is {MAX_ITERATIONS:,}"
        )
    machine = VtaSimulator(dram, board, None if seed is None else np.random.default_rng(seed))
    queues: dict[Module, list[int]] = {m: [] for m in Module}
    modules = [module_of(i) for i in stream]
    for index, module in enumerate(modules):
        queues[module].append(index)
    tokens: Counter[TokenQueue] = Counter()
    at = dict.fromkeys(Module, 0)

    progress = True
    while progress:
        progress = False
        for module in order:
            queue, done = queues[module], 0
            while at[module] < len(queue) and done != switch_every:
                index = queue[at[module]]
                if not _pop_tokens(stream[index], tokens):
                    break
                machine.run(index, stream[index])
                _push_tokens(stream[index], tokens)
                at[module] += 1
                done += 1
            progress |= done > 0
    _check_finished(stream, queues, at)
    machine.statistics.tokens_left = sum(tokens.values())
    return machine.statistics


def _iterations(i: Instruction) -> int:
    return i.iterations if isinstance(i, Gemm | Alu) else 0


def _pop_tokens(i: Instruction, tokens: Counter[TokenQueue]) -> bool:
    """
    Remove the tokens for which the instruction `i` waits and return True, or remove none and return
    False if one is not available.
    """
    waits = tokens_popped(i)
    if len(waits) < i.pop_prev + i.pop_next:
        _refuse_flags(i, ("pop_prev", "pop_next"))
    if any(not tokens[queue] for queue in waits):
        return False
    tokens.subtract(waits)
    return True


def _push_tokens(i: Instruction, tokens: Counter[TokenQueue]) -> None:
    given = tokens_pushed(i)
    if len(given) < i.push_prev + i.push_next:
        _refuse_flags(i, ("push_prev", "push_next"))
    tokens.update(given)


def _refuse_flags(i: Instruction, flags: tuple[str, str]) -> NoReturn:
    # Only load has no previous module, and only store has no next one.
    flag = flags[module_of(i) is Module.STORE]
    raise InputError(f"{describe(i)}: {flag}, but there is no such module")


def _check_finished(
    stream: Sequence[Instruction], queues: dict[Module, list[int]], at: dict[Module, int]
) -> None:
    stuck = [queues[m][at[m]] for m in Module if at[m] < len(queues[m])]
    if stuck:
        names = ", ".join(f"instruction {i} ({describe(stream[i])})" for i in stuck)
        raise InputError(f"deadlock: {names} wait for tokens that are never pushed")
    if not any(isinstance(i, Finish) for i in stream):
        raise InputError("the stream has no finish")


class VtaSimulator:
    """
    The contents of the on-chip memories, and the effect of each instruction on them and on the DRAM
    image. `noise` generates the initial contents; `None` means zeros.
    """

    def __init__(self, dram: Dram, board: VtaBoard, noise: np.random.Generator | None):
        assert dram.dtype == np.uint8 and dram.ndim == 1 and dram.flags.c_contiguous
        self.dram = dram
        self.board = board
        self.statistics = SimulationStatistics()

        def initial(dtype: type[Integer], *shape: int) -> NDArray[Integer]:
            if noise is None:
                return np.zeros(shape, dtype)
            limits = np.iinfo(dtype)
            return noise.integers(limits.min, limits.max, shape, dtype, endpoint=True)

        vector, tile = (board.batch, board.block), (board.block, board.block)
        # Stored as float32 for the matrix products; the values are int8.
        self.inp = initial(np.int8, board.inp, *vector).astype(np.float32)
        self.wgt = initial(np.int8, board.wgt, *tile).astype(np.float32)
        self.acc = initial(np.int32, board.acc, *vector)
        self.out = initial(np.int8, board.acc, *vector)
        self.uops = initial(np.uint32, board.uops)
        self.gemm_plans: dict[tuple[Hashable, ...], GemmPlan] = {}
        self.alu_plans: dict[tuple[Hashable, ...], AluPlan] = {}
        self.cached = self.steps = 0

    def run(self, index: int, i: Instruction) -> None:
        self.statistics.instructions[describe(i)] += 1
        try:
            match i:
                case Load():
                    self.load(i)
                case Store():
                    self.store(i)
                case Gemm():
                    self.gemm(i)
                case Alu():
                    self.alu(i)
                case Finish():
                    pass
        except _Fault as e:
            raise InputError(f"instruction {index} ({describe(i)}): {e}") from None

    def rows(self, i: Load | Store, unit: int) -> Dram:
        """
        Return the DRAM rows of a load or store, as a view `[y_size, x_size * unit]` of bytes.
        `unit` is the bytes of an element.
        """
        start, pitch, width = i.dram_base * unit, i.x_stride * unit, i.x_size * unit
        end = start + (i.y_size - 1) * pitch + width
        if i.y_size and end > self.dram.size:
            raise _Fault(f"DRAM bytes [{start}, {end}) of {self.dram.size}")
        start = start if i.y_size else 0
        return np.ndarray((i.y_size, width), np.uint8, self.dram, start, (pitch, 1))

    def on_chip(self, memory: MemoryType, base: int, count: int) -> slice:
        if base + count > (size := self.board.elements(memory)):
            raise _Fault(f"elements [{base}, {base + count}) of {size}")
        return slice(base, base + count)

    def load(self, i: Load) -> None:
        if i.x_size == 0:
            return
        where = self.on_chip(i.memory, i.sram_base, i.elements)
        rows = self.rows(i, self.board.element_bytes(i.memory))
        y, x = i.y_size, i.x_size
        match i.memory:
            case MemoryType.UOP:
                target, data = self.uops, rows.copy().view("<u4")
            case MemoryType.INP:
                target, data = self.inp, rows.view(np.int8)
            case MemoryType.WGT:
                tiles = rows.copy().view(np.int8).reshape(y, x, *self.wgt.shape[1:])
                target, data = self.wgt, tiles.swapaxes(2, 3)
            case MemoryType.ACC:
                target, data = self.acc, rows.copy().view("<i4")
            case _:
                target, data = self.acc, rows.view(np.int8)
        region = target[where].reshape(i.rows, i.columns, *target.shape[1:])
        if region.shape[:2] != (y, x):
            region[...] = 0
        inner = region[i.y_pad_top :, i.x_pad_left :]
        inner[:y, :x] = data.reshape(y, x, *target.shape[1:])

    def store(self, i: Store) -> None:
        if i.x_size == 0:
            return
        where = self.on_chip(MemoryType.OUT, i.sram_base, i.elements)
        rows = self.rows(i, self.board.element_bytes(MemoryType.OUT))
        data = self.out[where].view(np.uint8).reshape(rows.shape)
        # If rows overlap, the later row must win: numpy does not guarantee an order.
        if i.x_stride < i.x_size:
            for row, values in zip(rows, data, strict=True):
                row[...] = values
        else:
            rows[...] = data

    def window(self, i: Gemm | Alu) -> tuple[MicroOps, list[range]]:
        """
        Return the micro-ops of a GEMM or ALU instruction, and ranges of the outer loop: each is
        simulated in a single step, and is small to save memory.
        """
        if i.uop_end > self.board.uops:
            raise _Fault(f"micro-ops [{i.uop_bgn}, {i.uop_end}) of {self.board.uops}")
        uops = decode_micro_ops(self.uops[i.uop_bgn : i.uop_end], self.board)
        step = max(1, _MAX_PLANNED_ITERATIONS // max(1, i.iter_in * len(uops)))
        pieces = [range(a, min(a + step, i.iter_out)) for a in range(0, i.iter_out, step)]
        return uops, pieces

    def limit(self, name: str, highest: int, factors: tuple[int, int], i: Gemm | Alu, size: int):
        if (last := i.last_index(highest, factors)) >= size:
            raise _Fault(f"{name} index {last} of {size}")

    def gemm(self, i: Gemm) -> None:
        if not i.iterations:
            return
        self.statistics.gemm_iterations += 0 if i.reset else i.iterations
        uops, pieces = self.window(i)
        top = uops.max(axis=0).tolist()
        self.limit("acc", top[0], i.dst_factors, i, self.board.acc)
        if not i.reset:
            self.limit("inp", top[1], i.src_factors, i, self.board.inp)
            self.limit("wgt", top[2], i.wgt_factors, i, self.board.wgt)
        for piece in pieces:
            if i.reset:
                dst = iteration_indices(uops[:, 0], i, i.dst_factors, piece)
                self.acc[dst] = 0
                continue
            key = _plan_key(uops, i, piece)
            if (plan := self.gemm_plans.get(key)) is None:
                self.make_room(len(piece) * i.iter_in * len(uops))
                plan = self.gemm_plans[key] = plan_gemm(uops, i, piece)
            plan.run(self.inp, self.wgt, self.acc)
            self.out[plan.dst] = self.acc[plan.dst].astype(np.int8)

    def alu(self, i: Alu) -> None:
        if not i.iterations:
            return
        uops, pieces = self.window(i)
        top = uops.max(axis=0).tolist()
        self.limit("dst", top[0], i.dst_factors, i, self.board.acc)
        if not i.use_imm:
            self.limit("src", top[1], i.src_factors, i, self.board.acc)
        immediate = np.int32(i.imm)
        for piece in pieces:
            key = (*_plan_key(uops, i, piece), i.use_imm)
            if (plan := self.alu_plans.get(key)) is None:
                self.make_room(len(piece) * i.iter_in * len(uops))
                plan = self.alu_plans[key] = plan_alu(uops, i, piece)
            self.steps += len(plan.stages)
            if self.steps > MAX_ALU_STAGES:
                raise _Fault(f"iterations depend on each other in over {MAX_ALU_STAGES:,} stages")
            for dst, src in plan.stages:
                other = immediate if i.use_imm else self.acc[src]
                result = compute(i.opcode, self.acc[dst], np.asarray(other))
                self.acc[dst] = result
                self.out[dst] = result.astype(np.int8)

    def make_room(self, iterations: int) -> None:
        """
        Clear the caches of plans if they would exceed the limit with a further plan of `iterations`
        iterations.
        """
        self.cached += iterations
        if self.cached > _MAX_CACHED_ITERATIONS:
            self.gemm_plans.clear()
            self.alu_plans.clear()
            self.cached = iterations


def _plan_key(uops: MicroOps, i: Gemm | Alu, outer: range) -> tuple[Hashable, ...]:
    """
    Return the key by which the plan of an instruction is cached: all its properties except tokens,
    opcode and immediate.
    """
    wgt = i.wgt_factors if isinstance(i, Gemm) else ()
    return (uops.tobytes(), outer.start, outer.stop, i.iter_in, i.dst_factors, i.src_factors, wgt)
