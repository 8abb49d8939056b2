"""
Prove that an instruction stream of VTA is correct, independently of the code that generates it.

All checks follow the order of `token_walk`, in which tokens permit the instructions to run: token
balance, hazards between modules, ranges, initialized reads and the portable subset. Only the
definition of instructions is shared with the builder and the simulators.
"""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.encoding import (
    DEFAULT_VTA_BOARD,
    VtaProgram,
    decode,
    decode_micro_ops,
    encode_micro_ops,
)
from ceras_ir.backends.vta.machine.isa import (
    GEMM_PIPELINE,
    SHR_RANGE,
    Alu,
    AluOpcode,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    Module,
    Store,
    module_of,
    violations,
)
from ceras_ir.backends.vta.machine.token_walk import StreamFinding, walk

MAX_STREAM_FINDINGS = 100
"""
The number of errors after which the check stops, because further errors contain little information.
"""

Indices = NDArray[np.int64]
Elements = slice | Indices

_GOOD, _STALE = 1, 2


def check_stream(
    instructions: bytes | Sequence[Instruction],
    uop_words: NDArray[np.uint32],
    uop_base: int = 0,
    board: VtaBoard = DEFAULT_VTA_BOARD,
    dram_bytes: int | None = None,
    max_findings: int = MAX_STREAM_FINDINGS,
) -> list[StreamFinding]:
    """
    Return at most `max_findings` errors of a stream, in the order of the stream; none if it is
    proven correct.

    `uop_words` are the 4-byte elements of DRAM from element `uop_base` on: a table of micro-ops, or
    an image, which also has the operands of shifts by vectors. `dram_bytes` is the size of DRAM,
    which transfers must not exceed; `None` if it is not known.
    """
    stream = decode(instructions, board) if isinstance(instructions, bytes) else instructions
    checker = StreamChecker(stream, board, uop_words, uop_base, dram_bytes)
    return checker.findings(max_findings)


def check_program(
    program: VtaProgram,
    board: VtaBoard = DEFAULT_VTA_BOARD,
    dram_bytes: int | None = None,
    max_findings: int = MAX_STREAM_FINDINGS,
) -> list[StreamFinding]:
    words = encode_micro_ops(program.micro_ops, board)
    base = program.uop_base
    return check_stream(program.instructions, words, base, board, dram_bytes, max_findings)


class StreamChecker:
    """
    The state of the checks of a stream: the last access to each element, and whether it was
    written.

    Two accesses of an element by different modules, including a write, must be ordered by tokens.
    Stores access the accumulators too, as in the functional simulator, so a load into ACC counts as
    a write of OUT.
    """

    def __init__(
        self,
        stream: Sequence[Instruction],
        board: VtaBoard,
        uop_words: NDArray[np.uint32],
        uop_base: int,
        dram_bytes: int | None,
    ):
        self.stream, self.board, self.order = stream, board, walk(stream)
        self.uop_words, self.uop_base, self.dram_bytes = uop_words, uop_base, dram_bytes
        self.found: list[StreamFinding] = []
        self.loops = _Loops()
        self.touched: dict[tuple[str, Module, bool], NDArray[np.int32]] = {}
        self.holds = {m: np.zeros(board.elements(m), np.bool_) for m in MemoryType}
        self.out = np.zeros(board.acc, np.uint8)
        self.amounts = np.zeros(board.acc, np.bool_)
        """
        Whether each accumulator holds an element of a loaded constant vector of shift amounts, from
        0 to 15.
        """
        self.uops = np.zeros(board.uops, np.uint32)
        self.unit = board.element_bytes(MemoryType.OUT)
        """The granule of DRAM in bytes: smaller elements share a granule with their neighbors."""
        last = 0
        for i in stream:
            if isinstance(i, Load | Store):
                rows = max(0, i.y_size - 1) * i.x_stride + i.x_size
                memory = i.memory if isinstance(i, Load) else MemoryType.OUT
                last = max(last, (i.dram_base + rows) * board.element_bytes(memory))
        self.sizes = {
            "inp": board.inp,
            "wgt": board.wgt,
            "acc": board.acc,
            "dram": last // self.unit + 1,
        }

    def findings(self, max_findings: int) -> list[StreamFinding]:
        for index, i in enumerate(self.stream):
            for message in violations(i):
                self.report(index, "portable", message)
        self.found += self.order.findings
        for index in self.order.sequence:
            self.visit(index)
            if len(self.found) >= max_findings:
                break
        return sorted(self.found, key=lambda f: f.index)[:max_findings]

    def report(self, index: int, rule: str, message: str) -> None:
        self.found.append(StreamFinding(index, rule, message))

    def visit(self, index: int) -> None:
        match i := self.stream[index]:
            case Load() if i.x_size:
                self.load(index, i)
            case Store() if i.x_size:
                self.store(index, i)
            case Gemm() | Alu() if i.iterations:
                self.loop(index, i)
            case _:
                pass

    def access(self, index: int, space: str, elements: Elements, *, write: bool) -> None:
        """
        Record that the instruction `index` reads or writes `elements` of the memory `space`. Report
        a hazard if an earlier access by another module is not ordered before it by tokens.
        """
        module = module_of(self.stream[index])
        clock = self.order.clocks[index]
        for other in Module:
            for wrote in (True, False) if write else (True,):
                past = self.touched.get((space, other, wrote))
                if other is module or past is None or not (positions := past[elements]).size:
                    continue
                if (latest := int(positions.max())) > clock[other]:
                    kinds = f"{'write' if write else 'read'} after {'write' if wrote else 'read'}"
                    culprit = self.order.members[other][latest - 1]
                    self.report(
                        index,
                        "hazard",
                        f"{space}: {kinds}, not ordered after instruction {culprit}",
                    )
        key = (space, module, write)
        if key not in self.touched:
            self.touched[key] = np.zeros(self.sizes[space], np.int32)
        self.touched[key][elements] = self.order.positions[index]

    def dram(self, index: int, i: Load | Store, memory: MemoryType, *, write: bool) -> None:
        """
        Record the DRAM range that a load or store accesses; report a range that exceeds DRAM, and
        hazards.
        """
        if not i.y_size:
            return
        unit = self.board.element_bytes(memory)
        starts = (i.dram_base + i.x_stride * np.arange(i.y_size, dtype=np.int64)) * unit
        end = int(starts[-1]) + i.x_size * unit
        if self.dram_bytes is not None and end > self.dram_bytes:
            self.report(index, "range", f"ends at byte {end} of {self.dram_bytes} in DRAM")
        first = starts // self.unit
        width = -(-i.x_size * unit // self.unit) + (unit < self.unit)
        units = (first[:, None] + np.arange(width)).reshape(-1)
        self.access(index, "dram", units[units < self.sizes["dram"]], write=write)

    def fits(self, index: int, memory: MemoryType, last: int) -> bool:
        """
        Return whether `memory` has the element `last`; otherwise also report the instruction
        `index`.
        """
        if last < (size := self.board.elements(memory)):
            return True
        self.report(index, "range", f"{memory.name.lower()} element {last} of {size}")
        return False

    def load(self, index: int, i: Load) -> None:
        memory = MemoryType.ACC if i.memory is MemoryType.ACC_8BIT else i.memory
        if not self.fits(index, memory, i.sram_base + i.elements - 1):
            return
        self.dram(index, i, i.memory, write=False)
        chip = slice(i.sram_base, i.sram_base + i.elements)
        self.holds[memory][chip] = True
        if memory is MemoryType.UOP:
            start = i.dram_base - self.uop_base
            words = self.uop_words[start : start + i.x_size] if start >= 0 else self.uop_words[:0]
            if len(words) < i.x_size or i.y_size != 1:
                self.report(index, "range", "loads micro-ops from outside their table")
            else:
                self.uops[chip] = words
            return
        if memory is MemoryType.ACC:
            self.out[chip] = _STALE
            self.amounts[chip] = self.portable_amounts(i)
        self.access(index, memory.name.lower(), chip, write=True)

    def portable_amounts(self, i: Load) -> bool:
        """
        Return whether the values that the load `i` transfers are known shift amounts from 0 to 15,
        which have the same effect in all implementations of VTA.
        """
        size = self.board.element_bytes(i.memory) // self.uop_words.itemsize
        starts = (i.dram_base + i.x_stride * np.arange(i.y_size)) * size - self.uop_base
        rows = (self.uop_words[max(0, s) : max(0, s + i.x_size * size)] for s in starts.tolist())
        # As unsigned words, negative values exceed the limit too.
        return all(bool((row <= SHR_RANGE[1]).all()) for row in rows)

    def store(self, index: int, i: Store) -> None:
        if not self.fits(index, MemoryType.OUT, i.sram_base + i.elements - 1):
            return
        chip = slice(i.sram_base, i.sram_base + i.elements)
        self.access(index, "acc", chip, write=False)
        self.dram(index, i, MemoryType.OUT, write=True)
        state = self.out[chip]
        for value, rule, message in (
            (0, "uninitialised", "was never written"),
            (_STALE, "portable", "was last written by a reset or a load, which leave OUT stale"),
        ):
            if (bad := np.flatnonzero(state == value)).size:
                self.report(index, rule, f"out element {i.sram_base + bad[0]} {message}")

    def loop(self, index: int, i: Gemm | Alu) -> None:
        if not self.fits(index, MemoryType.UOP, i.uop_end - 1):
            return
        if not self.initialised(index, MemoryType.UOP, slice(i.uop_bgn, i.uop_end)):
            return
        uops = decode_micro_ops(self.uops[i.uop_bgn : i.uop_end], self.board)
        reads: list[tuple[MemoryType, int, tuple[int, int]]] = []
        if isinstance(i, Gemm) and not i.reset:
            reads += [(MemoryType.INP, 1, i.src_factors), (MemoryType.WGT, 2, i.wgt_factors)]
        elif isinstance(i, Alu) and not i.use_imm:
            reads.append((MemoryType.ACC, 1, i.src_factors))
        for memory, column, factors in reads:
            elements = self.reached(index, i, memory, uops[:, column], factors)
            if elements is None:
                return
            self.initialised(index, memory, elements)
            if isinstance(i, Alu) and i.opcode is AluOpcode.SHR:
                self.shifts(index, elements)
            if memory is not MemoryType.ACC:
                self.access(index, memory.name.lower(), elements, write=False)
        dst = self.reached(index, i, MemoryType.ACC, uops[:, 0], i.dst_factors)
        if dst is None:
            return
        reset = isinstance(i, Gemm) and i.reset
        if not reset:
            self.initialised(index, MemoryType.ACC, dst)
        if message := self.loops.conflict(uops, i):
            self.report(index, "portable", message)
        self.access(index, "acc", dst, write=True)
        self.holds[MemoryType.ACC][dst] = True
        self.amounts[dst] = False
        self.out[dst] = _STALE if reset else _GOOD

    def shifts(self, index: int, elements: Indices) -> None:
        """
        Report a shift by accumulators (`elements`) other than constants from 0 to 15 that a load
        stored there. VTA in HLS uses only the lowest five bits of the amount as a signed number, so
        other amounts give different results there.
        """
        if (bad := elements[~self.amounts[elements]]).size:
            message = f"shifts by acc element {bad[0]}, which was not loaded as 0 to {SHR_RANGE[1]}"
            self.report(index, "portable", message)

    def reached(
        self,
        index: int,
        i: Gemm | Alu,
        memory: MemoryType,
        first: Indices,
        factors: tuple[int, int],
    ) -> Indices | None:
        """
        Return the elements of `memory` that an operand of a GEMM or ALU instruction accesses in all
        iterations, or `None` (and report it) if one does not exist. `first` has the indices in the
        micro-ops, `factors` the strides of the two loops.
        """
        if not self.fits(index, memory, i.last_index(int(first.max()), factors)):
            return None
        return self.loops.elements(np.ascontiguousarray(first), i, factors)

    def initialised(self, index: int, memory: MemoryType, elements: Elements) -> bool:
        """
        Return whether the stream has written all of `elements` before; otherwise also report the
        first that was not written.
        """
        holds = self.holds[memory][elements]
        if holds.all():
            return True
        missing = np.flatnonzero(~holds)[0]
        element = elements.start + missing if isinstance(elements, slice) else elements[missing]
        self.report(index, "uninitialised", f"reads {memory.name.lower()} element {element}")
        return False


class _Loops:
    """
    Computes the elements that the loops of GEMM and ALU instructions access, and conflicts of
    overlapping iterations. Results are cached, because a stream repeats loops.
    """

    def __init__(self):
        self._elements: dict[Hashable, Indices] = {}
        self._conflicts: dict[Hashable, str | None] = {}

    def elements(self, first: Indices, i: Gemm | Alu, factors: tuple[int, int]) -> Indices:
        """
        Return the distinct elements that an operand accesses in all iterations. `first` has the
        indices in the micro-ops, `factors` the strides of the outer and the inner loop.
        """
        outer, inner = factors
        key = (first.tobytes(), i.iter_out, i.iter_in, factors)
        if (found := self._elements.get(key)) is None:
            a = np.arange(i.iter_out if outer else 1, dtype=np.int64) * outer
            b = np.arange(i.iter_in if inner else 1, dtype=np.int64) * inner
            offsets = np.unique(np.add.outer(a, b))
            base = np.unique(first)
            reached = np.zeros(int(base[-1] + offsets[-1]) + 1, np.bool_)
            reached[np.add.outer(base, offsets)] = True
            found = self._elements[key] = np.flatnonzero(reached)
        return found

    def conflict(self, uops: Indices, i: Gemm | Alu) -> str | None:
        """
        Return the reason why iterations of the instruction must not overlap in the pipeline,
        although they do, or `None`.

        GEMM: HLS pipelines `acc_mem` with `DEPENDENCE inter false`, so an iteration must not write
        the accumulators of the two previous iterations. ALU: the result of the previous iteration
        is not yet available.
        """
        if isinstance(i, Gemm) and i.reset:
            return None
        use_imm = isinstance(i, Alu) and i.use_imm
        loop = (i.iter_out, i.iter_in, i.dst_factors, i.src_factors)
        key = (type(i), use_imm, uops.tobytes(), loop)
        if key not in self._conflicts:
            self._conflicts[key] = self._find_conflict(uops, i, use_imm)
        return self._conflicts[key]

    def _find_conflict(self, uops: Indices, i: Gemm | Alu, use_imm: bool) -> str | None:
        if use_imm and (uops[:, 0] != uops[:, 1]).any():
            return "an immediate operation must have src index equal to dst index"
        same_steps = i.dst_factors == i.src_factors
        # Later outer iterations differ only in the position of sources relative to dst.
        sources_matter = isinstance(i, Alu) and not use_imm and not same_steps
        outer = i.iter_out if sources_matter else min(i.iter_out, 3)
        a = np.arange(outer, dtype=np.int64)[:, None]
        b = np.arange(i.iter_in, dtype=np.int64)
        dst_runs = _consecutive((a * i.dst_factor_out + b * i.dst_factor_in).reshape(-1))
        src_runs = _consecutive((a * i.src_factor_out + b * i.src_factor_in).reshape(-1))
        relative = np.concatenate([dst_runs, src_runs], axis=1) - dst_runs[:, :1]
        kept = relative if sources_matter else relative[:, : dst_runs.shape[1]]
        _, chosen = np.unique(kept, axis=0, return_index=True)
        dst = (dst_runs[chosen][:, :, None] + uops[:, 0]).reshape(len(chosen), -1)
        src = (src_runs[chosen][:, :, None] + uops[:, 1]).reshape(len(chosen), -1)
        for lag in range(1, 1 + GEMM_PIPELINE) if isinstance(i, Gemm) else (1,):
            if (dst[:, lag:] == dst[:, :-lag]).any():
                return f"writes the same accumulator {lag} iterations apart"
        if isinstance(i, Alu) and not use_imm and (src[:, 1:] == dst[:, :-1]).any():
            return "reads the result of the previous iteration"
        return None


def _consecutive(steps: Indices) -> Indices:
    """
    Return each three consecutive elements of `steps` as a row, [n - 2, 3]: the iterations that
    overlap in the pipeline. Fewer than three elements are a single row.
    """
    if len(steps) < 3:
        return steps[None, :]
    return np.stack([steps[:-2], steps[1:-1], steps[2:]], axis=1)
