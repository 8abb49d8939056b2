"""Run a stream from a file, ours or anybody's: its time, and on a DRAM image its effect."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ceras_ir.backends.vta.assembler import assemble_program
from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.checker import check_program, check_stream
from ceras_ir.backends.vta.encoding import decode
from ceras_ir.backends.vta.findings import StreamFinding
from ceras_ir.backends.vta.hardware import INSTRUCTION_BYTES
from ceras_ir.backends.vta.image import Dram
from ceras_ir.backends.vta.isa import Instruction, MemoryType, Module
from ceras_ir.backends.vta.performance import LaunchCost
from ceras_ir.backends.vta.program import VtaProgram
from ceras_ir.backends.vta.simulator import simulate
from ceras_ir.backends.vta.timed_simulator import simulate_time
from ceras_ir.support.diagnostics import InputError


@dataclass(frozen=True, eq=False)
class StreamFile:
    """Instructions, and the micro-op table if the file has one."""

    name: str
    instructions: list[Instruction]
    program: VtaProgram | None

    @classmethod
    def read(cls, path: Path, board: VtaBoard) -> "StreamFile":
        """`.vtas` is text; anything else holds raw instructions of 16 bytes."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", str(path)) from None
        if path.suffix == ".vtas":
            try:
                program = assemble_program(data.decode("utf-8"), str(path), board)
            except UnicodeDecodeError:
                raise InputError("not text in UTF-8", str(path)) from None
            return cls(path.name, list(program.instructions), program)
        if not data or len(data) % INSTRUCTION_BYTES:
            raise InputError(
                f"{len(data)} bytes are not a number of instructions of {INSTRUCTION_BYTES} bytes",
                str(path),
            )
        return cls(path.name, decode(data, board), None)

    def cost(self, board: VtaBoard) -> LaunchCost:
        """What the stream takes by itself; operands are not known, so all traffic is needed."""
        run = simulate_time(self.instructions, board)
        bound = run.loaded_bytes + run.stored_bytes
        return LaunchCost(self.name, len(self.instructions), run, bound)

    def check(self, dram: Dram | None, board: VtaBoard) -> list[StreamFinding]:
        """What is wrong with it; micro-ops are its own, or those of `dram`."""
        size = None if dram is None else len(dram)
        if self.program is not None:
            return check_program(self.program, board, size)
        assert dram is not None
        words = dram[: len(dram) // 4 * 4].view(np.uint32)
        return check_stream(self.instructions, words, 0, board, size)

    def run(self, dram: Dram, board: VtaBoard) -> None:
        """Run on `dram`, in place, after putting the micro-op table of a `.vtas` into it."""
        if self.program is not None:
            table = np.frombuffer(self.program.micro_op_bytes(board), np.uint8)
            start = self.program.uop_base * board.element_bytes(MemoryType.UOP)
            if start + len(table) > len(dram):
                raise InputError(
                    f"the micro-op table ends at byte {start + len(table)}, the image has "
                    f"{len(dram)}",
                    self.name,
                )
            dram[start : start + len(table)] = table
        simulate(dram, self.instructions, board)


def summary(cost: LaunchCost) -> str:
    """A few lines for people."""
    run = cost.run
    lines = [
        f"{cost.name}: {cost.instructions:,} instructions, {run.cycles:,} cycles, "
        f"{100 * run.gemm_share:.1f}% of them multiply, bound by {run.bound_by}",
        f"  {run.loaded_bytes:,} bytes loaded, {run.stored_bytes:,} stored",
    ]
    for module in Module:
        stalls = ", ".join(
            f"{cycles:,} for {reason}"
            for (stalled, reason), cycles in sorted(run.stalls.items())
            if stalled is module
        )
        waits = f", waits {stalls}" if stalls else ""
        lines.append(f"  {module.name.lower():7} busy {run.busy[module]:,}{waits}")
    return "\n".join(lines)


def read_image(path: Path) -> Dram:
    """A DRAM image from a file."""
    try:
        return np.fromfile(path, np.uint8)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", str(path)) from None
