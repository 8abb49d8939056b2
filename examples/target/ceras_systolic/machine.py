"""
Define the instructions of the array, and simulate them in NumPy bit for bit.

An instruction is eight little-endian int32, the opcode first. Memory is bytes. `dram` is an address
and `stride` the distance between rows. Sums have 32 bits and wrap around. `half` is 2^(shift - 1),
or 0, and is added with more than 32 bits.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ceras_ir.support.diagnostics import InputError
from ceras_systolic.board import Board

WORD = struct.Struct("<8i")


class Op(IntEnum):
    CONFIG = 1  # set the padding, and the conversion of MVOUT from sums to int8
    MVIN = 2  # load rows of bytes to the scratchpad, zero after cols; rows of padding around them
    PRELOAD = 3  # load a row of int32, the bias, to each of some rows of accumulators
    ADD = 4  # add rows of int8, the residual, shifted left, to accumulators
    COMPUTE = 5  # acc[acc + r][j] += sum over k of sp[a + r * step][k] * sp[b + k][j]
    MVOUT = 6  # store clamp(((x + half) >> shift) + point, low, high) of accumulators to memory


FIELDS: dict[Op, tuple[str, ...]] = {
    Op.CONFIG: ("pad", "shift", "point", "low", "high"),
    Op.MVIN: ("dram", "stride", "sp", "before", "rows", "after", "cols"),
    Op.PRELOAD: ("dram", "acc", "rows"),
    Op.ADD: ("dram", "stride", "acc", "rows", "cols", "left"),
    Op.COMPUTE: ("a", "step", "b", "acc", "rows"),
    Op.MVOUT: ("dram", "stride", "acc", "rows", "cols"),
}
"""The names of the words after the opcode; the other words are zero."""


class Instruction(NamedTuple):
    op: Op
    words: tuple[int, ...]

    @property
    def fields(self) -> dict[str, int]:
        return dict(zip(FIELDS[self.op], self.words, strict=True))

    def __str__(self) -> str:
        return " ".join([self.op.name.lower(), *(f"{k}={v}" for k, v in self.fields.items())])

    def encode(self) -> bytes:
        return WORD.pack(self.op, *self.words, *[0] * (7 - len(self.words)))

    def cycles(self, board: Board) -> int:
        """Return the cycles of this instruction; the array runs one instruction at a time."""
        match self.op, self.fields:
            case Op.MVIN | Op.ADD | Op.MVOUT, {"rows": rows, "cols": cols}:
                return board.dma(rows * cols)
            case Op.PRELOAD, {"rows": rows}:
                return board.dma(4 * board.size) + rows
            case op, _:
                return board.size if op is Op.COMPUTE else 1


def decode(stream: bytes) -> Iterator[Instruction]:
    """Decode the instructions of a stream; raise `InputError` if a word is no instruction."""
    for opcode, *words in WORD.iter_unpack(stream):
        if opcode not in set(Op):
            raise InputError(f"no instruction of the array has opcode {opcode}")
        yield Instruction(Op(opcode), tuple(words[: len(FIELDS[Op(opcode)])]))


def simulate(stream: bytes, memory: NDArray[np.uint8], size: int, scratch: int, sums: int) -> None:
    """Run a stream that `check_stream` accepted on `memory`; the chip starts with random data."""
    signed = memory.view(np.int8)
    sp = np.full((scratch, size), 0x55, np.int8)
    acc = np.full((sums, size), 0x55555555, np.int32)
    pad = shift = point = low = high = 0

    def cells(dram: int, stride: int, rows: int, cols: int) -> NDArray[np.int64]:
        return dram + stride * np.arange(rows)[:, None] + np.arange(cols)

    for instruction in decode(stream):
        match instruction:
            case Op.CONFIG, (pad, shift, point, low, high):
                pass
            case Op.MVIN, (dram, stride, start, before, rows, after, cols):
                sp[start : start + before + rows + after] = pad
                block = sp[start + before : start + before + rows]
                block[:, :cols] = signed[cells(dram, stride, rows, cols)]
                block[:, cols:] = 0
            case Op.PRELOAD, (dram, row, rows):
                acc[row : row + rows] = memory[dram : dram + 4 * size].view("<i4")
            case Op.ADD, (dram, stride, row, rows, cols, left):
                added = signed[cells(dram, stride, rows, cols)].astype(np.int32) << left
                acc[row : row + rows, :cols] += added
            case Op.COMPUTE, (a, step, b, row, rows):
                inputs = sp[a : a + step * (rows - 1) + 1 : step].astype(np.int32)
                acc[row : row + rows] += inputs @ sp[b : b + size].astype(np.int32)
            case Op.MVOUT, (dram, stride, row, rows, cols):
                wide = acc[row : row + rows, :cols].astype(np.int64)
                scaled = ((wide + (1 << shift >> 1)) >> shift) + point
                signed[cells(dram, stride, rows, cols)] = np.clip(scaled, low, high)
            case other:
                raise AssertionError(other)
