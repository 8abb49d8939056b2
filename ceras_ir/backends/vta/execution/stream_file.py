"""
Check, time and execute a VTA instruction stream from any source, for `ceras-run --vta-stream`.

VTA adds the base register of the memory of a transfer to the offset. Drivers of VTA leave all
registers 0 and use absolute addresses in streams, or have a buffer for each memory with the address
in the register. `rebased` converts both to an image at address 0. `reliance` lists dependences on
behavior that not all VTAs share. `trial` executes the stream on on-chip memories with zeros and
with noise: if the results differ, they depend on initial contents.
"""

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from pathlib import Path

import numpy as np

from ceras_ir.backends.vta.execution.image import Dram
from ceras_ir.backends.vta.execution.performance import LayerCost
from ceras_ir.backends.vta.machine.assembler import assemble_program
from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.check import MAX_STREAM_FINDINGS, check_program, check_stream
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
from ceras_ir.support.diagnostics import InputError, UsageError, cannot_write, with_remedy
from ceras_ir.support.user_files import read_bytes, regular

MEMORY_NAMES = {
    memory.name.lower(): memory
    for memory in (
        *(MemoryType.UOP, MemoryType.WGT, MemoryType.INP),
        *(MemoryType.ACC, MemoryType.OUT),
    )
}
"""The on-chip memories that have a base register, by name."""

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
    Return the stream with DRAM addresses relative to the start of a DRAM image, which the stream
    expects at address `base`.

    `pointers` are the contents of the base registers, which VTA adds to the addresses in the
    stream; missing registers are 0. With `ored`, they are combined by bitwise OR, as in the Chisel
    design.
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
                f"{unit} bytes from the start of the image, {base:#x}"
            )
        found.append(replace(i, dram_base=(address - base) // unit))
    return found


def parse_address(text: str, label: str) -> int:
    try:
        address = int(text, 0)
    except ValueError:
        address = -1
    if not 0 <= address < 1 << 32:
        raise InputError(f"{label}: expected an address below 2^32, got '{text}'")
    return address


def parse_pointers(text: str) -> dict[MemoryType, int]:
    """
    Return the contents of the base registers that `text` lists, such as `inp=0x1000,wgt=0x5000`.
    Other registers are not in the result; they are 0.
    """
    found: dict[MemoryType, int] = {}
    for part in text.split(","):
        name, _, address = part.partition("=")
        if name not in MEMORY_NAMES:
            raise InputError(f"no base register '{name}', known are {', '.join(MEMORY_NAMES)}")
        found[MEMORY_NAMES[name]] = parse_address(address, name)
    return found


RELIANCE_BY_RULE = {
    "uninitialised": "on-chip memory that was never written",
    "hazard": "the order in which modules happen to run",
    "tokens": "tokens that are left over, or not pushed",
    "finish": "an end without FINISH",
    "range": "memory that does not exist",
    "portable": "behavior that differs between implementations of VTA",
}
"""
The undefined behavior on which a stream relies if it violates a rule of the checker, by the name of
the rule.
"""

NUMBER = re.compile(r"\d+")
MAX_COUNTED_FINDINGS = 1_000_000
NOISE_SEED = 1
SWITCHES = (None, 1)
"""The number of instructions after which another module must run: no limit, or 1."""


def reliance(findings: Sequence[StreamFinding]) -> list[str]:
    """
    Return a line of text for each kind of undefined behavior on which a stream relies, with the
    number of instructions and the first; a line that says "nothing" if there is none. Findings with
    messages that differ only in integers are one kind.
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
    """
    Execute the stream on copies of `dram` with different initial contents of on-chip memories, and
    with different orders of the modules. Return two lines of text that state the number of
    different results.
    """
    expected, noisy = dram.copy(), dram.copy()
    simulate(expected, stream, board, seed=None)
    try:
        simulate(noisy, stream, board, seed=NOISE_SEED)
        count = int((expected != noisy).sum())
        effect = f"{count:,} other bytes" if count else "the same results"
    except InputError as error:
        effect = f"it fails: {error}"
    orders, different = list(product(permutations(Module), SWITCHES)), 0
    for order, switch in orders:
        image = dram.copy()
        try:
            simulate(image, stream, board, order=order, switch_every=switch, seed=None)
            different += not np.array_equal(expected, image)
        except InputError:
            different += 1
    return [
        f"  on-chip memory full of noise: {effect}",
        f"  modules in {len(orders)} other orders: {different or 'no'} other results",
    ]


MAX_IMAGE_BYTES = 1 << 28
"""The maximum size of an image of several files; a larger size indicates wrong addresses."""


@dataclass(frozen=True, eq=False)
class StreamFile:
    """
    The instructions of a stream file. `program` also has the table of micro-ops if the file is a
    `.vtas`.
    """

    name: str
    instructions: list[Instruction]
    program: VtaProgram | None
    unused: tuple[StreamFinding, ...] = ()
    """
    Findings for instructions in which bits that belong to no field are not zero. VTA ignores these
    bits.
    """

    @classmethod
    def read(cls, path: Path, board: VtaBoard) -> "StreamFile":
        """Read a stream file: `.vtas` is text, other files contain raw instructions of 16 bytes."""
        try:
            data = read_bytes(path)
        except OSError as error:
            raise InputError(
                f"cannot be read: {with_remedy(error, str(path))}", str(path)
            ) from None
        if path.suffix == ".vtas":
            try:
                program = assemble_program(data.decode("utf-8"), str(path), board)
            except UnicodeDecodeError:
                raise InputError("not text in UTF-8", str(path)) from None
            return cls(path.name, list(program.instructions), program)
        if not data or len(data) % INSTRUCTION_BYTES:
            raise InputError(
                f"{len(data)} bytes are no multiple of the instruction size, {INSTRUCTION_BYTES}",
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
        """
        Return the stream with addresses relative to the DRAM image, which it expects at address
        `base`. `pointers` are the contents of the base registers; `None` if all are 0.
        """
        if not base and not pointers:
            return self
        if self.program is not None:
            raise UsageError("--dram-base and --pointers do not apply to a .vtas file")
        return replace(self, instructions=rebased(self.instructions, board, base, pointers))

    def cost(self, board: VtaBoard) -> LayerCost:
        """
        Return the modelled cost of the stream. Operands and results are unknown, so the lower bound
        of the DRAM traffic is the traffic of the stream itself.
        """
        run = simulate_time(self.instructions, board)
        bound = run.loaded_bytes + run.stored_bytes
        return LayerCost(self.name, len(self.instructions), run, bound, skipped=0.0)

    def check(
        self, dram: Dram | None, board: VtaBoard, max_findings: int = MAX_STREAM_FINDINGS
    ) -> list[StreamFinding]:
        """
        Return the first `max_findings` errors of the stream. A `.vtas` file contains the micro-ops
        of the stream; for other files, `dram`, the DRAM image with the micro-ops, is required.
        """
        size = None if dram is None else len(dram)
        if self.program is not None:
            return check_program(self.program, board, size, max_findings)
        assert dram is not None
        table = dram[: len(dram) // 4 * 4].view(np.uint32)
        found = check_stream(self.instructions, table, 0, board, size, max_findings)
        return sorted([*self.unused, *found], key=lambda finding: finding.index)

    def grown(self, dram: Dram, board: VtaBoard) -> Dram:
        """
        Return the image `dram`, extended by zeros so that it contains all bytes that the stream
        stores.
        """
        unit = board.element_bytes(MemoryType.OUT)
        store_ends = [
            (i.dram_base + (i.y_size - 1) * i.x_stride + i.x_size) * unit
            for i in self.instructions
            if isinstance(i, Store) and i.x_size and i.y_size
        ]
        missing = min(max(store_ends, default=0), MAX_IMAGE_BYTES) - len(dram)
        return dram if missing <= 0 else np.concatenate([dram, np.zeros(missing, np.uint8)])

    def run(self, dram: Dram, board: VtaBoard, *, zeroed: bool = False) -> None:
        """
        Execute the stream on the image `dram`, which is changed in place. On-chip memories
        initially contain noise, or zeros with `zeroed`.
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
    Return the DRAM image in the file `pieces`, or of several files at addresses
    (`FILE@ADDRESS,FILE@ADDRESS`) with zeros between them. Address `base` is the start of the image.
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
            raise InputError(f"at {address}, before the start of the image at {base:#x}", file)
        parts.append((start, read_image(Path(file))))
    if (size := max(start + len(data) for start, data in parts)) > MAX_IMAGE_BYTES:
        raise InputError(f"the image has {size:,} bytes: set the start with --dram-base")
    image = np.zeros(size, np.uint8)
    is_used = np.zeros(len(image), np.bool_)
    for start, data in parts:
        if is_used[start : start + len(data)].any():
            raise InputError(f"two files at {base + start:#x}")
        is_used[start : start + len(data)] = True
        image[start : start + len(data)] = data
    return image


def read_image(path: Path) -> Dram:
    try:
        return np.fromfile(regular(path), np.uint8)
    except OSError as error:
        reason = with_remedy(error, str(path))
        raise InputError(f"cannot be read: {reason}", str(path)) from None


def run_stream(arguments: argparse.Namespace) -> None:
    """
    Execute `ceras-run --vta-stream`: print the cost of an instruction stream.

    With `--inputs` and `--outputs`, also execute it on that DRAM image. With `--check`, refuse a
    stream that is not proven correct. With `--relies`, list the undefined behavior on which it
    depends.
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
        lines += ["relies on", *reliance(stream.check(dram, board, MAX_COUNTED_FINDINGS))]
    if dram is not None:
        with naming(arguments.vta_stream):
            if arguments.relies:
                lines += ["tried with", *trial(stream.instructions, dram, board)]
            stream.run(dram, board, zeroed=arguments.zeroed)
        try:
            Path(arguments.outputs).write_bytes(dram.tobytes())
        except OSError as error:
            raise cannot_write(error, arguments.outputs) from None
    print("\n".join(lines))


def _check_usage(arguments: argparse.Namespace) -> None:
    if arguments.model is not None or arguments.target is not None:
        raise UsageError("--vta-stream runs a stream only: omit model and --target")
    if (arguments.inputs is None) != (arguments.outputs is None):
        raise UsageError("--vta-stream needs --inputs and --outputs together, as DRAM images")
    wanted = next((f for f in ("check", "relies") if getattr(arguments, f)), None)
    if wanted and arguments.inputs is None and not arguments.vta_stream.endswith(".vtas"):
        raise UsageError(
            f"--{wanted} of a raw stream needs --inputs: micro-ops are in the DRAM image"
        )
    if arguments.check and arguments.relies:
        raise UsageError("--check refuses the findings of --relies: use only one option")
