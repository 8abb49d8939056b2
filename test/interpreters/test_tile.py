"""The tile interpreter against loops in plain Python, for boxes that no schedule makes too."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects import memref
from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp, NoneAttr, StringAttr, i8
from xdsl.interpreter import Interpreter
from xdsl.ir import Block

from ceras_ir.dialects import tile
from ceras_ir.dialects.tile.memory import buffer_type
from ceras_ir.interpreters.scratchpads import Scratchpad
from ceras_ir.interpreters.tile import TileFunctions, combine

Loop = tuple[int, int, int, int]


def interpreter() -> Interpreter:
    made = Interpreter(ModuleOp([]))
    made.register_implementations(TileFunctions())
    return made


def scratchpads(seed: int) -> tuple[Scratchpad, Scratchpad, Scratchpad]:
    rng = np.random.default_rng(seed)
    acc = rng.integers(-(2**31), 2**31, (30, 16)).astype(np.int32)
    inp = rng.integers(-128, 128, (40, 16)).astype(np.int8)
    wgt = rng.integers(-128, 128, (20, 16, 16)).astype(np.int8)
    return Scratchpad(acc, (30,)), Scratchpad(inp, (40,)), Scratchpad(wgt, (20,))


@pytest.mark.parametrize(
    "loops",
    [
        [(3, 4, 2, 0), (2, 1, 5, 0)],
        [(3, 1, 2, 0), (2, 0, 5, 3), (4, 3, 0, 5)],
        # Weights and inputs move together with the accumulator: a product per iteration.
        [(3, 1, 2, 4), (2, 0, 1, 2)],
        # Accumulators that meet again, so that additions must not be lost.
        [(3, 1, 2, 0), (3, 1, 1, 0), (2, 0, 3, 5)],
        # The same product many times.
        [(5, 0, 0, 0), (4, 1, 1, 0)],
    ],
)
def test_gemm(loops: list[Loop]):
    acc, inp, wgt = scratchpads(len(loops))
    expected = acc.vectors.astype(np.int64)
    for at in product(*(range(extent) for extent, *_ in loops)):
        a, i, w = (
            sum(k * loop[1 + j] for k, loop in zip(at, loops, strict=True)) for j in range(3)
        )
        expected[a] += wgt.vectors[w].astype(np.int64) @ inp.vectors[i].astype(np.int64)
    types = (buffer_type(s, n) for s, n in (("acc", [30]), ("inp", [40]), ("wgt", [20])))
    buffers = Block(arg_types=list(types)).args
    op = tile.GemmOp((buffers[0], []), (buffers[1], []), (buffers[2], []), loops)
    op.verify()
    interpreter().run_op(op, (acc, inp, wgt))
    np.testing.assert_array_equal(acc.vectors, expected.astype(np.int32))


@pytest.mark.parametrize(
    ("kind", "other", "expected"),
    [
        (tile.Alu.ADD, 1, [-(2**31), -6, 1, 6]),
        (tile.Alu.MAX, 0, [2**31 - 1, 0, 0, 5]),
        (tile.Alu.MIN, 0, [0, -7, 0, 0]),
        (tile.Alu.SHR, 1, [2**30 - 1, -4, 0, 2]),
        (tile.Alu.SHR, -1, [-2, -14, 0, 10]),
    ],
)
def test_combine(kind: tile.Alu, other: int, expected: list[int]):
    values = np.array([2**31 - 1, -7, 0, 5], np.int64)
    result: NDArray[np.int32] = combine(kind, values, np.array([other])).astype(np.int32)
    assert result.tolist() == expected


def test_ring_takes_turns():
    block = Block()
    ring = memref.AllocOp([], [], buffer_type("inp", (3, 2)))
    block.add_op(ring)
    interp = interpreter()
    (pad,) = interp.run_op(ring, ())
    turns = [tile.RotateOp(ring.memref) for _ in range(4)]
    for number, op in enumerate(turns):
        (buffer,) = interp.run_op(op, (pad,))
        assert buffer.shape == (2,)
        buffer.vectors[...] = number
    assert pad.vectors[:, 0].tolist() == [3, 3, 1, 1, 2, 2]


def test_scratchpads_start_as_garbage():
    alloc = memref.AllocOp([], [], buffer_type("acc", (2,)))
    (pad,) = interpreter().run_op(alloc, ())
    assert (pad.vectors != 0).all()


def test_boxes_over_the_edge():
    """Loads from outside of the source are zero, stores to outside of the target are dropped."""
    dram = MemRefType(i8, (3, 3, 16), NoneAttr(), StringAttr("dram"))
    chips = buffer_type("inp", (2, 4)), buffer_type("acc", (2, 4))
    x, i, j, chip, acc, y = Block(arg_types=[dram, IndexType(), IndexType(), *chips, dram]).args
    source = np.arange(1, 10, dtype=np.int8).reshape(3, 3, 1).repeat(16, axis=2)
    pad = Scratchpad(np.full((8, 16), 0x55, np.int8), (2, 4))
    load = tile.LoadOp(x, [i, j], chip, [], (2, 4), row_step=2)
    load.verify()
    interpreter().run_op(load, (source, -1, 1, pad))
    assert pad.vectors[:, 0].tolist() == [0, 0, 0, 0, 5, 6, 0, 0]

    sums = Scratchpad(np.arange(250, 258, dtype=np.int32).repeat(16).reshape(8, 16), (2, 4))
    target = np.zeros((3, 3, 16), np.int8)
    store = tile.StoreOp(acc, [], y, [i, j], (2, 4))
    store.verify()
    interpreter().run_op(store, (sums, target, 2, 1))
    assert target[..., 0].tolist() == [[0, 0, 0], [0, 0, 0], [0, -6, -5]]
