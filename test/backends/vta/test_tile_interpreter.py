"""Compare the tile interpreter with loops in plain Python, also for boxes of no schedule."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects import memref
from xdsl.dialects.builtin import (
    IndexType,
    MemRefType,
    ModuleOp,
    NoneAttr,
    StringAttr,
    TensorType,
    i8,
)
from xdsl.interpreter import Interpreter
from xdsl.ir import Block

from ceras_ir.backends.vta.interpreter import Scratchpad, TileFunctions, combine, matrix_at
from ceras_ir.dialects import tile
from ceras_ir.dialects.mem.packing import PackTilesOp, PackWindowsOp, packed_shape
from ceras_ir.dialects.quant import UniformType
from ceras_ir.dialects.tile.memory import buffer_type
from ceras_ir.interpreters.located import OutOfRangeError
from ceras_ir.interpreters.network import fold_zero_point, pack, pack_tiles, unpack, windows

Loop = tuple[int, int, int, int]
Vector = tuple[int, int]


def interpreter() -> Interpreter:
    made = Interpreter(ModuleOp([]))
    made.register_implementations(TileFunctions())
    return made


def scratchpads(seed: int, vector: Vector) -> tuple[Scratchpad, Scratchpad, Scratchpad]:
    rng, (_, lanes) = np.random.default_rng(seed), vector
    acc = rng.integers(-(2**31), 2**31, (30, *vector)).astype(np.int32)
    inp = rng.integers(-128, 128, (40, *vector)).astype(np.int8)
    wgt = rng.integers(-128, 128, (20, lanes, lanes)).astype(np.int8)
    return Scratchpad(acc, (30,)), Scratchpad(inp, (40,)), Scratchpad(wgt, (20,))


def test_what_leaves_its_buffer() -> None:
    pad = Scratchpad(np.zeros((12, 1, 16), np.int8), (3, 4))
    assert pad.run((2, 0), 4).shape == (4, 1, 16)
    assert pad.box(8, (4,), (1,)).shape == pad.box(11, (4,), (-1,)).shape == (4, 1, 16)
    for reach in (
        lambda: pad.run((2, 0), 5),
        lambda: pad.position((3,)),
        lambda: pad.position((-1, 3)),
        lambda: pad.box(9, (4,), (1,)),
        lambda: pad.box(2, (4,), (-1,)),
        lambda: matrix_at(np.zeros((2, 3, 4, 1)), (2, 0, 0)),
        lambda: matrix_at(np.zeros((2, 3, 4, 1)), (-1, 0, 0)),
    ):
        with pytest.raises(OutOfRangeError, match="out of range, expected"):
            reach()


@pytest.mark.parametrize(
    "loops",
    [
        [(3, 4, 2, 0), (2, 1, 5, 0)],
        [(3, 1, 2, 0), (2, 0, 5, 3), (4, 3, 0, 5)],
        # Weights and inputs move together with the accumulator: a product per iteration.
        [(3, 1, 2, 4), (2, 0, 1, 2)],
        # Accumulators repeat, so that no addition may be lost.
        [(3, 1, 2, 0), (3, 1, 1, 0), (2, 0, 3, 5)],
        # The product repeats.
        [(5, 0, 0, 0), (4, 1, 1, 0)],
    ],
)
@pytest.mark.parametrize("vector", [(1, 16), (1, 8), (2, 16), (3, 4)])
def test_gemm(loops: list[Loop], vector: Vector):
    acc, inp, wgt = scratchpads(len(loops), vector)
    expected = acc.vectors.astype(np.int64)
    for at in product(*(range(extent) for extent, *_ in loops)):
        a, i, w = (
            sum(k * loop[1 + j] for k, loop in zip(at, loops, strict=True)) for j in range(3)
        )
        for row in range(vector[0]):
            product_of = wgt.vectors[w].astype(np.int64) @ inp.vectors[i, row].astype(np.int64)
            expected[a, row] += product_of
    tiles = (vector[1], vector[1])
    shapes = (("acc", [30], vector), ("inp", [40], vector), ("wgt", [20], tiles))
    types = (buffer_type(*shape) for shape in shapes)
    buffers = Block(arg_types=list(types)).args
    op = tile.GemmOp((buffers[0], []), (buffers[1], []), (buffers[2], []), loops)
    op.verify()
    interpreter().run_op(op, (acc, inp, wgt))
    np.testing.assert_array_equal(acc.vectors, expected.astype(np.int32))


@pytest.mark.parametrize(
    ("kind", "other", "expected"),
    [
        (tile.AluFunction.ADD, 1, [-(2**31), -6, 1, 6]),
        (tile.AluFunction.MAX, 0, [2**31 - 1, 0, 0, 5]),
        (tile.AluFunction.MIN, 0, [0, -7, 0, 0]),
        (tile.AluFunction.SHR, 1, [2**30 - 1, -4, 0, 2]),
        (tile.AluFunction.SHR, -1, [-2, -14, 0, 10]),
    ],
)
def test_combine(kind: tile.AluFunction, other: int, expected: list[int]):
    values = np.array([2**31 - 1, -7, 0, 5], np.int64)
    result: NDArray[np.int32] = combine(kind, values, np.array([other])).astype(np.int32)
    assert result.tolist() == expected


def test_ring_takes_turns():
    block = Block()
    ring = memref.AllocOp([], [], buffer_type("inp", (3, 2), (1, 16)))
    block.add_op(ring)
    interp = interpreter()
    (pad,) = interp.run_op(ring, ())
    turns = [tile.RotateOp(ring.memref) for _ in range(4)]
    for number, op in enumerate(turns):
        (buffer,) = interp.run_op(op, (pad,))
        assert buffer.shape == (2,)
        buffer.vectors[...] = number
    assert pad.vectors[:, 0, 0].tolist() == [3, 3, 1, 1, 2, 2]


def test_scratchpads_start_as_garbage():
    alloc = memref.AllocOp([], [], buffer_type("acc", (2,), (2, 8)))
    (pad,) = interpreter().run_op(alloc, ())
    assert (pad.vectors != 0).all()


def test_boxes_over_the_edge():
    """Loads from outside the source are zero, and stores to outside the target are dropped."""
    dram = MemRefType(i8, (3, 3, 16), NoneAttr(), StringAttr("dram"))
    chips = (buffer_type(space, (2, 4), (1, 16)) for space in ("inp", "acc"))
    x, i, j, chip, acc, y = Block(arg_types=[dram, IndexType(), IndexType(), *chips, dram]).args
    source = np.arange(1, 10, dtype=np.int8).reshape(3, 3, 1).repeat(16, axis=2)
    pad = Scratchpad(np.full((8, 1, 16), 0x55, np.int8), (2, 4))
    load = tile.LoadOp(x, [i, j], chip, [], (2, 4), row_step=2)
    load.verify()
    interpreter().run_op(load, (source, -1, 1, pad))
    assert pad.vectors[:, 0, 0].tolist() == [0, 0, 0, 0, 5, 6, 0, 0]

    sums = Scratchpad(np.arange(250, 258, dtype=np.int32).repeat(16).reshape(8, 1, 16), (2, 4))
    target = np.zeros((3, 3, 16), np.int8)
    store = tile.StoreOp(acc, [], y, [i, j], (2, 4))
    store.verify()
    interpreter().run_op(store, (sums, target, 2, 1))
    assert target[..., 0].tolist() == [[0, 0, 0], [0, 0, 0], [0, -6, -5]]


@pytest.mark.parametrize("vector", [(16,), (8,), (2, 8), (4, 2)])
@pytest.mark.parametrize("shape", [(3, 2, 5, 11), (1, 1, 1, 16), (7, 20)])
def test_pack(shape: tuple[int, ...], vector: tuple[int, ...]):
    """Check each element. Elements past the last channel or image are zero, and are dropped."""
    x = np.arange(1, 1 + np.prod(shape), dtype=np.int32).reshape(shape)
    packed = pack(x, packed_shape(shape, vector))
    rows, lanes = (1, *vector)[-2:]
    total = 0
    for place in product(*map(range, shape)):
        first, *middle, channel = place
        block, group = channel // lanes, first // rows
        at = (group, block, *middle) if len(shape) == 4 else (block, group)
        lane = (first % rows, channel % lanes)[-len(vector) :]
        assert packed[*at, *lane] == x[place]
        total += x[place]
    assert packed.sum() == total
    np.testing.assert_array_equal(unpack(packed, shape), x)


@pytest.mark.parametrize(
    ("kernel", "strides", "offset", "plane"),
    [
        ((3, 2), (2, 1), (1, 2), (5, 8)),
        ((1, 4), (1, 3), (0, 0), (2, 1)),
        ((2, 2), (2, 2), (4, 1), (2, 2)),
    ],
    ids=["over every edge", "inside", "rows that are all outside"],
)
def test_windows(
    kernel: tuple[int, int],
    strides: tuple[int, int],
    offset: tuple[int, int],
    plane: tuple[int, int],
):
    """Check each element, with another value outside the image."""
    n, height, width, channels = shape = (2, 6, 4, 3)
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    (value,) = Block(arg_types=[TensorType(UniformType(0.5), shape)]).args
    packed = packed_shape((n, *plane, kernel[0] * kernel[1] * channels + 2), (16,))
    op = PackWindowsOp(
        value,
        packed,
        kernel=kernel,
        strides=strides,
        offset=offset,
        value=-7,
        constants=(1, 5),
    )
    op.verify()
    found = windows(x, op)
    assert (found[..., -2:] == (1, 5)).all()
    for image, y, column, i, j, c in product(*map(range, (n, *plane, *kernel, channels))):
        row, at = y * strides[0] + i - offset[0], column * strides[1] + j - offset[1]
        inside = 0 <= row < height and 0 <= at < width
        expected = x[image, row, at, c] if inside else -7
        assert found[image, y, column, (i * kernel[1] + j) * channels + c] == expected


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("n", "k"), [(5, 7), (8, 4), (1, 9)])
def test_tiles_and_their_zero_point(n: int, k: int, transposed: bool):
    """Check each element. The bias subtracts the contribution of a zero point to each sum."""
    rng, lanes = np.random.default_rng(0), 4
    plain = rng.integers(-128, 128, (n, k)).astype(np.int8)
    stored = plain.T.copy() if transposed else plain
    (value,) = Block(arg_types=[TensorType(UniformType(0.5), stored.shape)]).args
    op = PackTilesOp(value, lanes, transposed=transposed)
    op.verify()
    assert op.plain_shape == (n, k)
    tiles = pack_tiles(stored, op)
    for i, j in product(range(tiles.shape[0] * lanes), range(tiles.shape[1] * lanes)):
        expected = plain[i, j] if i < n and j < k else 0
        assert tiles[i // lanes, j // lanes, 0, 0, i % lanes, j % lanes] == expected
    bias = np.full((len(tiles), 2, lanes), 7, np.int32)
    folded = fold_zero_point(bias, tiles, -128)
    for i, row in product(range(n), range(2)):
        assert folded[i // lanes, row, i % lanes] == 7 + 128 * int(plain[i].sum(dtype=np.int64))
