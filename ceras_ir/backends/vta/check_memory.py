"""
Memory as the checker sees it: who touched each element last, and whether it holds anything.

Two accesses of one element from different modules, one of them a write, must be ordered by
tokens. Stores are taken to read the accumulators too, as the functional simulator does, so a
load into ACC counts as a write of OUT.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.check_loops import LoopChecks
from ceras_ir.backends.vta.check_order import Order
from ceras_ir.backends.vta.hardware import SHR_RANGE
from ceras_ir.backends.vta.isa import (
    Alu,
    AluOpcode,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    Module,
    Store,
    module_of,
)
from ceras_ir.backends.vta.micro_ops import decode_micro_ops

Report = Callable[[int, str, str], None]
"""Called with instruction, rule and message."""

Elements = slice | NDArray[np.int64]

_GOOD, _STALE = 1, 2


class MemoryChecker:
    """Follows a stream in one allowed order; `visit` each instruction of it."""

    def __init__(
        self,
        stream: Sequence[Instruction],
        order: Order,
        board: VtaBoard,
        uop_words: NDArray[np.uint32],
        uop_base: int,
        dram_bytes: int | None,
        report: Report,
    ):
        self.stream, self.order, self.board, self.report = stream, order, board, report
        self.uop_words, self.uop_base, self.dram_bytes = uop_words, uop_base, dram_bytes
        self.loops = LoopChecks()
        self.touched: dict[tuple[str, Module, bool], NDArray[np.int32]] = {}
        self.holds = {m: np.zeros(board.elements(m), np.bool_) for m in MemoryType}
        self.out = np.zeros(board.acc, np.uint8)
        self.amounts = np.zeros(board.acc, np.bool_)
        """Which accumulators hold what was loaded to shift by."""
        self.uops = np.zeros(board.uops, np.uint32)
        self.unit = board.element_bytes(MemoryType.OUT)
        """Bytes of DRAM that are told apart: a smaller element shares its unit with neighbours."""
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

    def visit(self, index: int) -> None:
        """Check instruction `index`, and remember what it does."""
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
        """Report a race of this access with an earlier one, and remember it."""
        module = module_of(self.stream[index])
        clock = self.order.clocks[index]
        for other in Module:
            for wrote in (True, False) if write else (True,):
                past = self.touched.get((space, other, wrote))
                if other is module or past is None or not (seen := past[elements]).size:
                    continue
                if (latest := int(seen.max())) > clock[other]:
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
        """The access of a transfer to DRAM, and its range."""
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
        """Whether element `last` exists; reported if not."""
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
        """Whether all implementations shift alike by what `i` loads, as far as it is known."""
        size = self.board.element_bytes(i.memory) // self.uop_words.itemsize
        starts = (i.dram_base + i.x_stride * np.arange(i.y_size)) * size - self.uop_base
        rows = (self.uop_words[max(0, s) : max(0, s + i.x_size * size)] for s in starts.tolist())
        # As unsigned words, negative numbers are beyond it too.
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
        reads: list[tuple[MemoryType, int, int, int]] = []
        if isinstance(i, Gemm) and not i.reset:
            reads.append((MemoryType.INP, 1, i.src_factor_out, i.src_factor_in))
            reads.append((MemoryType.WGT, 2, i.wgt_factor_out, i.wgt_factor_in))
        elif isinstance(i, Alu) and not i.use_imm:
            reads.append((MemoryType.ACC, 1, i.src_factor_out, i.src_factor_in))
        for memory, column, outer, inner in reads:
            elements = self.reached(index, i, memory, uops[:, column], outer, inner)
            if elements is None:
                return
            self.initialised(index, memory, elements)
            if isinstance(i, Alu) and i.opcode is AluOpcode.SHR:
                self.shifts(index, elements)
            if memory is not MemoryType.ACC:
                self.access(index, memory.name.lower(), elements, write=False)
        dst = self.reached(index, i, MemoryType.ACC, uops[:, 0], i.dst_factor_out, i.dst_factor_in)
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

    def shifts(self, index: int, elements: NDArray[np.int64]) -> None:
        """Report a shift by what was not loaded as 0 to 15: HLS reads five bits with a sign."""
        if (bad := elements[~self.amounts[elements]]).size:
            message = f"shifts by acc element {bad[0]}, which was not loaded as 0 to {SHR_RANGE[1]}"
            self.report(index, "portable", message)

    def reached(
        self,
        index: int,
        i: Gemm | Alu,
        memory: MemoryType,
        first: NDArray[np.int64],
        outer: int,
        inner: int,
    ) -> NDArray[np.int64] | None:
        """The elements of `memory` that an index reaches, or None where it leaves `memory`."""
        last = int(first.max()) + outer * (i.iter_out - 1) + inner * (i.iter_in - 1)
        if not self.fits(index, memory, last):
            return None
        return self.loops.elements(np.ascontiguousarray(first), i, outer, inner)

    def initialised(self, index: int, memory: MemoryType, elements: Elements) -> bool:
        """Whether all of `elements` hold something; reported if not."""
        holds = self.holds[memory][elements]
        if holds.all():
            return True
        missing = np.flatnonzero(~holds)[0]
        element = elements.start + missing if isinstance(elements, slice) else elements[missing]
        self.report(index, "uninitialised", f"reads {memory.name.lower()} element {element}")
        return False
