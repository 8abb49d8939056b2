"""Loads of the next kernel overlap with the kernel before, and all values are unchanged."""

import numpy as np
import pytest

from ceras_ir.backends.vta.machine.board import load_board
from ceras_ir.backends.vta.machine.check import check_program
from ceras_ir.backends.vta.machine.encoding import VtaProgram
from ceras_ir.backends.vta.machine.isa import AluOpcode, Load, MemoryType
from ceras_ir.backends.vta.machine.simulator import simulate
from ceras_ir.backends.vta.machine.stream import StreamBuilder
from ceras_ir.backends.vta.machine.time import simulate_time

BOARD = load_board("de10nano")
BYTES, VECTORS, UOP_BASE = 1 << 16, 256, 12288
WEIGHTS, KERNELS = 64, 3
"""
The position of the first tile, in tiles; and the kernels of a stream. Kernels alternate between two
halves of INP and ACC.
"""


def layers(*, apart: bool = True, unread: bool = False) -> VtaProgram:
    """
    Return a chain of products, each with a tile.

    The vectors are in DRAM at 0, 4096 and 8192. With `apart`, consecutive kernels use different
    halves of memories. With `unread`, all kernels load a vector without consumers to the same
    place.
    """
    stream = StreamBuilder(BOARD)
    for k in range(KERNELS):
        stream.begin_kernel()
        half = k % 2 * 1024 if apart else 0
        stream.gemm([(half,)], iter=(1, VECTORS), dst=(0, 1), reset=True)
        stream.load(MemoryType.WGT, k % 2 if apart else 0, WEIGHTS + k, 1)
        stream.load(MemoryType.INP, half, k * VECTORS, VECTORS)
        if unread:
            stream.load(MemoryType.INP, 600, k, 1)
        stream.gemm(
            [(half, half, k % 2 if apart else 0)], iter=(1, VECTORS), dst=(0, 1), src=(0, 1)
        )
        stream.alu(AluOpcode.SHR, [(half,)], iter=(1, VECTORS), dst=(0, 1), imm=8)
        stream.store(half, (k + 1) * VECTORS, VECTORS)
    return stream.finish(UOP_BASE)


def run(program: VtaProgram) -> bytes:
    dram = np.random.default_rng(3).integers(0, 256, BYTES, np.uint8)
    table = np.frombuffer(program.micro_op_bytes(), np.uint8)
    dram[4 * UOP_BASE : 4 * UOP_BASE + len(table)] = table
    simulate(dram, program.instruction_bytes())
    return dram[: 4 * UOP_BASE].tobytes()


def expected() -> bytes:
    """Compute the expected memory in numpy."""
    dram = np.random.default_rng(3).integers(0, 256, BYTES, np.uint8)
    values = dram.view(np.int8)
    for k in range(KERNELS):
        x = values[16 * VECTORS * k :][: 16 * VECTORS].reshape(VECTORS, 16).astype(np.int64)
        w = values[256 * (WEIGHTS + k) :][:256].reshape(16, 16).astype(np.int64)
        values[16 * VECTORS * (k + 1) :][: 16 * VECTORS] = (x @ w.T >> 8).astype(np.int8).ravel()
    return dram[: 4 * UOP_BASE].tobytes()


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("unread", [True, False])
def test_exact(apart: bool, unread: bool):
    program = layers(apart=apart, unread=unread)
    assert check_program(program, BOARD, BYTES) == []
    assert run(program) == expected()


def weights_before_the_products(program: VtaProgram) -> list[int]:
    """Return the number of operations with micro-ops before each load of weights."""
    found: list[int] = []
    count = 0
    for i in program.instructions:
        if isinstance(i, Load) and i.memory is MemoryType.WGT:
            found.append(count)
        count += hasattr(i, "uop_bgn")
    return found


def test_weights_come_before_the_work_of_the_kernel_before():
    """A kernel has three operations. If the tile is in use, its load remains after the product."""
    assert weights_before_the_products(layers()) == [1, 1, 4]
    assert weights_before_the_products(layers(apart=False)) == [1, 2, 5]


def test_every_instruction_has_its_kernel():
    program = layers()
    assert len(program.kernels) == len(program.instructions)
    loads = [
        kernel
        for kernel, i in zip(program.kernels, program.instructions, strict=True)
        if isinstance(i, Load) and i.memory is MemoryType.WGT
    ]
    assert loads == [0, 1, 2]


def test_less_time_than_one_after_the_other():
    ahead, in_turn = (
        simulate_time(layers(apart=apart).instructions, BOARD).cycles for apart in (True, False)
    )
    assert ahead < in_turn
