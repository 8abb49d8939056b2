"""The checker finds each error in a stream, and names the position."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ceras_ir.backends.vta.machine import dependence
from ceras_ir.backends.vta.machine.assembler import assemble_program
from ceras_ir.backends.vta.machine.check import check_program, check_stream
from ceras_ir.backends.vta.machine.encoding import DEFAULT_VTA_BOARD, VtaProgram, encode_micro_ops
from ceras_ir.backends.vta.machine.isa import (
    AluOpcode,
    Finish,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    Module,
    Store,
    module_of,
)
from ceras_ir.backends.vta.machine.stream import StreamBuilder


def good() -> VtaProgram:
    """
    Return two layers of two tiles each. The second layer loads the stored results of the first.
    """
    stream = StreamBuilder()
    for layer in range(2):
        for tile in range(2):
            acc = 16 * tile
            stream.load(MemoryType.ACC, acc, 100 + acc, 16)
            for half in range(2):
                at = 16 * half
                stream.load(MemoryType.INP, at, 64 * layer + 32 * tile + at, 16)
                stream.load(MemoryType.WGT, half, 20 + 4 * layer + half, 1)
                stream.gemm([(acc + k, at + k, half) for k in range(16)])
            for opcode, imm in ((AluOpcode.SHR, 4), (AluOpcode.MAX, 0), (AluOpcode.MIN, 99)):
                stream.alu(opcode, [(acc + k,) for k in range(16)], imm=imm)
            stream.store(acc, 64 * (layer + 1) + 32 * tile, 8, 2, 16)
    return stream.finish(10000)


PROGRAM = good()
STREAM = list(PROGRAM.instructions)
FLAGS = ("pop_prev", "pop_next", "push_prev", "push_next")


def check(stream: Sequence[Instruction]) -> list[str]:
    return [str(f) for f in check_program(replace(PROGRAM, instructions=stream))]


def changed(index: int, **fields: object) -> list[str]:
    stream = list(STREAM)
    stream[index] = replace(stream[index], **fields)
    return check(stream)


def position(kind: type[Instruction], number: int) -> int:
    return [k for k, i in enumerate(STREAM) if isinstance(i, kind)][number]


def test_good_stream():
    """The checker has no findings for a correct stream."""
    assert check(STREAM) == []


@pytest.mark.parametrize(
    ("index", "flag"),
    [(k, flag) for k, i in enumerate(STREAM) for flag in FLAGS if getattr(i, flag)],
)
def test_a_lost_flag_is_found(index: int, flag: str):
    """Each flag of the correct stream is required."""
    assert changed(index, **{flag: False})


@pytest.mark.slow
def test_a_flag_too_many_is_found():
    """Each additional flag of an instruction is reported."""
    for index, i in enumerate(STREAM):
        for flag in FLAGS:
            if not getattr(i, flag):
                assert changed(index, **{flag: True}), (index, flag)


def links(giver: Module, taker: Module) -> list[tuple[int, int]]:
    """Return the positions that push and pop the tokens of a single queue."""
    push, pop = ("push_next", "pop_prev") if giver < taker else ("push_prev", "pop_next")
    gives = [k for k, i in enumerate(STREAM) if module_of(i) is giver and getattr(i, push)]
    takes = [k for k, i in enumerate(STREAM) if module_of(i) is taker and getattr(i, pop)]
    return list(zip(gives, takes, strict=True))


@pytest.mark.parametrize("giver", Module)
@pytest.mark.parametrize("taker", Module)
def test_every_token_is_needed(giver: Module, taker: Module):
    """Without both push and pop of a token, the stream is balanced, but it has a race."""
    if abs(giver - taker) != 1:
        return
    push, pop = ("push_next", "pop_prev") if giver < taker else ("push_prev", "pop_next")
    for give, take in links(giver, taker):
        stream = list(STREAM)
        stream[give] = replace(stream[give], **{push: False})
        stream[take] = replace(stream[take], **{pop: False})
        found = check(stream)
        assert any("hazard" in f or "finish" in f for f in found), (give, take)


@pytest.mark.parametrize(
    ("index", "fields", "message"),
    [
        (position(Load, 0), {"x_size": 9999, "sram_base": 0}, "range"),
        (position(Gemm, 0), {"src_factor_in": 2000, "iter_in": 3}, "range: inp element 4015"),
        (position(Gemm, 0), {"src_factor_in": 40, "iter_in": 2}, "uninitialised: reads inp"),
        (position(Gemm, 0), {"uop_end": 1000}, "uninitialised: reads uop element"),
        (position(Gemm, 0), {"iter_in": 0}, "portable: iterations must be at least 1"),
        (position(Store, 0), {"sram_base": 17}, "uninitialised: out element"),
        (position(Store, 0), {"sram_base": 2033}, "range: out element 2048 of 2048"),
        (position(Load, 7), {"sram_base": 16}, "hazard: inp: write after read"),
        (position(Load, 12), {"dram_base": 96}, "hazard: dram"),
    ],
)
def test_a_changed_field_is_found(index: int, fields: dict[str, object], message: str):
    """A changed field exceeds a memory, uses undefined elements, or causes a hazard."""
    found = changed(index, **fields)
    assert any(message in f for f in found), found


def text(body: str) -> list[str]:
    """Return the findings of a stream in text. All micro-ops are loaded first."""
    program = assemble_program(body)
    load = Load(MemoryType.UOP, 0, 0, 1, len(program.micro_ops), 0)
    stream = [load, *program.instructions, Finish()]
    return [str(f) for f in check_program(replace(program, instructions=stream))]


RESET = "gemm.reset uops=0:1 iter=1,8 dst=0,1\n"
UOP = "uop 0, 0, 0\n"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (UOP + "alu.add uops=0:1 iter=1,1 imm=1", "uninitialised: reads acc element 0"),
        (UOP + RESET + "alu.add uops=0:1 iter=1,2 imm=1", "same accumulator 1 iterations apart"),
        (UOP + RESET + "alu.add uops=0:1 iter=2,4 imm=1 dst=0,1 src=0,1", ""),
        (UOP + RESET + "alu.add uops=0:1 iter=2,1 imm=1 dst=0,1 src=0,1", "1 iterations apart"),
        (UOP + RESET + "alu.add uops=0:1 iter=1,4 dst=0,1 src=0,1", ""),
        ("uop 1, 0, 0\n" + RESET + "alu.add uops=0:1 iter=1,4 dst=0,1 src=0,1",
         "reads the result of the previous iteration"),
        ("uop 0, 1, 0\n" + RESET + "alu.add uops=0:1 iter=1,4 dst=0,1 src=0,1", ""),
        ("uop 0, 1, 0\n" + RESET + "alu.add uops=0:1 iter=1,1 imm=4",
         "src index equal to dst index"),
        (UOP + RESET + "alu.mul uops=0:1 iter=1,1 imm=4", "mul exists in newer"),
        (UOP + RESET + "alu.shr uops=0:1 iter=1,1 imm=16", "shift amount must be in"),
        (UOP + RESET + "alu.add uops=0:1 iter=1,4 dst=0,1 imm=4", "src factors equal to dst"),
        (UOP + "load.acc_8bit sram=0 dram=0 x=1", "acc_8bit"),
        (UOP + "load.wgt sram=0 dram=0 x=1 pad=1,0,0,0", "wgt loads must have no pads"),
        (UOP + "load.uop sram=0 dram=0 x=1 y=2", "micro-op loads must have y_size 1"),
        (UOP + "load.uop sram=0 dram=9 x=1", "from outside their table"),
        (UOP + "load.inp sram=0 dram=9 x=1 pop_prev", "no previous module"),
        (UOP + RESET + "gemm uops=0:1 iter=1,1 push_next\n"
         "store sram=0 dram=0 x=1 pop_prev push_prev\nload.uop sram=0 dram=0 x=0 pop_next",
         "uninitialised: reads inp element 0"),
        (UOP + RESET + "load.uop sram=0 dram=0 x=0 push_next\n"
         "store sram=0 dram=0 x=1 pop_prev push_prev\nload.uop sram=0 dram=0 x=0 pop_next",
         "last written by a reset or a load"),
        (UOP + RESET + "alu.add uops=0:1 iter=1,1 imm=1\nload.acc sram=0 dram=9 x=1 push_next\n"
         "store sram=0 dram=0 x=1 pop_prev push_prev\nload.uop sram=0 dram=0 x=0 pop_next",
         "last written by a reset or a load"),
        (UOP + "finish", "must be the only finish"),
        (UOP + "load.inp sram=0 dram=9 x=1", "may still run when the stream finishes"),
    ],
)  # fmt: skip
def test_rules(body: str, message: str):
    found = text(body)
    assert (found == []) if not message else any(message in f for f in found), found


def test_accumulating_gemm_needs_two_other_destinations():
    """The next two iterations must use other accumulators than the current iteration."""
    lines = ["uop 0, 0, 0", "uop 1, 1, 0", "uop 2, 2, 0"]
    body = (
        "load.inp sram=0 dram=0 x=8\nload.wgt sram=0 dram=0 x=8 push_next\n"
        "gemm.reset uops=0:1 iter=1,8 dst=0,1 pop_prev\n"
    )
    two = "gemm uops=0:2 iter=2,1 wgt=1,0"
    three = "gemm uops=0:3 iter=2,1 wgt=1,0"
    inner = "gemm uops=0:1 iter=3,3 dst=0,1 wgt=1,0"
    bad = "gemm uops=0:1 iter=3,3 dst=1,1 wgt=1,0"
    table = "\n".join(lines) + "\n"
    assert any("2 iterations apart" in f for f in text(table + body + two))
    assert text(table + body + three) == []
    assert text(table + body + inner) == []
    # The last iteration of an outer iteration is two before the second of the next outer iteration.
    assert any("iterations apart" in f for f in text(table + body + bad))


def test_too_many_tokens(monkeypatch: pytest.MonkeyPatch):
    """The counter of a queue overflows at 256 tokens."""
    monkeypatch.setattr(dependence, "MAX_OUTSTANDING_TOKENS", 10**6)
    stream = StreamBuilder()
    stream.gemm([(k,) for k in range(400)], reset=True)
    stream.load(MemoryType.WGT, 0, 0, 1)
    for k in range(400):
        stream.load(MemoryType.INP, k, k, 1)
    for k in range(400):
        stream.gemm([(k, k, 0)])
    found = check_program(stream.finish(10000))
    assert [f.message for f in found] == ["256 tokens load to compute outstanding, at most 255"]


def test_loads_that_fill_their_queue():
    """
    The waiting load never gets a token, because the instruction that pushes it cannot be fetched.
    """
    loads: list[Instruction] = [Load(MemoryType.INP, 0, 0, 1, 1, 1, pop_next=True)]
    loads += [Load(MemoryType.INP, 0, 0, 1, 1, 1)] * 512
    stream = [*loads, Load(MemoryType.UOP, 0, 0, 0, 0, 0, push_prev=True), Finish()]
    messages = [str(f) for f in check_stream(stream, np.zeros(4, np.uint32))]
    assert any("cannot be fetched: a queue of 512 is full" in m for m in messages)


def test_range_of_dram():
    """The message names the last byte if the DRAM is too small by a single byte."""
    found = check_program(PROGRAM, dram_bytes=10000)
    ends = [int(f.message.split()[3]) for f in found if "ends at byte" in f.message]
    assert not check_program(PROGRAM, dram_bytes=max(ends))
    (last, *_) = check_program(PROGRAM, dram_bytes=max(ends) - 1)
    assert f"range: ends at byte {max(ends)} of {max(ends) - 1} in DRAM" in str(last)


@pytest.mark.parametrize(
    ("amounts", "computed", "good"),
    [
        ((0, 15), False, True),
        ((0, 16), False, False),
        ((3, -1), False, False),
        ((0, 15), True, False),
    ],
)
def test_amounts_of_shifts(amounts: tuple[int, int], computed: bool, good: bool):
    """HLS uses five bits with a sign as the amount, so loaded amounts must be 0 to 15."""
    stream = StreamBuilder()
    stream.load(MemoryType.ACC, 0, 0, 2)
    if computed:
        stream.alu(AluOpcode.MAX, [(1,)], imm=1)
    stream.alu(AluOpcode.SHR, [(0, 1)])
    stream.store(0, 100, 1)
    program = stream.finish(32)
    image = np.zeros(64, np.int32)
    image[16:32] = np.resize(amounts, 16)
    words = encode_micro_ops(program.micro_ops, DEFAULT_VTA_BOARD)
    image[32 : 32 + len(words)] = words.view(np.int32)
    found = [str(f) for f in check_stream(program.instructions, image.view(np.uint32))]
    message = "portable: shifts by acc element 1, which was not loaded as 0 to 15"
    assert len(found) == (not good) and all(message in f for f in found)
