"""
The instructions of the array: 32 bytes each, eight little-endian int32, the opcode first.

    CONFIG   sets what FILL writes, and how MVOUT makes int8 of a sum
    MVIN     rows of bytes from memory into rows of the scratchpad; the rest of a row is zero
    FILL     rows of the scratchpad become the padding value
    PRELOAD  a row of int32 (the bias) from memory into each of some accumulator rows
    ADD      rows of int8 (the residual) from memory, shifted left, onto accumulator rows
    COMPUTE  acc[acc + r][j] += sum over k of sp[a + r * step][k] * sp[b + k][j]
    MVOUT    accumulator rows to memory, as clamp(((x + half) >> shift) + point, low, high)

Memory is bytes, `dram` an address, and `stride` how far one row begins behind the other. Sums are
of 32 bits and wrap around; `half` is 2^(shift - 1), or 0, and is added in more bits than 32.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from ceras_ir.support.diagnostics import InputError
from ceras_systolic.board import Board

WORD = struct.Struct("<8i")


class Op(IntEnum):
    CONFIG = 1
    MVIN = 2
    FILL = 3
    PRELOAD = 4
    ADD = 5
    COMPUTE = 6
    MVOUT = 7


FIELDS: dict[Op, tuple[str, ...]] = {
    Op.CONFIG: ("pad", "shift", "point", "low", "high"),
    Op.MVIN: ("dram", "stride", "sp", "rows", "cols"),
    Op.FILL: ("sp", "rows"),
    Op.PRELOAD: ("dram", "acc", "rows"),
    Op.ADD: ("dram", "stride", "acc", "rows", "cols", "left"),
    Op.COMPUTE: ("a", "step", "b", "acc", "rows"),
    Op.MVOUT: ("dram", "stride", "acc", "rows", "cols"),
}
"""What the words behind the opcode are; the rest are zero."""


@dataclass(frozen=True)
class Instruction:
    op: Op
    words: tuple[int, ...]

    def __str__(self) -> str:
        pairs = zip(FIELDS[self.op], self.words, strict=True)
        return " ".join([self.op.name.lower(), *(f"{name}={word}" for name, word in pairs)])

    def cycles(self, board: Board) -> int:
        """How long the array takes for it."""
        field = dict(zip(FIELDS[self.op], self.words, strict=True))
        match self.op:
            case Op.MVIN | Op.ADD | Op.MVOUT:
                return board.dma(field["rows"] * field["cols"])
            case Op.PRELOAD:
                return board.dma(4 * board.size) + field["rows"]
            case Op.COMPUTE:
                return board.size
            case Op.FILL:
                return field["rows"]
            case Op.CONFIG:
                return 1


def encode(instructions: Iterable[Instruction]) -> bytes:
    """The stream as the array fetches it."""
    return b"".join(WORD.pack(i.op, *i.words, *[0] * (7 - len(i.words))) for i in instructions)


def decode(stream: bytes) -> Iterator[Instruction]:
    """The instructions of a stream; an `InputError` where it has none."""
    if len(stream) % WORD.size:
        raise InputError(f"a stream of {len(stream)} bytes is no multiple of {WORD.size}")
    for number, (opcode, *words) in enumerate(WORD.iter_unpack(stream)):
        if opcode not in set(Op):
            raise InputError(f"instruction {number} has the unknown opcode {opcode}")
        op = Op(opcode)
        count = len(FIELDS[op])
        if any(words[count:]):
            raise InputError(f"instruction {number} ({op.name}) has words behind its fields")
        yield Instruction(op, tuple(words[:count]))
