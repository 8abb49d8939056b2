"""
Execute operations of the `tile` dialect, and the `memref` operations that they need, in numpy.

Buffers in DRAM are arrays, written in place. Scratchpads are arrays of vectors, and `tile.gemm` is
computed as matrix products over boxes of them (regular grids of vectors). The initial contents of
scratchpads are garbage, so that a kernel that reads elements before it loads them differs from the
network.
"""

from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from xdsl.dialects import memref
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls

from ceras_ir.backends.vta.machine.instruction_plans import FLOAT32_PRODUCTS
from ceras_ir.backends.vta.machine.scratchpads import row_major
from ceras_ir.dialects import tile
from ceras_ir.dialects.graph import numpy_dtype
from ceras_ir.dialects.quant import Rounding
from ceras_ir.interpreters.located import check, check_indices, index_values
from ceras_ir.interpreters.network import pack, unpack
from ceras_ir.interpreters.windows import Window, convolve, exact_type
from ceras_ir.network.integer import round_shift, shift_swish

Array: TypeAlias = NDArray[np.generic]

Loop: TypeAlias = tuple[int, int, int, int]
"""The extent of a loop, and its strides in accumulators, inputs and weights, in vectors."""


@dataclass(eq=False)
class Scratchpad:
    """
    A buffer on chip in the interpreter. `vectors` has a vector for each element of `shape`, in
    row-major order.
    """

    vectors: Array
    shape: tuple[int, ...]
    rotations: int = 0
    """
    If the buffer is a ring, the number of times that the next buffer of the ring was selected.
    """

    def position(self, indices: tuple[int, ...]) -> int:
        """
        Return the index in `vectors` of the vector at `indices`; indices that are missing at the
        end are zero. An index outside the buffer raises an error.
        """
        position = row_major(self.shape, indices)
        check("vector", position, position, len(self.vectors))
        return position

    def run(self, indices: tuple[int, ...], count: int) -> Array:
        start = self.position(indices)
        check("vector", start, start + count - 1, len(self.vectors))
        return self.vectors[start : start + count]

    def box(self, start: int, extents: tuple[int, ...], strides: tuple[int, ...]) -> Array:
        reach = [(e - 1) * s for e, s in zip(extents, strides, strict=True)]
        low, high = (sum(step(0, r) for r in reach) for step in (min, max))
        check("vector", start + low, start + high, len(self.vectors))
        base = self.vectors[start:]
        steps = [s * base.strides[0] for s in strides]
        return as_strided(base, (*extents, *base.shape[1:]), (*steps, *base.strides[1:]))


def accumulate(
    op: tile.GemmOp,
    acc: tuple[Scratchpad, int],
    inp: tuple[Scratchpad, int],
    wgt: tuple[Scratchpad, int],
) -> None:
    """
    Compute `tile.gemm` as matrix products. Each operand is a scratchpad and the index of the first
    vector.

    Loops that move only input and accumulator are rows, loops that move only weights and
    accumulator are columns, and loops that do not move the accumulator are sums. Other loops are
    executed sequentially.
    """
    strides = zip(
        op.acc_strides.get_values(),
        op.inp_strides.get_values(),
        op.wgt_strides.get_values(),
        strict=True,
    )
    rows, columns, sums, outer = (list[Loop]() for _ in range(4))
    for extent, (a, i, w) in zip(op.loops, strides, strict=True):
        kind = sums if not a else rows if not w else columns if not i else outer
        kind.append((extent, a, i, w))
    if not _distinct(rows + columns):
        outer, rows, columns = outer + rows + columns, [], []
    for steps in product(*(range(extent) for extent, *_ in outer)):
        at = [
            start + sum(k * loop[1 + j] for k, loop in zip(steps, outer, strict=True))
            for j, (_, start) in enumerate((acc, inp, wgt))
        ]
        left = _box(inp[0], at[1], rows + sums, 2)
        right = _box(wgt[0], at[2], columns + sums, 3)
        count = prod(extent for extent, *_ in sums)
        outputs, inputs = wgt[0].vectors.shape[1:]
        lines = inp[0].vectors.shape[1]
        k = count * inputs
        real = np.float32 if k <= FLOAT32_PRODUCTS else np.float64
        # [positions, sums, line, in] and [columns, sums, out, in]
        a = left.astype(real).reshape(-1, count, lines, inputs)
        a = a.swapaxes(1, 2).reshape(-1, k)
        b = right.astype(real).reshape(-1, count, outputs, inputs)
        b = b.transpose(1, 3, 0, 2).reshape(k, -1)
        total = (a @ b).astype(np.int64).astype(np.int32)
        # [positions, line, columns, out] to [positions, columns, line, out]
        total = total.reshape(-1, lines, b.shape[1] // outputs, outputs).swapaxes(1, 2)
        target = _box(acc[0], at[0], rows + columns, 1)
        target[...] = target.astype(np.int32) + total.reshape(target.shape)


def _box(pad: Scratchpad, start: int, loops: list[Loop], operand: int) -> Array:
    extents = tuple(loop[0] for loop in loops)
    return pad.box(start, extents, tuple(loop[operand] for loop in loops))


def _distinct(loops: list[Loop]) -> bool:
    """Return whether no two iterations of the loops of a GEMM use the same accumulator."""
    reached = np.zeros(1, np.int64)
    for extent, stride, _, _ in loops:
        reached = (reached[:, None] + stride * np.arange(extent)).reshape(-1)
    return len(np.unique(reached)) == len(reached)


@register_impls
class TileFunctions(InterpreterFunctions):
    @impl(memref.AllocOp)
    def alloc(self, interpreter: Interpreter, op: memref.AllocOp, args: PythonValues):
        shape, vector = tile.vectors_in(op.memref), tile.vector_of(op.memref)
        dtype = numpy_dtype(tile.memref_type(op.memref).element_type)
        garbage = np.full((prod(shape), *vector), 0x55, dtype)
        return (Scratchpad(garbage, shape),)

    @impl(tile.ViewOp)
    def view(self, interpreter: Interpreter, op: tile.ViewOp, args: PythonValues):
        view: Array = args[0].reshape(tile.memref_type(op.result).get_shape())
        return (view,)

    @impl(tile.RotateOp)
    def rotate(self, interpreter: Interpreter, op: tile.RotateOp, args: PythonValues):
        ring: Scratchpad = args[0]
        stage = ring.rotations % ring.shape[0]
        ring.rotations += 1
        size = prod(ring.shape[1:])
        return (Scratchpad(ring.vectors[stage * size : (stage + 1) * size], ring.shape[1:]),)

    @impl(tile.LoadOp)
    def load(self, interpreter: Interpreter, op: tile.LoadOp, args: PythonValues):
        source: Array = args[0]
        count = len(op.source_indices)
        indices: tuple[int, ...] = args[1 : 1 + count]
        target: Scratchpad = args[1 + count]
        step = op.row_step.value.data
        matrix, row, column = matrix_at(source, indices)
        rows = row + step * np.arange(op.extents[0])
        columns = column + np.arange(op.extents[1])
        y_in = (rows >= 0) & (rows < matrix.shape[0])
        x_in = (columns >= 0) & (columns < matrix.shape[1])
        box = np.zeros((*op.extents, *matrix.shape[2:]), source.dtype)
        box[np.ix_(y_in, x_in)] = matrix[np.ix_(rows[y_in], columns[x_in])]
        flat = box.reshape(-1, *target.vectors.shape[1:])
        target.run(args[2 + count :], len(flat))[...] = flat
        return ()

    @impl(tile.StoreOp)
    def store(self, interpreter: Interpreter, op: tile.StoreOp, args: PythonValues):
        source: Scratchpad = args[0]
        count = len(op.source_indices)
        vectors = source.run(args[1 : 1 + count], prod(op.extents)).astype(np.int8)
        target: Array = args[1 + count]
        indices: tuple[int, ...] = args[2 + count :]
        matrix, row, column = matrix_at(target, indices)
        box = vectors.reshape(*op.extents, *matrix.shape[2:])
        check_indices((row, column), matrix.shape)
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
        n, blocks, h, w, *vector = x.shape
        outputs, _, kh, kw, lanes, _ = weights.shape
        plain = unpack(x, (n * prod(vector[:-1]), h, w, blocks * lanes)).astype(np.int64)
        filters = weights.transpose(0, 4, 2, 3, 1, 5).reshape(outputs * lanes, kh, kw, -1)
        real = exact_type(filters, 128)
        groups = op.groups.value.data
        window = Window.of(
            (kh, kw), op.strides.get_values(), op.padding.get_values(), op.dilations.get_values()
        )
        padded = window.padded(plain.astype(real), op.outside.value.data)
        acc = convolve(
            padded, filters.astype(real), replace(window, padding=(0, 0, 0, 0)), groups
        ).astype(np.int64)
        radix = None if op.radix is None else rest.pop(0)
        acc += _added_to_channels(bias, radix if op.bias_tiles else None)
        if op.residual is not None:
            residual, tile_weights, *_ = rest
            acc += _moved_residual(residual, tile_weights, acc.shape) << (
                op.residual_shift.value.data
            )
        acc = combine(tile.AluFunction.SHR, acc, np.array([op.shift.value.data]))
        if op.shifts is not None:
            acc = combine(tile.AluFunction.SHR, acc, _of_channels(rest[-2], 1))
        acc = np.clip(acc, op.low.value.data, op.high.value.data)
        if op.swish is not None:
            shift, low, high = op.swish.get_values()
            bends = -_of_channels(rest[2 * (op.residual is not None)][:5], 2)
            acc = shift_swish(acc, bends.T.tolist())
            acc = np.clip(round_shift(acc, shift, Rounding.HALF_UP), low, high)
        if (maximum := op.window_maximum) is not None:
            acc = _window_maxima(acc, maximum)
        rest[-1][...] = pack(acc.astype(np.int8), rest[-1].shape)
        return ()

    @impl(tile.MaxPoolOp)
    def max_pool(self, interpreter: Interpreter, op: tile.MaxPoolOp, args: PythonValues):
        x, _, output = args
        taps = _pooled_taps(op, x, op.least.value.data)
        output[...] = np.maximum.reduce(taps).reshape(output.shape)
        return ()

    @impl(tile.AveragePoolOp)
    def average_pool(self, interpreter: Interpreter, op: tile.AveragePoolOp, args: PythonValues):
        x, weights, bias, output = args
        total = np.add.reduce([tap.astype(np.int64) for tap in _pooled_taps(op, x)])
        total = total.reshape(*total.shape[:-1], *x.shape[4:])
        acc = np.zeros(total.shape, np.int64)
        for digit in weights.astype(np.int64):
            acc = (acc << op.DIGIT_BITS) + total @ digit.T
        acc = combine(tile.AluFunction.SHR, acc + bias, np.array([op.shift.value.data]))
        result = np.clip(acc, op.low.value.data, op.high.value.data).astype(np.int8)
        output[...] = result.reshape(output.shape)
        return ()


def _window_maxima(results: NDArray[np.int64], maximum: tile.WindowMaximum) -> NDArray[np.int64]:
    """Return the maximum of each window of `results` [N, H, W, C]; elements outside are ignored."""
    (kh, kw), (top, left) = maximum.kernel, maximum.before
    padding = (0, 0), (top, kh), (left, kw), (0, 0)
    padded = np.pad(results, padding, constant_values=np.iinfo(np.int8).min)
    window = Window(maximum.kernel, maximum.strides, (0, 0, 0, 0), (1, 1))
    rows, columns = maximum.results(*results.shape[1:3])
    return np.maximum.reduce([tap[:, :rows, :columns] for _, _, tap in window.taps(padded)])


def _pooled_taps(
    op: tile.MaxPoolOp | tile.AveragePoolOp, x: Array, outside: int = 0
) -> list[Array]:
    """
    Return an array for each element (tap) of a pooling window: the values that all windows have
    there, [planes, rows, columns, lanes]. A plane is a channel block of an image; `outside` is the
    value of the padding.
    """
    n, c, h, w, *vector = x.shape
    planes = x.reshape(n * c, h, w, prod(vector)).astype(np.int8)
    window = Window.of(
        op.kernel.get_values(), op.strides.get_values(), op.padding.get_values(), (1, 1)
    )
    return [tap for _, _, tap in window.taps(window.padded(planes, outside))]


def _moved_residual(residual: Array, tiles: Array, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """
    Return the packed residual multiplied by a diagonal tile of weights, or by a tile for each block
    of channels, and unpacked to `shape` [N, H, W, C].
    """
    lanes = residual.shape[-1]
    vectors = residual.reshape(*residual.shape[:2], -1, lanes).astype(np.int64)
    moved = vectors @ tiles.reshape(-1, lanes, lanes).swapaxes(1, 2).astype(np.int64)
    return np.asarray(unpack(moved.reshape(residual.shape), shape), np.int64)


def _of_channels(constants: NDArray[np.int32], rank: int) -> NDArray[np.int64]:
    """
    Return packed constants in the order of channels: blocks and lanes are merged. `rank` is the
    number of axes before the axes of a vector.
    """
    if constants.ndim > rank + 1:
        constants = constants[..., 0, :]
    return constants.reshape(*constants.shape[: rank - 1], -1).astype(np.int64)


def _added_to_channels(bias: Array, radix: Array | None) -> NDArray[np.int64]:
    """
    Return a packed bias in the order of channels. If the bias is stored as int8 digits, `radix` has
    the place values of the digits; otherwise it is `None`.
    """
    if radix is None:
        return _of_channels(bias.astype(np.int32), 1)
    counts = radix.reshape(-1, radix.shape[-1])[0].astype(np.int64)
    return (bias.astype(np.int64) @ counts).sum(axis=-2).reshape(-1)


def matrix_at(array: Array, indices: tuple[int, ...]) -> tuple[Array, int, int]:
    """
    Return the matrix of vectors that all but the last two of `indices` select in `array` (a view),
    and the last two indices: row and column. A single index is a column of an array of one
    dimension.
    """
    indices = index_values(indices)
    if len(indices) == 1:
        return array[None], 0, indices[0]
    check_indices(indices[:-2], array.shape)
    return array[indices[:-2]], indices[-2], indices[-1]


def combine(
    kind: tile.AluFunction, target: NDArray[np.int64], other: NDArray[np.int64]
) -> NDArray[np.int64]:
    """
    Return the ALU function `kind` of two arrays, elementwise, in 64 bits. The caller wraps the
    results to 32 bits.
    """
    match kind:
        case tile.AluFunction.ADD:
            return target + other
        case tile.AluFunction.MAX:
            return np.maximum(target, other)
        case tile.AluFunction.MIN:
            return np.minimum(target, other)
        case tile.AluFunction.SHR:
            return (target << np.maximum(-other, 0)) >> np.maximum(other, 0)
