"""
Encode instructions as 128-bit little-endian words and micro-ops as 32-bit words, and decode
them.

The layout is that of the C bit-fields in `hw_spec.h` (`VTAMemInsn`, `VTAGemInsn`, `VTAAluInsn`,
`VTAUop`), packed for the buffer sizes of a board. A value of the compiler that does not fit is a
`ValueError`. External bytes that are no instruction are an `InputError` with the index.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.isa import (
    IMMEDIATE_RANGE,
    INSTRUCTION_BYTES,
    TOKEN_FLAGS,
    Alu,
    AluOpcode,
    Finish,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    Opcode,
    Store,
    describe,
    is_immediate,
)
from ceras_ir.support.diagnostics import InputError

_KINDS: dict[type[Instruction], Opcode] = {
    Load: Opcode.LOAD,
    Store: Opcode.STORE,
    Gemm: Opcode.GEMM,
    Alu: Opcode.ALU,
    Finish: Opcode.FINISH,
}


class _Layout:
    """
    The bit positions of the fields of a kind of instruction in the 128-bit word, and a mask of
    unused bits.
    """

    def __init__(self, widths: dict[str, int]):
        self.fields: list[tuple[str, int, int]] = []
        """Name, lowest bit, and limit (exclusive) of the unsigned value."""
        position, used = 3, 0b111
        for name, width in (dict.fromkeys(TOKEN_FLAGS, 1) | widths).items():
            # A C bit-field never straddles its 64-bit unit.
            if position % 64 + width > 64:
                position += 64 - position % 64
            if not name.startswith("_"):
                self.fields.append((name, position, 1 << width))
                used |= ((1 << width) - 1) << position
            position += width
        assert position <= 128
        self.unused = ~used & ((1 << 128) - 1)


@lru_cache
def _layouts(board: VtaBoard) -> dict[Opcode, _Layout]:
    memory = {"memory": 3}
    transfer = {"sram_base": 16, "dram_base": 32, "y_size": 16, "x_size": 16, "x_stride": 16}
    pads = {"y_pad_top": 4, "y_pad_bottom": 4, "x_pad_left": 4, "x_pad_right": 4}
    uops, acc = board.log_uops, board.log_acc
    loop = {"uop_bgn": uops, "uop_end": uops + 1, "iter_out": 14, "iter_in": 14}
    loop |= {"dst_factor_out": acc, "dst_factor_in": acc}
    gemm = {"src_factor_out": board.log_inp, "src_factor_in": board.log_inp}
    gemm |= {"wgt_factor_out": board.log_wgt, "wgt_factor_in": board.log_wgt}
    alu = {"src_factor_out": acc, "src_factor_in": acc, "opcode": 3, "use_imm": 1, "imm": 16}
    return {
        Opcode.LOAD: _Layout(memory | transfer | pads),
        Opcode.STORE: _Layout(memory | transfer),
        Opcode.GEMM: _Layout({"reset": 1} | loop | gemm),
        Opcode.ALU: _Layout({"_reset": 1} | loop | alu),
        Opcode.FINISH: _Layout({}),
    }


DEFAULT_VTA_BOARD = VtaBoard()


def field_limits(
    kind: type[Instruction], board: VtaBoard = DEFAULT_VTA_BOARD
) -> dict[str, tuple[int, int]]:
    """Return the minimum and the maximum value of each field of an instruction of class `kind`."""
    fields = _layouts(board)[_KINDS[kind]].fields
    limits = {name: (0, limit - 1) for name, _, limit in fields if name != "memory"}
    if "imm" in limits:
        limits["imm"] = IMMEDIATE_RANGE
    return limits


def micro_op_limits(board: VtaBoard) -> tuple[int, int, int]:
    """
    Return the limits (exclusive) of the three indices in a micro-op: accumulator, input and weight.
    """
    return board.acc, max(board.acc, board.inp), board.wgt


def encode_instruction(instruction: Instruction, board: VtaBoard = DEFAULT_VTA_BOARD) -> bytes:
    opcode = _KINDS[type(instruction)]
    word = int(opcode)
    for name, position, limit in _layouts(board)[opcode].fields:
        if name == "imm":
            assert isinstance(instruction, Alu)
            if not is_immediate(instruction.imm):
                raise ValueError(
                    f"{describe(instruction)}: imm must be in [-32768, 32767], "
                    f"got {instruction.imm}"
                )
            value = instruction.imm & 0xFFFF
        elif name == "memory" and opcode is Opcode.STORE:
            value = MemoryType.OUT
        else:
            value: int = getattr(instruction, name)
        if not 0 <= value < limit:
            raise ValueError(
                f"{describe(instruction)}: {name} must be in [0, {limit - 1}], got {value}"
            )
        word |= value << position
    return word.to_bytes(INSTRUCTION_BYTES, "little")


def encode(instructions: Iterable[Instruction], board: VtaBoard = DEFAULT_VTA_BOARD) -> bytes:
    return b"".join([encode_instruction(i, board) for i in instructions])


def unused_bits(word: int, board: VtaBoard = DEFAULT_VTA_BOARD) -> int:
    """
    Return the bits of an encoded instruction `word` that are set but belong to no field, as an
    integer; 0 if the opcode is unknown.
    """
    opcode = word & 7
    return word & _layouts(board)[Opcode(opcode)].unused if opcode in _OPCODES else 0


def decode_instruction(
    word: int, board: VtaBoard = DEFAULT_VTA_BOARD, index: int = 0, *, lenient: bool = False
) -> Instruction:
    """
    Return the instruction that the 128-bit `word` encodes. An `InputError` names `index`, the
    number of the instruction. Bits without a field must be zero, unless `lenient`: no
    implementation reads them.
    """

    def bad(message: str) -> InputError:
        return InputError(f"instruction {index}: {message}")

    try:
        opcode = Opcode(word & 7)
    except ValueError:
        raise bad(f"unknown opcode {word & 7}") from None
    layout = _layouts(board)[opcode]
    if (extra := word & layout.unused) and not lenient:
        bit = (extra & -extra).bit_length() - 1
        raise bad(f"bit {bit} of a {opcode.name.lower()} must be zero")
    v = {name: (word >> at) & (limit - 1) for name, at, limit in layout.fields}
    flags = {name: bool(v.pop(name)) for name in TOKEN_FLAGS}
    match opcode:
        case Opcode.LOAD:
            memory = v.pop("memory")
            if memory not in _LOADED_MEMORIES:
                raise bad(f"a load into memory type {memory}")
            return Load(MemoryType(memory), **v, **flags)
        case Opcode.STORE:
            if (memory := v.pop("memory")) != MemoryType.OUT:
                raise bad(f"a store from memory type {memory}, must be 4 (OUT)")
            return Store(**v, **flags)
        case Opcode.GEMM:
            reset = bool(v.pop("reset"))
            return Gemm(**v, reset=reset, **flags)
        case Opcode.ALU:
            try:
                alu = AluOpcode(v.pop("opcode"))
            except ValueError as e:
                raise bad(f"unknown ALU opcode: {e}") from None
            imm = (v.pop("imm") ^ 0x8000) - 0x8000
            return Alu(alu, use_imm=bool(v.pop("use_imm")), imm=imm, **v, **flags)
        case Opcode.FINISH:
            return Finish(**flags)


_LOADED_MEMORIES = frozenset({0, 1, 2, 3, 5})
_OPCODES = frozenset(Opcode)


def words(data: bytes) -> list[int]:
    if len(data) % INSTRUCTION_BYTES:
        raise InputError(
            f"a stream has {INSTRUCTION_BYTES} bytes per instruction, got {len(data)} bytes in all"
        )
    starts = range(0, len(data), INSTRUCTION_BYTES)
    return [int.from_bytes(data[at : at + INSTRUCTION_BYTES], "little") for at in starts]


def decode(
    data: bytes, board: VtaBoard = DEFAULT_VTA_BOARD, *, lenient: bool = False
) -> list[Instruction]:
    """
    Return the instructions that the bytes of a stream encode, 16 bytes each. For `lenient`, see
    `decode_instruction`.
    """
    return [
        decode_instruction(word, board, index, lenient=lenient)
        for index, word in enumerate(words(data))
    ]


MicroOps = NDArray[np.int64]
"""
Micro-ops as an array of shape `[n, 3]`: the indices of accumulator (dst), input (src) and weight
(wgt).
"""


def micro_ops(rows: Iterable[Sequence[int]] | MicroOps) -> MicroOps:
    """
    Return an array of micro-ops [n, 3] from rows of one to three indices; missing indices are zero.
    """
    # Conversion by rows would take milliseconds for a table.
    if hasattr(rows, "dtype"):
        table = np.asarray(rows, np.int64)
        assert table.shape[1:] == (3,), "micro-ops are [n, 3]"
        return table.copy()
    padded = [(*row, 0, 0)[:3] for row in rows]
    return np.array(padded, np.int64).reshape(-1, 3)


def encode_micro_ops(table: MicroOps, board: VtaBoard = DEFAULT_VTA_BOARD) -> NDArray[np.uint32]:
    limits = zip(("dst", "src", "wgt"), micro_op_limits(board), strict=True)
    for column, (name, limit) in enumerate(limits):
        values = table[:, column]
        bad = np.flatnonzero((values < 0) | (values >= limit))
        if bad.size:
            raise ValueError(
                f"micro-op {bad[0]}: {name} must be in [0, {limit - 1}], got {values[bad[0]]}"
            )
    src_at, wgt_at = _positions(board)
    words = table[:, 0] | table[:, 1] << src_at | table[:, 2] << wgt_at
    return words.astype(np.uint32)


def decode_micro_ops(words: NDArray[np.uint32], board: VtaBoard = DEFAULT_VTA_BOARD) -> MicroOps:
    wide = words.astype(np.int64)
    src_at, wgt_at = _positions(board)
    dst = wide & (board.acc - 1)
    src = (wide >> src_at) & ((1 << (wgt_at - src_at)) - 1)
    return np.stack([dst, src, (wide >> wgt_at) & (board.wgt - 1)], axis=1)


def _positions(board: VtaBoard) -> tuple[int, int]:
    return board.log_acc, board.log_acc + max(board.log_acc, board.log_inp)


@dataclass(frozen=True, eq=False)
class VtaProgram:
    """The instructions of a launch, and the table of micro-ops that they load from DRAM."""

    instructions: Sequence[Instruction]
    micro_ops: MicroOps
    uop_base: int = 0
    """The position of the table in DRAM, in elements of 4 bytes."""
    kernels: Sequence[int] = ()
    """
    For each instruction, the number of the kernel (layer) to which it belongs; empty if there is a
    single kernel.
    """

    def instruction_bytes(self, board: VtaBoard = DEFAULT_VTA_BOARD) -> bytes:
        return encode(self.instructions, board)

    def micro_op_bytes(self, board: VtaBoard = DEFAULT_VTA_BOARD) -> bytes:
        """
        Return the bytes of the table of micro-ops, which starts at byte `4 * uop_base` of DRAM.
        """
        return encode_micro_ops(self.micro_ops, board).astype("<u4").tobytes()
