"""
`ceras-run --vta-stream`: check, time and run a VTA stream that anybody made.

VTA adds the base register of a transfer's memory to its offset. Drivers of VTA leave all registers
0 and use absolute addresses in streams, or have one buffer for each memory and its address in the
register; `rebased` converts both to an image whose first byte is address 0. `reliance` reports what
a stream relies on that not every VTA gives, and `trial` runs it on on-chip memories that are zero
and that hold noise: where the results differ, they depend on it.
"""

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path

import numpy as np

from ceras_ir.backends.vta.execution.performance import LayerCost
from ceras_ir.backends.vta.lowering.image import Dram
from ceras_ir.backends.vta.machine.assembler import assemble_program
from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.check import MAX_FINDINGS, check_program, check_stream
from ceras_ir.backends.vta.machine.encoding import VtaProgram, decode, unused_bits, words
from ceras_ir.backends.vta.machine.isa import (
    INSTRUCTION_BYTES,
    Instruction,
    Load,
    MemoryType,
    Module,
    Store,
    describe,
)
from ceras_ir.backends.vta.machine.simulator import simulate
from ceras_ir.backends.vta.machine.time import simulate_time
from ceras_ir.backends.vta.machine.token_walk import StreamFinding
from ceras_ir.support.diagnostics import InputError, UsageError

NAMES = {
    memory.name.lower(): memory
    for memory in (
        *(MemoryType.UOP, MemoryType.WGT, MemoryType.INP),
        *(MemoryType.ACC, MemoryType.OUT),
    )
}
"""Memories that have a base register."""

_REGISTER_OF = {MemoryType.ACC_8BIT: MemoryType.ACC}


def rebased(
    stream: Iterable[Instruction],
    board: VtaBoard,
    base: int = 0,
    pointers: Mapping[MemoryType, int] | None = None,
    *,
    ored: bool = False,
) -> list[Instruction]:
    """
    The same stream for an image whose first byte was at address `base`, with `pointers` in the
    base registers, or none; `ored` where registers are not added, as in VTA's Chisel design.
    """
    found: list[Instruction] = []
    for index, i in enumerate(stream):
        if not isinstance(i, Load | Store) or not i.x_size:
            found.append(i)
            continue
        memory = i.memory if isinstance(i, Load) else MemoryType.OUT
        unit = board.element_bytes(memory)
        pointer = (pointers or {}).get(_REGISTER_OF.get(memory, memory), 0)
        offset = i.dram_base * unit & 0xFFFFFFFF
        address = pointer | offset if ored else pointer + offset
        if address < base or (address - base) % unit:
            raise InputError(
                f"instruction {index} ({describe(i)}): address {address:#x} is not a multiple of "
                f"{unit} bytes from the image's, {base:#x}"
            )
        found.append(replace(i, dram_base=(address - base) // unit))
    return found


def parse_address(text: str, what: str) -> int:
    """An address as the command line has it."""
    try:
        address = int(text, 0)
    except ValueError:
        address = -1
    if not 0 <= address < 1 << 32:
        raise InputError(f"{what}: expected an address below 2^32, got '{text}'")
    return address


def parse_pointers(text: str) -> dict[MemoryType, int]:
    """`inp=0x1000,wgt=0x5000`: what is in base registers; the others are 0."""
    found: dict[MemoryType, int] = {}
    for part in text.split(","):
        name, _, address = part.partition("=")
        if name not in NAMES:
            raise InputError(f"no base register '{name}', known are {', '.join(NAMES)}")
        found[NAMES[name]] = parse_address(address, name)
    return found


RELIANCE_BY_RULE = {
    "uninitialised": "on-chip memory that was never written",
    "hazard": "the order in which modules happen to run",
    "tokens": "tokens that are left over, or come from nowhere",
    "finish": "an end that is no FINISH",
    "range": "memory that is not there",
    "portable": "what implementations of VTA do differently",
}
"""Rule of the checker -> what a stream relies on that breaks it."""

NUMBER = re.compile(r"\d+")
MOST_COUNTED = 1_000_000
"""Findings; to count, all are wanted."""
NOISE_SEED = 1
SWITCHES = (None, 1)
"""Instructions before another module may run: as many as it can, or one."""


def reliance(findings: Sequence[StreamFinding]) -> list[str]:
    """
    A line for each kind of finding, with how many instructions and the first. Messages that differ
    in numbers alone are of one kind.
    """
    kinds: dict[tuple[str, str], list[StreamFinding]] = {}
    for finding in findings:
        plain = NUMBER.sub("", finding.message)
        kinds.setdefault((finding.rule, plain), []).append(finding)
    lines: list[str] = []
    for rule, text in RELIANCE_BY_RULE.items():
        for found in (found for (of, _), found in kinds.items() if of == rule):
            count = len({f.index for f in found})
            one = "instruction" if count == 1 else "instructions"
            lines.append(f"  {text}: {count} {one}, first {found[0].index}: {found[0].message}")
    return lines or ["  nothing: it is portable"]


def trial(stream: Sequence[Instruction], dram: Dram, board: VtaBoard) -> list[str]:
    """Whether results depend on what is on chip at the start, or on which module runs first."""
    expected = _result(stream, dram, board, seed=None)
    lines = [_difference("on-chip memory full of noise", expected, stream, dram, board)]
    orders = [
        _result_of_order(stream, dram, board, order, switch)
        for order in permutations(Module)
        for switch in SWITCHES
    ]
    wrong = sum(other is None or not np.array_equal(expected, other) for other in orders)
    lines.append(f"  modules in {len(orders)} other orders: {wrong or 'no'} other results")
    return lines


def _result(stream: Sequence[Instruction], dram: Dram, board: VtaBoard, seed: int | None) -> Dram:
    image = dram.copy()
    simulate(image, stream, board, seed=seed)
    return image


def _result_of_order(
    stream: Sequence[Instruction],
    dram: Dram,
    board: VtaBoard,
    order: Iterable[Module],
    switch: int | None,
) -> Dram | None:
    image = dram.copy()
    try:
        simulate(image, stream, board, order=tuple(order), switch_every=switch, seed=None)
    except InputError:
        return None
    return image


def _difference(
    name: str, expected: Dram, stream: Sequence[Instruction], dram: Dram, board: VtaBoard
) -> str:
    try:
        other = _result(stream, dram, board, NOISE_SEED)
    except InputError as error:
        return f"  {name}: it fails: {error}"
    count = int((expected != other).sum())
    return f"  {name}: {f'{count:,} other bytes' if count else 'the same results'}"


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


def run_stream(arguments: argparse.Namespace) -> None:
    """
    Print what the stream costs; with `--inputs` and `--outputs`, run it on that image too; with
    `--check`, refuse one that is not proven good; with `--relies`, say what it relies on instead.
    """
    from ceras_ir.backends.vta.machine.board import load_board
    from ceras_ir.backends.vta.machine.isa import DEFAULT_BOARD_NAME
    from ceras_ir.command.exit_status import Diagnostic, SourceError, naming

    _check_usage(arguments)
    board = load_board(getattr(arguments, "board", DEFAULT_BOARD_NAME))
    base = 0 if arguments.dram_base is None else parse_address(arguments.dram_base, "--dram-base")
    pointers = None if arguments.pointers is None else parse_pointers(arguments.pointers)
    with naming(arguments.vta_stream):
        stream = StreamFile.read(Path(arguments.vta_stream), board).placed(base, pointers, board)
        cost = stream.cost(board)
    dram = None
    if arguments.inputs is not None:
        dram = read_pieces(arguments.inputs, base)
        if "@" in arguments.inputs:
            dram = stream.grown(dram, board)
    if arguments.check and (findings := stream.check(dram, board)):
        raise SourceError([Diagnostic(str(f), arguments.vta_stream) for f in findings])
    lines = [summary(cost)]
    if arguments.relies:
        lines += ["relies on", *reliance(stream.check(dram, board, MOST_COUNTED))]
    if dram is not None:
        with naming(arguments.vta_stream):
            if arguments.relies:
                lines += ["tried with", *trial(stream.instructions, dram, board)]
            stream.run(dram, board, zeroed=arguments.zeroed)
        try:
            Path(arguments.outputs).write_bytes(dram.tobytes())
        except OSError as error:
            raise InputError(f"cannot write: {error.strerror}", arguments.outputs) from None
    print("\n".join(lines))


def _check_usage(arguments: argparse.Namespace) -> None:
    if arguments.model is not None or arguments.target is not None:
        raise UsageError("--vta-stream runs a stream alone: leave out model and --target")
    if (arguments.inputs is None) != (arguments.outputs is None):
        raise UsageError("--vta-stream takes --inputs and --outputs together, as DRAM images")
    wanted = next((f for f in ("check", "relies") if getattr(arguments, f)), None)
    if wanted and arguments.inputs is None and not arguments.vta_stream.endswith(".vtas"):
        raise UsageError(
            f"--{wanted} of a raw stream needs --inputs: micro-ops are in the DRAM image"
        )
    if arguments.check and arguments.relies:
        raise UsageError("--check refuses what --relies tells: give one of them")
