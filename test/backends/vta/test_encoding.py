"""
Instructions and micro-ops have the bits that `hw_spec.h` defines, for all values of each field.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ceras_ir.backends.vta.machine.assembler import (
    assemble_program,
    disassemble,
    disassemble_program,
)
from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.encoding import (
    VtaProgram,
    decode,
    decode_micro_ops,
    encode,
    encode_micro_ops,
    field_limits,
    micro_ops,
)
from ceras_ir.backends.vta.machine.isa import (
    Alu,
    AluOpcode,
    Finish,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    Store,
)
from ceras_ir.support.diagnostics import InputError

SMALL = VtaBoard(log_uops=11, log_inp=10, log_wgt=8, log_acc=10)
BOARDS = [VtaBoard(), SMALL]
FLAGS = ("pop_prev", "pop_next", "push_prev", "push_next")
NOT_INDICES = {*FLAGS, "reset", "opcode", "use_imm", "imm"}


@st.composite
def instructions(draw: st.DrawFn, board: VtaBoard) -> Instruction:
    kind = draw(st.sampled_from([Load, Store, Gemm, Alu, Finish]))
    flags = {flag: draw(st.booleans()) for flag in FLAGS}
    limits = field_limits(kind, board)
    values = [draw(st.integers(*r)) for name, r in limits.items() if name not in NOT_INDICES]
    option = draw(st.booleans())
    if kind is Load:
        memories = [m for m in MemoryType if m is not MemoryType.OUT]
        return Load(draw(st.sampled_from(memories)), *values, **flags)
    if kind is Store:
        return Store(*values, **flags)
    if kind is Gemm:
        return Gemm(*values, reset=option, **flags)
    if kind is Alu:
        imm = draw(st.integers(*limits["imm"]))
        return Alu(draw(st.sampled_from(AluOpcode)), *values, use_imm=option, imm=imm, **flags)
    return Finish(**flags)


streams = st.sampled_from(BOARDS).flatmap(
    lambda board: st.tuples(st.just(board), st.lists(instructions(board), max_size=8))
)


@pytest.mark.slow
@given(streams)
def test_round_trip_through_bytes(case: tuple[VtaBoard, list[Instruction]]):
    board, stream = case
    assert decode(encode(stream, board), board) == stream


@pytest.mark.slow
@given(streams)
def test_round_trip_through_text(case: tuple[VtaBoard, list[Instruction]]):
    board, stream = case
    assert list(assemble_program(disassemble(stream), board=board).instructions) == stream


def word(instruction: Instruction) -> int:
    return int.from_bytes(encode([instruction]), "little")


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        (Finish(pop_prev=True), 3 | 1 << 3),
        (Finish(pop_next=True, push_prev=True, push_next=True), 3 | 7 << 4),
        (
            Load(MemoryType.INP, 5, 7, 9, 11, 13, 1, 2, 3, 4),
            2 << 7 | 5 << 10 | 7 << 26 | 9 << 64 | 11 << 80 | 13 << 96
            | 1 << 112 | 2 << 116 | 3 << 120 | 4 << 124,
        ),
        (Store(5, 7, 9, 11, 13), 1 | 4 << 7 | 5 << 10 | 7 << 26 | 9 << 64 | 11 << 80 | 13 << 96),
        (
            Gemm(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, reset=True),
            2 | 1 << 7 | 1 << 8 | 2 << 21 | 3 << 35 | 4 << 49 | 5 << 64 | 6 << 75
            | 7 << 86 | 8 << 97 | 9 << 108 | 10 << 118,
        ),
        (
            Alu(AluOpcode.SHR, 1, 2, 3, 4, 5, 6, 7, 8, use_imm=True, imm=-2),
            4 | 1 << 8 | 2 << 21 | 3 << 35 | 4 << 49 | 5 << 64 | 6 << 75
            | 7 << 86 | 8 << 97 | 3 << 108 | 1 << 111 | 0xFFFE << 112,
        ),
    ],
)  # fmt: skip
def test_bit_positions(instruction: Instruction, expected: int):
    assert word(instruction) == expected


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (Store(65536, 0, 1, 1, 1), r"store: sram_base must be in \[0, 65535\], got 65536"),
        (Gemm(0, 1, 16384, 1), r"gemm: iter_out must be in \[0, 16383\], got 16384"),
        (Alu(AluOpcode.ADD, 0, 1, 1, 1, imm=40000), r"alu add: imm must be in"),
        (Load(MemoryType.INP, 0, -1, 1, 1, 1), r"load inp: dram_base must be in"),
    ],
)
def test_encoding_refuses(instruction: Instruction, message: str):
    with pytest.raises(ValueError, match=message):
        encode([instruction])


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (3 | 1 << 127, "instruction 1: bit 127 of a finish must be zero"),
        (5, "instruction 1: unknown opcode 5"),
        (4 | 7 << 108, "instruction 1: unknown ALU opcode"),
        (4 << 7, "instruction 1: a load into memory type 4"),
        (1, r"instruction 1: a store from memory type 0, must be 4 \(OUT\)"),
        (2 | 1 << 63, "instruction 1: bit 63 of a gemm must be zero"),
    ],
)
def test_decoding_refuses(raw: int, message: str):
    with pytest.raises(InputError, match=message):
        decode(encode([Finish()]) + raw.to_bytes(16, "little"))


@pytest.mark.parametrize("size", [17, 24])
def test_decoding_refuses_a_torn_stream(size: int):
    with pytest.raises(InputError, match=f"16 bytes per instruction, got {size}"):
        decode(bytes(size))


@given(st.lists(st.tuples(st.integers(0, 2047), st.integers(0, 2047), st.integers(0, 1023))))
def test_micro_ops_round_trip(rows: list[tuple[int, int, int]]):
    table = micro_ops(rows)
    words = encode_micro_ops(table)
    assert words.tolist() == [d | s << 11 | w << 22 for d, s, w in rows]
    assert np.array_equal(decode_micro_ops(words), table)


def test_micro_op_range():
    with pytest.raises(ValueError, match=r"micro-op 1: wgt must be in \[0, 1023\], got 1024"):
        encode_micro_ops(micro_ops([(0,), (0, 0, 1024)]))


def test_program_text():
    text = """\
.uops 64
uop 0, 0, 0
uop 1, 2, 3

load.uop sram=0 dram=64 y=1 x=2 stride=2  ; 0
gemm uops=0:2 iter=4,1 dst=2,0 pop_prev
alu.add uops=0:1 iter=1,1 imm=-5 push_next
store sram=0 dram=9 y=1 x=1 stride=1 pop_prev push_prev
finish
"""
    program = assemble_program(text)
    assert program.uop_base == 64
    assert program.micro_ops.tolist() == [[0, 0, 0], [1, 2, 3]]
    assert disassemble_program(program) == text


@pytest.mark.parametrize(
    ("line", "at", "message"),
    [
        ("load.inp sram=70000 dram=0 x=1", 15, "sram_base must be in [0, 65535], got 70000"),
        ("gemm uops=0:1", 1, "'gemm' without 'iter='"),
        ("alu.foo x", 1, "unknown instruction 'alu.foo'"),
        ("gemm uops=0 iter=1,1", 11, "'uops' takes 2 values, got 1"),
        ("store sram=0 dram=zz x=1", 19, "expected an integer, got 'zz'"),
        ("finish finish", 8, "unexpected 'finish' after 'finish', expected pop_prev, "),
        ("finish pop_prev pop_prev", 17, "'pop_prev' given twice"),
        ("uop 1, 2", 1, "expected `uop DST, SRC, WGT`"),
        ("uop 1, 2048, 3", 8, "index must be in [0, 2047], got 2048"),
        (".uops", 1, "expected `.uops ELEMENT`"),
    ],
)
def test_assembler_refuses(line: str, at: int, message: str):
    with pytest.raises(InputError) as e:
        assemble_program(f"; comment\n{line}", "a.vtas")
    assert e.value.lines("")[0].startswith(f"a.vtas:2:{at}: error: {message}")


def test_comments_and_defaults():
    program = assemble_program("store sram=0x10 dram=3 x=4 ; note")
    assert program.instructions == (Store(16, 3, 1, 4, 4),)


def test_encoding_is_fast(benchmark_seconds: float = 0.5):
    import time

    stream = [Gemm(0, 16, 8, 4, 1, 2, 3, 4, 5, 6), Load(MemoryType.INP, 1, 2, 3, 4, 5)] * 10000
    start = time.process_time()
    data = VtaProgram(stream, micro_ops([])).instruction_bytes()
    assert len(data) == 320000
    assert time.process_time() - start < benchmark_seconds
