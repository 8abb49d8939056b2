"""
What the operations of the `tile` dialect mean, in numpy, with the `memref` they need.

Buffers in DRAM are arrays, written in place. Scratchpads begin as garbage, so that a kernel
that reads what it never loaded differs from the network.
"""

from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from xdsl.dialects import memref
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    impl,
    register_impls,
)
from xdsl.interpreters.arith import ArithFunctions
from xdsl.interpreters.scf import ScfFunctions

from ceras_ir.dialects import tile
from ceras_ir.dialects.graph import numpy_dtype
from ceras_ir.interpreters.mem import pack, unpack
from ceras_ir.interpreters.windows import Window, convolve, exact_type

Array = NDArray[np.generic]

FLOAT32_VECTORS = 64
"""Sums of so many products of int8 vectors are exact in float32: 64 * 16 * 2^14 = 2^24."""


def kernel_functions() -> tuple[InterpreterFunctions, ...]:
    """The meaning of everything in a kernel."""
    return (ArithFunctions(), ScfFunctions(), TileFunctions())


@dataclass(eq=False)
class Scratchpad:
    """A buffer on chip: `shape` vectors, row-major in `vectors`."""

    vectors: Array
    shape: tuple[int, ...]
    turns: int = 0
    """How often the next buffer of this ring has been asked for."""

    def position(self, indices: tuple[int, ...]) -> int:
        """Which vector leading indices mean; those left out are zero."""
        position = 0
        for extent, index in zip(self.shape, (*indices, *(0,) * len(self.shape)), strict=False):
            position = position * extent + index
        assert 0 <= position < len(self.vectors), f"vector {position} of {self.shape}"
        return position

    def box(self, start: int, extents: tuple[int, ...], strides: tuple[int, ...]) -> Array:
        """A view of the vectors that loops reach."""
        reach = sum((e - 1) * s for e, s in zip(extents, strides, strict=True))
        assert start + reach < len(self.vectors), f"vector {start + reach} of {self.shape}"
        base = self.vectors[start:]
        steps = [s * base.strides[0] for s in strides]
        return as_strided(base, (*extents, *base.shape[1:]), (*steps, *base.strides[1:]))


@register_impls
class TileFunctions(InterpreterFunctions):
    @impl(memref.AllocOp)
    def alloc(self, interpreter: Interpreter, op: memref.AllocOp, args: PythonValues):
        kind = tile.memref_type(op.memref)
        rank = tile.vector_rank(op.memref)
        shape, vector = kind.get_shape()[:-rank], kind.get_shape()[-rank:]
        garbage = np.full((prod(shape), *vector), 0x55, numpy_dtype(kind.element_type))
        return (Scratchpad(garbage, shape),)

    @impl(tile.ViewOp)
    def view(self, interpreter: Interpreter, op: tile.ViewOp, args: PythonValues):
        view: Array = args[0].reshape(tile.memref_type(op.result).get_shape())
        return (view,)

    @impl(tile.RotateOp)
    def rotate(self, interpreter: Interpreter, op: tile.RotateOp, args: PythonValues):
        ring: Scratchpad = args[0]
        stage = ring.turns % ring.shape[0]
        ring.turns += 1
        size = prod(ring.shape[1:])
        return (Scratchpad(ring.vectors[stage * size : (stage + 1) * size], ring.shape[1:]),)

    @impl(tile.LoadOp)
    def load(self, interpreter: Interpreter, op: tile.LoadOp, args: PythonValues):
        source: Array = args[0]
        count = len(op.source_indices)
        indices: tuple[int, ...] = args[1 : 1 + count]
        target: Scratchpad = args[1 + count]
        start = target.position(args[2 + count :])
        step = op.row_step.value.data
        matrix = source[indices[:-2]] if count > 1 else source[None]
        row, column = indices[-2:] if count > 1 else (0, indices[0])
        rows = row + step * np.arange(op.extents[0])
        columns = column + np.arange(op.extents[1])
        y_in = (rows >= 0) & (rows < matrix.shape[0])
        x_in = (columns >= 0) & (columns < matrix.shape[1])
        box = np.zeros((*op.extents, *matrix.shape[2:]), source.dtype)
        box[np.ix_(y_in, x_in)] = matrix[np.ix_(rows[y_in], columns[x_in])]
        flat = box.reshape(-1, *box.shape[2:])
        target.vectors[start : start + len(flat)] = flat
        return ()

    @impl(tile.StoreOp)
    def store(self, interpreter: Interpreter, op: tile.StoreOp, args: PythonValues):
        source: Scratchpad = args[0]
        count = len(op.source_indices)
        start = source.position(args[1 : 1 + count])
        target: Array = args[1 + count]
        indices: tuple[int, ...] = args[2 + count :]
        vectors = source.vectors[start : start + prod(op.extents)].astype(np.int8)
        box = vectors.reshape(*op.extents, tile.LANES)
        matrix = target[indices[:-2]] if len(indices) > 1 else target[None]
        row, column = indices[-2:] if len(indices) > 1 else (0, indices[0])
        assert row >= 0 and column >= 0
        part = matrix[row : row + op.extents[0], column : column + op.extents[1]]
        part[...] = box[: part.shape[0], : part.shape[1]]
        return ()

    @impl(tile.ClearOp)
    def clear(self, interpreter: Interpreter, op: tile.ClearOp, args: PythonValues):
        target: Scratchpad = args[0]
        target.box(target.position(args[1:]), op.loops, (1,))[...] = 0
        return ()

    @impl(tile.GemmOp)
    def gemm(self, interpreter: Interpreter, op: tile.GemmOp, args: PythonValues):
        a, i = len(op.acc_indices), len(op.inp_indices)
        acc: Scratchpad = args[0]
        inp: Scratchpad = args[1 + a]
        wgt: Scratchpad = args[2 + a + i]
        accumulate(
            op,
            (acc, acc.position(args[1 : 1 + a])),
            (inp, inp.position(args[2 + a : 2 + a + i])),
            (wgt, wgt.position(args[3 + a + i :])),
        )
        return ()

    @impl(tile.AluOp)
    def alu(self, interpreter: Interpreter, op: tile.AluOp, args: PythonValues):
        count = len(op.target_indices)
        target: Scratchpad = args[0]
        strides = tuple(op.target_strides.get_values())
        view = target.box(target.position(args[1 : 1 + count]), op.loops, strides)
        if op.source_strides is None:
            assert op.immediate is not None
            other = np.full((1,), op.immediate.value.data, np.int64)
        else:
            source: Scratchpad = args[1 + count]
            start = source.position(args[2 + count :])
            box = source.box(start, op.loops, tuple(op.source_strides.get_values()))
            other = box.astype(np.int64)
        view[...] = combine(op.function, view.astype(np.int64), other).astype(np.int32)
        return ()

    @impl(tile.Conv2dOp)
    def conv2d(self, interpreter: Interpreter, op: tile.Conv2dOp, args: PythonValues):
        x, weights, bias, *rest = args
        n, _, h, w, _ = x.shape
        blocks, _, kh, kw, _, _ = weights.shape
        plain = unpack(x, (n, h, w, x.shape[1] * tile.LANES)).astype(np.int64)
        filters = weights.transpose(0, 4, 2, 3, 1, 5).reshape(blocks * tile.LANES, kh, kw, -1)
        real = exact_type(filters, 128)
        window = Window.of(
            (kh, kw), op.strides.get_values(), op.padding.get_values(), op.dilations.get_values()
        )
        acc = convolve(plain.astype(real), filters.astype(real), window, 1).astype(np.int64)
        acc += bias.reshape(-1)
        if op.residual is not None:
            residual, tile_weights, _ = rest
            moved = residual.astype(np.int64) @ tile_weights.T.astype(np.int64)
            acc += unpack(moved, acc.shape) << op.residual_shift.value.data
        acc = combine(tile.Alu.SHR, acc, np.array([op.shift.value.data]))
        result = np.clip(acc, op.low.value.data, op.high.value.data).astype(np.int8)
        rest[-1][...] = pack(result)
        return ()


def combine(
    kind: tile.Alu, target: NDArray[np.int64], other: NDArray[np.int64]
) -> NDArray[np.int64]:
    """`kind(target, other)` without the final wrap to 32 bits."""
    match kind:
        case tile.Alu.ADD:
            return target + other
        case tile.Alu.MAX:
            return np.maximum(target, other)
        case tile.Alu.MIN:
            return np.minimum(target, other)
        case tile.Alu.SHR:
            return (target << np.maximum(-other, 0)) >> np.maximum(other, 0)


def accumulate(
    op: tile.GemmOp,
    acc: tuple[Scratchpad, int],
    inp: tuple[Scratchpad, int],
    wgt: tuple[Scratchpad, int],
) -> None:
    """
    `tile.gemm` as matrix products. Loops that move only input and accumulator are rows, those
    that move only weights and accumulator columns, those that leave the accumulator alone are
    summed over; any other loop is run one iteration after the other.
    """
    strides = zip(
        op.acc_strides.get_values(),
        op.inp_strides.get_values(),
        op.wgt_strides.get_values(),
        strict=True,
    )
    rows, columns, sums, outer = [], [], [], list[tuple[int, int, int, int]]()
    for extent, (a, i, w) in zip(op.loops, strides, strict=True):
        kind = sums if not a else rows if not w else columns if not i else outer
        kind.append((extent, a, i, w))
    in_order = _distinct(rows + columns)
    if not in_order:
        outer, rows, columns = outer + rows + columns, [], []
    for steps in product(*(range(extent) for extent, *_ in outer)):
        at = [
            start + sum(k * loop[1 + j] for k, loop in zip(steps, outer, strict=True))
            for j, (_, start) in enumerate((acc, inp, wgt))
        ]
        left = _box(inp[0], at[1], rows + sums, 2)
        right = _box(wgt[0], at[2], columns + sums, 3)
        count = prod(extent for extent, *_ in sums)
        real = np.float32 if count <= FLOAT32_VECTORS else np.float64
        k = count * tile.LANES
        # [rows, sums, in] and [columns, sums, out, in]
        a = left.astype(real).reshape(-1, k)
        b = right.astype(real).reshape(-1, count, tile.LANES, tile.LANES)
        b = b.transpose(1, 3, 0, 2).reshape(k, -1)
        total = (a @ b).astype(np.int64).astype(np.int32)
        target = _box(acc[0], at[0], rows + columns, 1)
        target += total.reshape(target.shape)


def _box(pad: Scratchpad, start: int, loops: list[tuple[int, int, int, int]], which: int) -> Array:
    extents = tuple(loop[0] for loop in loops)
    return pad.box(start, extents, tuple(loop[which] for loop in loops))


def _distinct(loops: list[tuple[int, int, int, int]]) -> bool:
    """Whether every iteration has an accumulator of its own."""
    reached = np.zeros(1, np.int64)
    for extent, stride, _, _ in loops:
        reached = (reached[:, None] + stride * np.arange(extent)).reshape(-1)
    return len(np.unique(reached)) == len(reached)
