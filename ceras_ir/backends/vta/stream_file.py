"""Run a stream from a file, ours or anybody's: its time, and on a DRAM image its effect."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ceras_ir.backends.vta.addresses import parse_address, rebased
from ceras_ir.backends.vta.assembler import assemble_program
from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.encoding import decode, unused_bits, words
from ceras_ir.backends.vta.hardware import INSTRUCTION_BYTES
from ceras_ir.backends.vta.image import Dram
from ceras_ir.backends.vta.isa import Instruction, MemoryType, Module, Store
from ceras_ir.backends.vta.machine.check import (
    MAX_FINDINGS,
    StreamFinding,
    check_program,
    check_stream,
)
from ceras_ir.backends.vta.machine.time import simulate_time
from ceras_ir.backends.vta.performance import LayerCost
from ceras_ir.backends.vta.program import VtaProgram
from ceras_ir.backends.vta.simulator import simulate
from ceras_ir.support.diagnostics import InputError, UsageError

MOST_BYTES = 1 << 28
"""Of an image of several files; more is taken for a mistake in addresses."""


@dataclass(frozen=True, eq=False)
class StreamFile:
    """Instructions, and the micro-op table if the file has one."""

    name: str
    instructions: list[Instruction]
    program: VtaProgram | None
    unused: tuple[StreamFinding, ...] = ()
    """Instructions with bits that no field has. No implementation reads them."""

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
        unused = tuple(
            StreamFinding(i, "portable", f"bit {(bits & -bits).bit_length() - 1} must be zero")
            for i, word in enumerate(words(data))
            if (bits := unused_bits(word, board))
        )
        return cls(path.name, decode(data, board, lenient=True), None, unused)

    def placed(
        self, base: int, pointers: Mapping[MemoryType, int] | None, board: VtaBoard
    ) -> "StreamFile":
        """The same for an image that was at `base`, with `pointers` in the base registers."""
        if not base and not pointers:
            return self
        if self.program is not None:
            raise UsageError("the addresses of a .vtas are those of its image")
        return replace(self, instructions=rebased(self.instructions, board, base, pointers))

    def cost(self, board: VtaBoard) -> LayerCost:
        """What the stream takes by itself; operands are not known, so all traffic is needed."""
        run = simulate_time(self.instructions, board)
        bound = run.loaded_bytes + run.stored_bytes
        return LayerCost(self.name, len(self.instructions), run, bound, skipped=0.0)

    def check(
        self, dram: Dram | None, board: VtaBoard, most: int = MAX_FINDINGS
    ) -> list[StreamFinding]:
        """What is wrong with it, `most` findings; micro-ops are its own, or those of `dram`."""
        size = None if dram is None else len(dram)
        if self.program is not None:
            return check_program(self.program, board, size, most)
        assert dram is not None
        table = dram[: len(dram) // 4 * 4].view(np.uint32)
        found = check_stream(self.instructions, table, 0, board, size, most)
        return sorted([*self.unused, *found], key=lambda finding: finding.index)

    def grown(self, dram: Dram, board: VtaBoard) -> Dram:
        """`dram`, with zeros behind it as far as the stream stores; results need no file."""
        unit = board.element_bytes(MemoryType.OUT)
        ends = [
            (i.dram_base + (i.y_size - 1) * i.x_stride + i.x_size) * unit
            for i in self.instructions
            if isinstance(i, Store) and i.x_size and i.y_size
        ]
        missing = min(max(ends, default=0), MOST_BYTES) - len(dram)
        return dram if missing <= 0 else np.concatenate([dram, np.zeros(missing, np.uint8)])

    def run(self, dram: Dram, board: VtaBoard, *, zeroed: bool = False) -> None:
        """
        Run on `dram`, in place, after putting the micro-op table of a `.vtas` into it; on chip is
        noise, or zero with `zeroed`.
        """
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
        simulate(dram, self.instructions, board, seed=None if zeroed else 0)


def summary(cost: LayerCost) -> str:
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


def read_pieces(pieces: str, base: int) -> Dram:
    """
    The image from `FILE`, or of several files at addresses: `FILE@ADDRESS,FILE@ADDRESS`, zero
    between them, as far as the last goes. It begins at address `base`.
    """
    if "@" not in pieces:
        return read_image(Path(pieces))
    parts: list[tuple[int, Dram]] = []
    for piece in pieces.split(","):
        file, at, address = piece.rpartition("@")
        if not at:
            raise InputError(f"expected FILE@ADDRESS, got '{piece}'")
        start = parse_address(address, file) - base
        if start < 0:
            raise InputError(f"at {address}, before the image at {base:#x}", file)
        parts.append((start, read_image(Path(file))))
    if (size := max(start + len(data) for start, data in parts)) > MOST_BYTES:
        raise InputError(
            f"the image would have {size:,} bytes: say with --dram-base where it begins"
        )
    image = np.zeros(size, np.uint8)
    taken = np.zeros(len(image), np.bool_)
    for start, data in parts:
        if taken[start : start + len(data)].any():
            raise InputError(f"two files at {base + start:#x}")
        taken[start : start + len(data)] = True
        image[start : start + len(data)] = data
    return image


def read_image(path: Path) -> Dram:
    """A DRAM image from a file."""
    try:
        return np.fromfile(path, np.uint8)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", str(path)) from None
