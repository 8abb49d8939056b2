"""A built stream has the effect of its calls in sequence, for all orders of the modules."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ceras_ir.backends.vta.machine import dependence
from ceras_ir.backends.vta.machine.check import check_program
from ceras_ir.backends.vta.machine.dependence import Footprints
from ceras_ir.backends.vta.machine.encoding import DEFAULT_VTA_BOARD, VtaProgram, decode
from ceras_ir.backends.vta.machine.isa import AluOpcode, Load, MemoryType, Module, Store, module_of
from ceras_ir.backends.vta.machine.simulator import VtaSimulator, simulate
from ceras_ir.backends.vta.machine.stream import StreamBuilder

pytestmark = pytest.mark.slow

BYTES = 1 << 17
UOP_BASE = (BYTES - 8192 * 4) // 4


def image(program: VtaProgram, seed: int = 1) -> NDArray[np.uint8]:
    dram = np.random.default_rng(seed).integers(0, 256, BYTES, np.uint8)
    table = np.frombuffer(program.micro_op_bytes(), np.uint8)
    dram[4 * program.uop_base : 4 * program.uop_base + len(table)] = table
    return dram


def in_order(program: VtaProgram) -> NDArray[np.uint8]:
    dram = image(program)
    machine = VtaSimulator(dram, DEFAULT_VTA_BOARD, np.random.default_rng(5))
    for index, i in enumerate(program.instructions):
        machine.run(index, i)
    return dram


def check_all_orders(program: VtaProgram) -> NDArray[np.uint8]:
    """Return the DRAM image after the run. Fail if it depends on the order of the modules."""
    assert check_program(program, dram_bytes=BYTES) == []
    expected = in_order(program)
    for order in permutations(Module):
        for switch_every in (None, 1, 3):
            dram = image(program)
            statistics = simulate(
                dram,
                program.instruction_bytes(),
                order=order,
                switch_every=switch_every,
                seed=switch_every or 9,
            )
            assert np.array_equal(dram, expected), (order, switch_every)
            assert statistics.tokens_left == 0
    return expected


few = st.integers(0, 3)
blocks = st.integers(0, 7)
opcodes = st.sampled_from([AluOpcode.MIN, AluOpcode.MAX, AluOpcode.ADD, AluOpcode.SHR])


@dataclass(frozen=True)
class Step:
    """A random operation on blocks of four elements. DRAM has eight blocks of 4 KiB."""

    kind: str
    a: int
    b: int
    c: int
    opcode: AluOpcode
    imm: int


steps = st.builds(
    Step,
    st.sampled_from(["inp", "wgt", "acc", "gemm", "alu", "tensor", "store", "store"]),
    blocks,
    blocks,
    blocks,
    opcodes,
    st.integers(-16, 15),
)


def build(program: list[Step]) -> VtaProgram:
    stream = StreamBuilder()
    # All loaded elements are initialized, so that the result is defined.
    stream.load(MemoryType.INP, 0, 0, 32)
    stream.load(MemoryType.WGT, 0, 0, 32)
    stream.gemm([(k,) for k in range(32)], reset=True)
    stream.alu(AluOpcode.ADD, [(k,) for k in range(32)], imm=3)
    for s in program:
        if s.kind == "inp":
            stream.load(MemoryType.INP, 4 * s.a, 256 * s.b + s.c, 2, 2, 3)
        elif s.kind == "wgt":
            stream.load(MemoryType.WGT, 4 * s.a, 16 * s.b + s.c, 2, 2, 5)
        elif s.kind == "acc":
            # After a load, OUT is stale until an ALU operation writes it.
            stream.load(MemoryType.ACC, 4 * s.a, 64 * s.b + s.c, 4)
            stream.alu(AluOpcode.MAX, [(4 * s.a + k,) for k in range(4)], imm=s.imm)
        elif s.kind == "gemm":
            rows = [(4 * s.a + k, 4 * s.b + k, 4 * s.c + k % 2) for k in range(4)]
            stream.gemm(rows, iter=(2, 1), wgt=(1, 0))
        elif s.kind == "alu":
            stream.alu(s.opcode, [(4 * s.a,)], iter=(1, 4), dst=(0, 1), imm=s.imm)
        elif s.kind == "tensor":
            opcode = AluOpcode.ADD if s.opcode is AluOpcode.SHR else s.opcode
            b = s.b if s.b != s.a else (s.b + 1) % 8
            rows = [(4 * s.a + k, 4 * b + k) for k in range(4)]
            stream.alu(opcode, rows)
        else:
            stream.store(4 * s.a, 256 * s.b + s.c, 2, 2, 4)
    for k in range(8):
        stream.store(4 * k, 256 * k + 64, 4)
    return stream.finish(UOP_BASE)


@settings(max_examples=120)
@given(st.lists(steps, max_size=40))
def test_any_interleaving_equals_the_program_order(program: list[Step]):
    check_all_orders(build(program))


@settings(max_examples=25)
@given(st.lists(steps, max_size=40), st.integers(1, 2))
def test_few_tokens_are_enough(program: list[Step], tokens: int):
    """If the counters would overflow, coarser waits replace tokens."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dependence, "MAX_OUTSTANDING_TOKENS", tokens)
        check_all_orders(build(program))


def test_gemm_equals_numpy():
    """
    Check 48x64 times 64x32 with tiles of 16, double-buffered inputs, and a final shift and clamp.
    """
    rng = np.random.default_rng(0)
    m, k, n, shift = 48, 64, 32, 6
    x = rng.integers(-128, 128, (m, k), np.int8)
    w = rng.integers(-128, 128, (n, k), np.int8)
    stream = StreamBuilder()
    inp_at, wgt_at, out_at = 0, 16384 // 256, 65536 // 16
    for block in range(m // 16):
        for column in range(n // 16):
            acc = 32 * (block % 2) + 16 * column
            stream.gemm([(acc + r,) for r in range(16)], reset=True)
            for t in range(k // 16):
                half = t % 2
                stream.load(MemoryType.INP, 16 * half, inp_at + (t * m + 16 * block), 16)
                stream.load(MemoryType.WGT, half, wgt_at + column * (k // 16) + t, 1)
                stream.gemm([(acc + r, 16 * half + r, half) for r in range(16)])
            uops = [(acc + r,) for r in range(16)]
            stream.alu(AluOpcode.ADD, uops, imm=1 << (shift - 1))
            stream.alu(AluOpcode.SHR, uops, imm=shift)
            stream.alu(AluOpcode.MAX, uops, imm=0)
            stream.alu(AluOpcode.MIN, uops, imm=127)
            stream.store(acc, out_at + column * m + 16 * block, 16)
    program = stream.finish(UOP_BASE)
    assert check_program(program) == []

    dram = image(program)
    inp = x.reshape(m, k // 16, 16).swapaxes(0, 1)
    wgt = w.reshape(n // 16, 16, k // 16, 16).swapaxes(1, 2)
    dram[: m * k] = np.ascontiguousarray(inp).view(np.uint8).reshape(-1)
    dram[16384 : 16384 + n * k] = np.ascontiguousarray(wgt).view(np.uint8).reshape(-1)
    statistics = simulate(dram, program.instruction_bytes())
    total = x.astype(np.int32) @ w.T.astype(np.int32)
    expected = np.clip((total + (1 << (shift - 1))) >> shift, 0, 127)
    actual = dram[65536 : 65536 + m * n].view(np.int8).reshape(n // 16, m, 16)
    assert np.array_equal(actual.swapaxes(0, 1).reshape(m, n), expected)
    assert statistics.gemm_iterations == m * k * n // 256


def test_one_uop_load_for_a_program_that_fits():
    stream = StreamBuilder()
    for _ in range(3):
        for base in range(4):
            stream.gemm([(base + k,) for k in range(100)], reset=True)
    program = stream.finish()
    loads = [i for i in program.instructions if isinstance(i, Load) and i.x_size]
    assert [i.x_size for i in loads] == [400]
    assert len(program.micro_ops) == 400


def test_micro_ops_beyond_the_memory_come_in_phases():
    stream = StreamBuilder()
    stream.gemm([(k,) for k in range(2048)], reset=True)
    for base in range(8):
        rows = [((base * 7 + k) % 2048,) for k in range(700)]
        stream.alu(AluOpcode.ADD, rows, imm=base)
    stream.store(0, 0, 700)
    program = stream.finish(UOP_BASE)
    loads = [i for i in program.instructions if isinstance(i, Load) and i.x_size]
    assert [i.x_size for i in loads] == [2048, 1400, 1400, 1400, 1400]
    check_all_orders(program)


def test_double_buffering_overlaps():
    """The load of the second half does not wait for the first GEMM."""
    stream = StreamBuilder()
    stream.load(MemoryType.INP, 0, 0, 16)
    stream.load(MemoryType.WGT, 0, 0, 1)
    stream.gemm([(0, 0, 0)])
    stream.load(MemoryType.INP, 16, 16, 16)
    stream.gemm([(0, 16, 0)])
    stream.load(MemoryType.INP, 0, 32, 16)
    program = stream.finish()
    loads = [i for i in program.instructions if module_of(i) is Module.LOAD]
    assert [i.pop_next for i in loads] == [False, False, False, True]
    assert [i.push_next for i in loads] == [False, True, True, True]


def test_load_after_store_goes_through_compute():
    stream = StreamBuilder()
    stream.gemm([(0,)], reset=True)
    stream.alu(AluOpcode.ADD, [(0,)], imm=1)
    stream.store(0, 7, 1)
    stream.load(MemoryType.INP, 0, 7, 1)
    program = stream.finish()
    relay = program.instructions[4]
    assert isinstance(relay, Load) and relay.x_size == 0
    assert relay.pop_next and relay.push_prev
    assert isinstance(program.instructions[3], Store) and program.instructions[3].push_prev
    assert program.instructions[5].pop_next


@pytest.mark.parametrize("loads_first", [True, False])
def test_hundreds_of_tokens_stay_within_the_counters(loads_first: bool):
    stream = StreamBuilder()
    stream.gemm([(k,) for k in range(1000)], reset=True)
    stream.load(MemoryType.WGT, 0, 0, 1)
    if loads_first:
        for k in range(1000):
            stream.load(MemoryType.INP, k, k, 1)
        for k in range(1000):
            stream.gemm([(k, k, 0)])
            stream.store(k, k, 1)
    else:
        stream.load(MemoryType.INP, 0, 0, 1000)
        for k in range(1000):
            stream.gemm([(k, k, 0)])
        for k in range(1000):
            stream.store(k, k, 1)
            stream.load(MemoryType.INP, k, k, 1)
    program = stream.finish(UOP_BASE)
    assert check_program(program) == []
    assert decode(program.instruction_bytes()) == list(program.instructions)


REFUSED: list[tuple[Callable[[StreamBuilder], None], str]] = [
    (lambda s: s.load(MemoryType.INP, 2040, 0, 9), "inp element 2048 of 2048"),
    (lambda s: s.load(MemoryType.UOP, 0, 0, 1), "loads inp, wgt and acc, not uop"),
    (lambda s: s.gemm([(0, 0, 1000)], iter=(25, 1), wgt=(1, 0)), "wgt element 1024"),
    (lambda s: s.gemm([(2048,)]), "dst must be in .0, 2047., got 2048"),
    (lambda s: s.alu(AluOpcode.SHR, [(0,)], imm=16), "shift amount must be in"),
    (lambda s: s.alu(AluOpcode.MUL, [(0,)], imm=1), "mul exists in newer"),
    (lambda s: s.store(0, 0, 70000), "out element 69999"),
    (lambda s: s.gemm([]), "has 1 to 2048 micro-ops, got 0"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_refuses(call: Callable[[StreamBuilder], None], message: str):
    with pytest.raises(ValueError, match=message):
        call(StreamBuilder())


@pytest.mark.parametrize("memory", [MemoryType.UOP, MemoryType.INP, MemoryType.WGT, MemoryType.ACC])
def test_a_footprint_has_every_byte_of_a_load(memory: MemoryType):
    board = DEFAULT_VTA_BOARD
    granule, unit = board.element_bytes(MemoryType.OUT), board.element_bytes(memory)
    for dram, rows, x, pitch in product(range(1, 8), range(1, 4), range(1, 5), range(1, 7)):
        load = Load(memory, 0, dram, rows, x, pitch)
        ((_, region),) = Footprints(board).of(load, None).reads
        touched = np.arange(1 << 14)[region] * granule
        known = set((touched[:, None] + np.arange(granule)).reshape(-1).tolist())
        for row in range(rows):
            start = (dram + row * pitch) * unit
            assert known.issuperset(range(start, start + x * unit))
