"""Check each cycle rule of the VTA notes, and the overlap of the modules."""

from itertools import pairwise

import pytest

from ceras_ir.backends.vta.machine.board import VtaBoard
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
from ceras_ir.backends.vta.machine.stream import StreamBuilder
from ceras_ir.backends.vta.machine.time import Stall, TimedRun, Timing, simulate_time
from ceras_ir.support.diagnostics import InputError

BOARD = VtaBoard(bus_bytes=8)
READ, WRITE = 50, 31


def durations(*stream: Instruction, board: VtaBoard = BOARD) -> list[int]:
    """Return the cycles of each instruction, in the order of the stream."""
    run = simulate_time(stream, board)
    return [s.end - s.start for s in sorted(run.spans, key=lambda s: s.index)]


def load(memory: MemoryType, x: int, y: int = 1, stride: int | None = None, pad: int = 0) -> Load:
    return Load(memory, 0, 0, y, x, x if stride is None else stride, x_pad_left=pad)


@pytest.mark.parametrize(
    ("instruction", "cycles"),
    [
        (load(MemoryType.INP, 40), 80 + 5 + READ),
        (load(MemoryType.WGT, 3), 96 + 5 + READ),
        (load(MemoryType.ACC, 5), 40 + 5 + READ),
        (load(MemoryType.UOP, 9), 5 + 4 + READ),
        (load(MemoryType.INP, 0), 2),
        (Gemm(0, 3, 4, 5), 60 + 7),
        (Gemm(0, 3, 4, 5, reset=True), 60 + 7),
        (Alu(AluOpcode.MAX, 0, 2, 3, 4, use_imm=True), 24 + 7),
        (Alu(AluOpcode.ADD, 0, 2, 3, 4), 48 + 7),
        (Store(0, 0, 1, 100, 100), 300 + WRITE + 3),
        (Store(0, 0, 1, 200, 200), 600 + 2 * (WRITE + 3)),
        (Store(0, 0, 4, 10, 30), 120 + 4 * (WRITE + 3)),
    ],
)
def test_instruction_alone(instruction: Instruction, cycles: int):
    assert durations(instruction, Finish())[0] == cycles


def test_rows_are_asked_for_every_third_cycle():
    # A row has an element of two beats, so that commands determine the time.
    assert durations(load(MemoryType.INP, 1, 10, 7), Finish())[0] == 9 * 3 + READ + 2 + 5


def test_sixteen_rows_are_outstanding():
    # Row 17 is requested after row 1 has arrived, and row 33 after row 17.
    slow = Timing(read_latency=500)
    (cycles,) = {
        s.end - s.start
        for s in simulate_time([load(MemoryType.INP, 1, 33, 7), Finish()], BOARD, slow).spans
        if s.module is Module.LOAD
    }
    assert 3 * 500 < cycles < 3 * 500 + 3 * 16 * 3


def test_wider_bus():
    board = VtaBoard(bus_bytes=16, read_latency=80, write_latency=20)
    assert durations(load(MemoryType.INP, 40), Finish(), board=board)[0] == 40 + 5 + 80
    assert durations(Store(0, 0, 1, 100, 100), Finish(), board=board)[0] == 200 + 20 + 3


def test_fetch():
    """
    A batch of 128 instructions takes the latency and two cycles each. Then one starts per cycle.
    """
    run = simulate_time([Gemm(0, 1, 1, 1)] * 200 + [Finish()], BOARD)
    starts = [s.start for s in run.spans]
    assert starts[0] == READ + 2 * 128 + 1
    # Each instruction runs for 8 cycles, so that the second batch arrives before it is needed.
    assert [b - a for a, b in pairwise(starts)] == [8] * 200


def test_modules_overlap_as_tokens_allow():
    first = Load(MemoryType.INP, 0, 0, 1, 64, 64, push_next=True)
    second = Load(MemoryType.INP, 64, 0, 1, 64, 64, push_next=True)
    gemm = Gemm(0, 1, 1, 500, pop_prev=True)
    run = simulate_time([first, second, gemm, gemm, Finish()], BOARD)
    at = {s.index: s for s in run.spans}
    assert at[2].start == at[0].end
    assert at[1].start == at[0].end < at[1].end < at[2].end
    assert at[3].start == at[2].end
    assert (
        run.stalls[Module.COMPUTE, Stall.LOAD]
        == at[0].end - run.stalls[Module.COMPUTE, Stall.FETCH]
    )


def test_reads_share_one_channel():
    inp, acc = load(MemoryType.INP, 128), load(MemoryType.ACC, 32)
    run = simulate_time([inp, acc, Finish()], BOARD)
    assert sum(run.busy.values()) > 2 * (256 + 5 + READ)


def test_deadlock():
    with pytest.raises(InputError, match="instruction 0 waits for a token"):
        simulate_time([Gemm(0, 1, 1, 1, pop_prev=True), Finish()], BOARD)


def test_same_totals_as_the_stream():
    builder = StreamBuilder(BOARD)
    builder.load(MemoryType.INP, 0, 0, 32)
    builder.load(MemoryType.WGT, 0, 64, 4)
    builder.gemm([(i,) for i in range(8)], reset=True)
    builder.gemm([(i, i, i % 4) for i in range(8)], iter=(1, 1))
    builder.alu(AluOpcode.MAX, [(i,) for i in range(8)], imm=0)
    builder.store(0, 400, 8)
    run: TimedRun = simulate_time(builder.finish(4096).instructions, BOARD)
    assert run.loaded_bytes == 32 * 16 + 4 * 256 + len(builder.finish(4096).micro_ops) * 4
    assert (run.gemm_iterations, run.stored_bytes) == (8, 8 * 16)
    assert run.cycles == max(s.end for s in run.spans)
