"""The simulator computes the same results as a model that processes a single value at a time."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.encoding import (
    DEFAULT_VTA_BOARD,
    encode,
    encode_micro_ops,
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
    Module,
    Store,
)
from ceras_ir.backends.vta.machine.simulator import VtaSimulator, simulate
from ceras_ir.support.diagnostics import InputError

pytestmark = pytest.mark.slow

BYTES = 1 << 16
UOP_AT = BYTES - 1024


def wrap(value: int, bits: int = 32) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


class Naive:
    """Simulate VTA in Python integers, with the loops of `sim_driver.cc`."""

    def __init__(self, dram: NDArray[np.uint8], board: VtaBoard):
        self.dram, self.board = dram, board
        state = VtaSimulator(dram, board, np.random.default_rng(0))
        # The rows of a vector are stored one after the other.
        self.inp: list[list[int]] = state.inp.astype(int).reshape(board.inp, -1).tolist()
        self.wgt: list[list[list[int]]] = state.wgt.swapaxes(1, 2).astype(int).tolist()
        self.acc: list[list[int]] = state.acc.reshape(board.acc, -1).tolist()
        self.out: list[list[int]] = state.out.reshape(board.acc, -1).tolist()
        self.uop: list[int] = state.uops.tolist()
        self.lanes = board.batch * board.block

    def read(self, memory: MemoryType, element: int) -> bytes:
        size = self.board.element_bytes(memory)
        return self.dram[element * size : (element + 1) * size].tobytes()

    def put(self, memory: MemoryType, at: int, data: bytes) -> None:
        """Write an element from its bytes in DRAM."""
        signed = [wrap(b, 8) for b in data]
        match memory:
            case MemoryType.UOP:
                self.uop[at] = int.from_bytes(data, "little")
            case MemoryType.WGT:
                block = self.board.block
                self.wgt[at] = [signed[r : r + block] for r in range(0, block * block, block)]
            case MemoryType.INP:
                self.inp[at] = signed
            case MemoryType.ACC:
                words = [data[k : k + 4] for k in range(0, 4 * self.lanes, 4)]
                self.acc[at] = [int.from_bytes(w, "little", signed=True) for w in words]
            case _:
                self.acc[at] = signed

    def load(self, i: Load) -> None:
        if i.x_size == 0:
            return
        zero = bytes(self.board.element_bytes(i.memory))
        at = i.sram_base
        for y in range(-i.y_pad_top, i.y_size + i.y_pad_bottom):
            for x in range(-i.x_pad_left, i.x_size + i.x_pad_right):
                inside = 0 <= y < i.y_size and 0 <= x < i.x_size
                source = i.dram_base + y * i.x_stride + x
                self.put(i.memory, at, self.read(i.memory, source) if inside else zero)
                at += 1

    def indices(self, i: Gemm | Alu):
        for a in range(i.iter_out):
            for b in range(i.iter_in):
                for k in range(i.uop_bgn, i.uop_end):
                    u = self.uop[k]
                    acc, inp = self.board.acc, self.board.inp
                    yield a, b, u % acc, u // acc % inp, u // acc // inp

    def write(self, index: int, values: list[int]) -> None:
        self.acc[index] = values
        self.out[index] = [wrap(v, 8) for v in values]

    def run(self, i: Instruction) -> None:
        match i:
            case Load():
                self.load(i)
            case Store():
                for y in range(i.y_size):
                    for x in range(i.x_size):
                        at = self.lanes * (i.dram_base + y * i.x_stride + x)
                        values = self.out[i.sram_base + y * i.x_size + x]
                        self.dram[at : at + self.lanes] = [v & 255 for v in values]
            case Gemm():
                for a, b, d, s, w in self.indices(i):
                    d += a * i.dst_factor_out + b * i.dst_factor_in
                    s += a * i.src_factor_out + b * i.src_factor_in
                    w += a * i.wgt_factor_out + b * i.wgt_factor_in
                    if i.reset:
                        self.acc[d] = [0] * self.lanes
                        continue
                    tile, block = self.wgt[w], self.board.block
                    rows = [self.inp[s][k : k + block] for k in range(0, self.lanes, block)]
                    dots = [
                        sum(p * q for p, q in zip(x, row, strict=True))
                        for x in rows
                        for row in tile
                    ]
                    self.write(d, [wrap(v + t) for v, t in zip(self.acc[d], dots, strict=True)])
            case Alu():
                for a, b, d, s, _ in self.indices(i):
                    d += a * i.dst_factor_out + b * i.dst_factor_in
                    s += a * i.src_factor_out + b * i.src_factor_in
                    other = [i.imm] * self.lanes if i.use_imm else self.acc[s]
                    pairs = zip(self.acc[d], other, strict=True)
                    self.write(d, [combine(i.opcode, x, y) for x, y in pairs])
            case Finish():
                pass


def combine(opcode: AluOpcode, x: int, y: int) -> int:
    match opcode:
        case AluOpcode.MIN:
            return min(x, y)
        case AluOpcode.MAX:
            return max(x, y)
        case AluOpcode.ADD:
            return wrap(x + y)
        case AluOpcode.MUL:
            return wrap(x * y)
        case AluOpcode.SHR:
            return x >> (y & 31) if y >= 0 else wrap(x << (-y & 31))


small = st.integers(0, 5)
index = st.integers(0, 12)
rows = st.lists(st.tuples(index, index, index), min_size=1, max_size=6)
iterations = st.tuples(small, small)
factors = st.tuples(small, small, small, small)
"""Factors of dst and src, outer and inner each."""
transfers = st.tuples(index, small, small, small, small)
"""On-chip base, DRAM base, rows, columns, stride."""
pad = st.integers(0, 2)
pads = st.tuples(pad, pad, pad, pad)
memories = st.sampled_from([MemoryType.INP, MemoryType.WGT, MemoryType.ACC, MemoryType.ACC_8BIT])


@st.composite
def instructions(draw: st.DrawFn, uops: int) -> Instruction:
    kind = draw(st.integers(0, 4))
    begin = draw(st.integers(0, uops - 1))
    window = begin, draw(st.integers(begin + 1, uops))
    match kind:
        case 0:
            sram, dram, y, x, stride = draw(transfers)
            top, bottom, left, right = draw(pads)
            return Load(draw(memories), sram, dram, y, x, stride, top, bottom, left, right)
        case 1:
            return Store(*draw(transfers))
        case 2:
            wgt = draw(small), draw(small)
            return Gemm(*window, *draw(iterations), *draw(factors), *wgt, reset=draw(st.booleans()))
        case _:
            opcode = draw(st.sampled_from(AluOpcode))
            imm = draw(st.integers(-40, 40) | st.integers(-(2**15), 2**15 - 1))
            use_imm = draw(st.booleans())
            return Alu(opcode, *window, *draw(iterations), *draw(factors), use_imm=use_imm, imm=imm)


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[tuple[int, ...]], list[Instruction]]:
    table = draw(rows)
    return table, draw(st.lists(instructions(len(table)), min_size=1, max_size=8))


def image(table: Sequence[Sequence[int]], board: VtaBoard = DEFAULT_VTA_BOARD) -> NDArray[np.uint8]:
    dram = np.random.default_rng(1).integers(0, 256, BYTES, np.uint8)
    words = encode_micro_ops(micro_ops(table), board)
    dram[UOP_AT : UOP_AT + 4 * len(words)] = words.view(np.uint8)
    return dram


def load_uops(table: Sequence[Sequence[int]]) -> Load:
    return Load(MemoryType.UOP, 0, UOP_AT // 4, 1, len(table), 0)


BOARDS = (DEFAULT_VTA_BOARD, VtaBoard(log_block=3), VtaBoard(log_batch=1, log_block=2))


@settings(max_examples=120)
@given(programs(), st.sampled_from(BOARDS))
def test_equals_the_naive_model(
    program: tuple[list[tuple[int, ...]], list[Instruction]], board: VtaBoard
):
    table, body = program
    expected, actual = image(table, board), image(table, board)
    naive = Naive(expected, board)
    machine = VtaSimulator(actual, board, np.random.default_rng(0))
    for number, i in enumerate([load_uops(table), *body]):
        naive.run(i)
        machine.run(number, i)
    assert np.array_equal(machine.acc.reshape(board.acc, -1), np.array(naive.acc))
    assert np.array_equal(machine.out.reshape(board.acc, -1), np.array(naive.out))
    assert np.array_equal(actual, expected)


def test_long_reduction_is_exact():
    """-128 * -128 summed over 200 tiles into a vector exceeds the integers of float32."""
    dram = np.zeros(BYTES, np.uint8)
    dram[:256] = 0x80
    dram[UOP_AT : UOP_AT + 4] = 0
    stream: list[Instruction] = [
        Load(MemoryType.UOP, 0, UOP_AT // 4, 1, 1, 1),
        Load(MemoryType.INP, 0, 0, 1, 1, 1),
        Load(MemoryType.WGT, 0, 0, 1, 1, 1),
        Gemm(0, 1, 1, 1, reset=True),
        Gemm(0, 1, 100, 200),
    ]
    machine = VtaSimulator(dram, DEFAULT_VTA_BOARD, np.random.default_rng(0))
    for number, i in enumerate(stream):
        machine.run(number, i)
    assert (machine.acc[0] == wrap(20000 * 16 * 2**14)).all()


def run(*stream: Instruction, order: Sequence[Module] = tuple(Module)):
    return simulate(np.zeros(4096, np.uint8), encode(stream), order=order)


def test_tokens_order_the_modules():
    statistics = run(
        Load(MemoryType.INP, 0, 0, 1, 1, 1, push_next=True),
        Load(MemoryType.UOP, 0, 0, 1, 0, 0, pop_prev=True, push_next=True),
        Store(0, 0, 1, 1, 1, pop_prev=True),
        Finish(),
    )
    assert statistics.instructions["load inp"] == 1
    assert statistics.tokens_left == 0


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (
            [Store(0, 0, 1, 1, 1, pop_prev=True), Finish()],
            "deadlock: instruction 0 .store. wait",
        ),
        ([Store(0, 0, 1, 1, 1)], "no finish"),
        (
            [Store(2047, 0, 1, 2, 2), Finish()],
            r"instruction 0 .store.: elements \[2047, 2049\) of 2048",
        ),
        ([Store(0, 255, 1, 2, 2), Finish()], r"DRAM bytes \[4080, 4112\) of 4096"),
        ([Store(0, 0, 1, 1, 1, push_next=True), Finish()], "no such module"),
        (
            [Load(MemoryType.UOP, 0, 0, 1, 1, 1), Gemm(0, 1, 2049, 1, 1), Finish()],
            "acc index 2048 of 2048",
        ),
        ([Gemm(8000, 8193, 1, 1), Finish()], r"micro-ops \[8000, 8193\) of 8192"),
    ],
)
def test_refuses(stream: list[Instruction], message: str):
    with pytest.raises(InputError, match=message):
        run(*stream)


ONE = Load(MemoryType.UOP, 0, 0, 1, 1, 1)


def test_many_iterations_on_one_accumulator():
    """
    A plan can have the maximum number of iterations on a single accumulator. They take no longer
    than iterations on different accumulators.
    """
    dram = np.zeros(1024, np.uint8)
    loads = [Load(memory, 0, 1, 1, 1, 1) for memory in (MemoryType.INP, MemoryType.WGT)]
    dram[16:32], dram[256:512] = 1, 2
    stream = [
        ONE,
        *loads[:1],
        replace(loads[1], push_next=True),
        Gemm(0, 1, 1, 1, reset=True),
        Gemm(0, 1, 16383, 4, pop_prev=True),
        Alu(AluOpcode.SHR, 0, 1, 1, 1, use_imm=True, imm=15, push_next=True),
        Store(0, 40, 1, 1, 1, pop_prev=True),
        Finish(),
    ]
    simulate(dram, stream)
    assert set(dram[640:656].tolist()) == {16383 * 4 * 16 * 2 >> 15 & 255}


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (Gemm(0, 1, 16383, 16383, reset=True), "the stream has 805,208,067 iterations"),
        (
            Alu(AluOpcode.ADD, 0, 1, 16383, 5),
            "iterations depend on each other in over 65,536",
        ),
    ],
)
def test_streams_that_take_forever(work: Instruction, message: str):
    load = Load(MemoryType.ACC, 0, 0, 1, 1, 1)
    with pytest.raises(InputError, match=message):
        simulate(np.zeros(64, np.uint8), [ONE, load, work, work, work, Finish()])
