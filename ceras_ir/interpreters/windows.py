"""
Sliding windows in numpy: sums of products, maxima and sums over `[N, H, W, C]` arrays.

Reductions are over the first axis of a matrix [N, M] and vectorized over the second. Results have
the bits of the definition, which combines element after element.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from math import prod
from operator import itemgetter
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ceras_ir.dialects.graph import Conv2dOp, Pool2dOp, shape_of
from ceras_ir.dialects.graph.attributes import integers_of
from ceras_ir.dialects.graph.operation import window_output
from ceras_ir.dialects.graph.reduction import Reduce

Generic = TypeVar("Generic", bound=np.generic)

FEW_COLUMNS = 4
"""Fewer columns than these are faster with `accumulate`, which has no call for each row."""


def combined_in_order(function: np.ufunc, rows: NDArray[Generic]) -> NDArray[Generic]:
    """
    Add or multiply row after row, [N, M] to [M].

    numpy adds in pairs only along the axis that is contiguous in memory, which the first axis of
    a matrix in C order is not, unless it has a single column.
    """
    if rows.shape[1] < FEW_COLUMNS:
        return function.accumulate(rows, axis=0)[-1]
    # Of a sum that starts from 0, -0 is lost.
    start = -0.0 if function is np.add else 1.0
    return function.reduce(np.ascontiguousarray(rows), axis=0, initial=start)


def reduce_rows(kind: Reduce, rows: NDArray[Generic]) -> NDArray[Generic]:
    """`graph.reduce` of [N, M] to [M]; integers wrap around."""
    if kind in (Reduce.MAX, Reduce.MIN):
        return _extremes(kind, rows)
    function = np.add if kind is Reduce.SUM else np.multiply
    if rows.dtype == np.float32:
        return combined_in_order(function, rows)
    # 64 bits wrap around to the same low bits as fewer bits do.
    wide = np.uint64 if rows.dtype.kind in "ub" else np.int64
    return function.reduce(rows, axis=0, dtype=wide).astype(rows.dtype)


def _extremes(kind: Reduce, rows: NDArray[Generic]) -> NDArray[Generic]:
    """Maxima or minima: the first NaN, and the last of zeros of both signs."""
    function = np.maximum if kind is Reduce.MAX else np.minimum
    result: NDArray[Generic] = function.reduce(rows, axis=0)
    if rows.dtype != np.float32:
        return result
    # The order of elements is numpy's choice, and decides between zeros and between NaN.
    is_nan, is_zero = np.isnan(result), result == np.float32(0)
    if is_nan.any():
        columns = rows[:, is_nan]
        result[is_nan] = _at(columns, np.isnan(columns).argmax(axis=0))
    if is_zero.any():
        columns = rows[:, is_zero]
        result[is_zero] = _at(columns, len(rows) - 1 - (columns == 0)[::-1].argmax(axis=0))
    return result


def _at(rows: NDArray[Generic], index: NDArray[np.intp]) -> NDArray[Generic]:
    """Select an element of each column, by row."""
    return np.take_along_axis(rows, index[None], axis=0)[0]


def index_of_extreme(kind: Reduce, rows: NDArray[np.generic], *, last: bool) -> NDArray[np.int64]:
    """
    `graph.arg` of [N, M] to [M]: the first or the last row with the maximum or minimum.

    Comparisons with NaN are false: a column that starts with NaN has index 0, and other NaN are
    never chosen.
    """
    function = np.fmax if kind is Reduce.MAX else np.fmin
    is_best = rows == function.reduce(rows, axis=0)
    index = len(rows) - 1 - is_best[::-1].argmax(axis=0) if last else is_best.argmax(axis=0)
    return np.where(rows[0] != rows[0], 0, index).astype(np.int64)


Reals = NDArray[np.floating]
Numbers = TypeVar("Numbers", bound=np.number)


@dataclass(frozen=True)
class Window:
    """Geometry of a sliding window; `padding` is [top, left, bottom, right]."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilations: tuple[int, int]

    @classmethod
    def of(
        cls,
        kernel: Sequence[int],
        strides: Sequence[int],
        padding: Sequence[int],
        dilations: Sequence[int],
    ) -> "Window":
        return cls(
            (kernel[0], kernel[1]),
            (strides[0], strides[1]),
            (padding[0], padding[1], padding[2], padding[3]),
            (dilations[0], dilations[1]),
        )

    @classmethod
    def of_operation(cls, op: Conv2dOp | Pool2dOp) -> "Window":
        is_pool = not isinstance(op, Conv2dOp)
        kernel = integers_of(op.kernel) if is_pool else shape_of(op.weights)[1:3]
        return cls.of(kernel, *map(integers_of, (op.strides, op.padding, op.dilations)))

    def padded(self, x: NDArray[Numbers], fill: float) -> NDArray[Numbers]:
        """`x` with its border filled."""
        top, left, bottom, right = self.padding
        if not any(self.padding):
            return x
        n, height, width, channels = x.shape
        # As np.pad does, in a quarter of the time for small maps.
        result = np.empty((n, top + height + bottom, left + width + right, channels), x.dtype)
        result[:, :top] = result[:, top + height :] = fill
        inside = result[:, top : top + height]
        inside[:, :, :left] = inside[:, :, left + width :] = fill
        inside[:, :, left : left + width] = x
        return result

    def taps(self, padded: NDArray[Numbers]) -> Iterator[tuple[int, int, NDArray[Numbers]]]:
        """For each position of the window, row-major, what all windows see there (a view)."""
        rows, columns = (self.places(axis, padded.shape[1 + axis]) for axis in (0, 1))
        for (i, seen_rows), (j, seen_columns) in product(enumerate(rows), enumerate(columns)):
            yield i, j, padded[:, seen_rows, seen_columns, :]

    def laid_out(self, padded: NDArray[Numbers]) -> NDArray[Numbers]:
        """Return all `taps` as a view [KH, KW, N, OH, OW, C]."""
        reach = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]
        seen = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(1, 2))
        (high, wide), (down, right) = self.strides, self.dilations
        return seen[:, ::high, ::wide, :, ::down, ::right].transpose(4, 5, 0, 1, 2, 3)

    def places(self, axis: int, size: int) -> list[slice]:
        """For each position of the window along an axis, the indices that all windows see there."""
        kernel, stride, dilation = self.kernel[axis], self.strides[axis], self.dilations[axis]
        reach = (window_output(size, 0, 0, kernel, stride, dilation) - 1) * stride + 1
        return [slice(i * dilation, i * dilation + reach, stride) for i in range(kernel)]


def convolve(x: Reals, weights: Reals, window: Window, groups: int) -> Reals:
    """
    Cross-correlation of `x` [N, H, W, C], already of a floating type, with `weights`
    [O, KH, KW, C/groups]. Exact for integers while every partial sum fits the mantissa.
    """
    o, kh, kw, per_group = weights.shape
    padded = window.padded(x, 0)
    taps = list(window.taps(padded))
    n, oh, ow, c = taps[0][2].shape
    if groups == 1:
        if len(taps) == 1:
            rows = taps[0][2].reshape(n * oh * ow, c)
            return (rows @ weights.reshape(o, -1).T).reshape(n, oh, ow, o)
        return _by_columns(padded, weights, window, (n, oh, ow, c))
    per_output = o // groups
    if per_group == per_output == 1:
        return _depthwise(taps, weights, (n, oh, ow, c))
    result = np.zeros((n, oh, ow, groups, per_output), x.dtype)
    # [g, C/g, O/g] per tap; one multiplication per lane where the group has one channel.
    split = weights.reshape(groups, per_output, kh, kw, per_group)
    for i, j, tap in taps:
        lanes = tap.reshape(n, oh, ow, groups, per_group)
        if per_group == 1:
            result += lanes * split[:, :, i, j, 0]
        else:
            result += np.einsum("nyxgc,goc->nyxgo", lanes, split[:, :, i, j, :])
    return result.reshape(n, oh, ow, o)


SEEN = 1 << 19
"""Elements of all windows that are laid out at once, so that they stay in the cache."""


def _by_columns(
    padded: Reals, weights: Reals, window: Window, shape: tuple[int, int, int, int]
) -> Reals:
    """Products of windows that are laid out as rows of a matrix, some rows of positions a time."""
    (n, oh, ow, c), (o, kh, kw, _) = shape, weights.shape
    result = np.empty((n, oh, ow, o), padded.dtype)
    factors = weights.reshape(o, -1).T
    step = max(1, SEEN // max(ow * kh * kw * c, 1))
    stride, reach = window.strides[0], (kh - 1) * window.dilations[0] + 1
    for image, start in product(range(n), range(0, oh, step)):
        rows, first = min(step, oh - start), start * stride
        piece = result[image, start : start + rows].reshape(rows * ow, o)
        seen = padded[image : image + 1, first : first + (rows - 1) * stride + reach]
        columns = _columns(seen, window, (1, rows, ow, c))
        np.matmul(columns.reshape(rows * ow, -1), factors, out=piece)
    return result


def _columns(padded: Reals, window: Window, shape: tuple[int, int, int, int]) -> Reals:
    """Lay out the elements of each window in the order of the weights, by rows where possible."""
    (n, oh, ow, c), (kh, kw), stride = shape, window.kernel, window.strides[1]
    columns = np.empty((n, oh, ow, kh, kw * c), padded.dtype)
    if window.dilations[1] != 1 or not padded.flags.c_contiguous:
        apart = columns.reshape(n, oh, ow, kh * kw, c)
        for k, (_, _, tap) in enumerate(window.taps(padded)):
            apart[:, :, :, k] = tap
        return columns
    lines = padded.reshape(n, padded.shape[1], -1)
    seen = np.lib.stride_tricks.sliding_window_view(lines, kw * c, axis=2)[:, :, :: c * stride]
    for i, rows in enumerate(window.places(0, padded.shape[1])):
        columns[:, :, :, i] = seen[:, rows, :ow]
    return columns


CACHED = 1 << 16
"""Elements of a depthwise result that are added to at once, so that they stay in the cache."""


def _depthwise(
    taps: Sequence[tuple[int, int, Reals]], weights: Reals, shape: tuple[int, int, int, int]
) -> Reals:
    """One channel out of one, a few rows at a time; sums begin with 0, which turns -0 into 0."""
    _, rows, columns, channels = shape
    result = np.zeros(shape, taps[0][2].dtype)
    # Factors of a whole row make one long loop of each row.
    factors = [np.tile(weights[:, i, j, 0], (columns, 1)) for i, j, _ in taps]
    step = max(1, CACHED // max(columns * channels, 1))
    room = np.empty_like(result[:, :step])
    for start in range(0, rows, step):
        piece = result[:, start : start + step]
        products = room[:, : piece.shape[1]]
        for (_, _, tap), factor in zip(taps, factors, strict=True):
            np.multiply(tap[:, start : start + step], factor, out=products)
            np.add(piece, products, out=piece)
    return result


IN_ORDER, LONG = 1 << 13, 1 << 9
"""Sums that are added to at once, so that they stay in the cache, and how many of one channel."""


def convolve_in_order(
    x: NDArray[np.float32],
    weights: NDArray[np.float32],
    window: Window,
    groups: int,
    stored: NDArray[np.bool_] | None = None,
) -> NDArray[np.float32]:
    """
    The same in float32, products added one after the other as the weights lie in memory; of
    weights that are not `stored` there are none.
    """
    o = len(weights)
    factors = _by_product(weights, groups)
    taken = None if stored is None else _by_product(stored, groups)
    taps = [tap for _, _, tap in window.taps(window.padded(x, 0))]
    flat = [tap.reshape(-1, groups, weights.shape[3]) for tap in taps]
    positions = len(flat[0])
    result = np.empty((positions, groups, o // groups), np.float32)
    lanes = max(1, IN_ORDER // min(positions, LONG) // groups)
    for start in range(0, positions, LONG):
        piece = np.stack([tap[start : start + LONG] for tap in flat])
        columns = np.ascontiguousarray(piece.transpose(0, 3, 2, 1))[:, :, :, None]
        columns = columns.reshape(len(factors), groups, 1, -1)
        for first in range(0, o // groups, lanes):
            chosen = np.ascontiguousarray(factors[:, :, first : first + lanes])
            # The first sum is 0 + product, which turns -0 into 0.
            total = np.zeros((groups, chosen.shape[2], columns.shape[3]), np.float32)
            products = np.empty_like(total)
            for k, (column, factor) in enumerate(zip(columns, chosen, strict=True)):
                np.multiply(column, factor, out=products)
                where = True if taken is None else taken[k, :, first : first + lanes]
                np.add(products, total, out=total, where=where)
            result[start : start + LONG, :, first : first + lanes] = total.transpose(2, 0, 1)
    return result.reshape(*taps[0].shape[:3], o)


def _by_product(array: NDArray[Generic], groups: int) -> NDArray[Generic]:
    """
    Weights as [K, groups, O/groups, 1], to meet inputs as [K, groups, 1, positions]: both in the
    order of sums.
    """
    o, kh, kw, per_group = array.shape
    split = array.reshape(groups, o // groups, kh * kw, per_group)
    return np.ascontiguousarray(split.transpose(2, 3, 0, 1)).reshape(-1, groups, o // groups, 1)


def exact_type(weights: NDArray[np.generic], input_bound: int) -> type[np.floating]:
    """The smallest floating type in which the integer sums of products are exact."""
    rows = np.abs(weights.astype(np.int64)).reshape(weights.shape[0], -1).sum(axis=1)
    bound = int(rows.max(initial=0)) * input_bound
    assert bound < 1 << 53
    return np.float32 if bound < 1 << 24 else np.float64


def counts(height: int, width: int, window: Window) -> NDArray[np.int64]:
    """Count the elements of each window that are inside an input of this size: [OH, OW]."""
    ones = np.ones((1, height, width, 1), np.int64)
    return window_sum(window, window.padded(ones, 0))[0, :, :, 0]


MANY_TAPS = 64
"""Windows with more elements become a matrix, instead of a call for each element."""


def window_maximum(window: Window, padded: NDArray[Numbers]) -> NDArray[Numbers]:
    """Return the maximum of each window: the first of zeros of both signs, the last NaN."""
    # `reduce_rows`, and numpy on x86, choose the last zero, so take the elements in reverse.
    if prod(window.kernel) > MANY_TAPS:
        seen = window.laid_out(padded)[::-1, ::-1]
        return reduce_rows(Reduce.MAX, seen.reshape(prod(window.kernel), -1)).reshape(
            seen.shape[2:]
        )
    *rest, (_, _, last) = window.taps(padded)
    result = last.copy()
    for _, _, tap in reversed(rest):
        np.maximum(result, tap, out=result)
    return result


def window_sum(window: Window, padded: NDArray[Numbers]) -> NDArray[Numbers]:
    """Sums over windows: of each row from left to right, then of the rows from the top, from 0."""
    if prod(window.kernel) > MANY_TAPS:
        seen = window.laid_out(padded)
        rows = _sum_of_rows(np.moveaxis(seen, 1, 0))
        return _sum_of_rows(rows)
    rows = groupby(window.taps(padded), key=itemgetter(0))
    return _sum(_sum(tap for _, _, tap in row) for _, row in rows)


def _sum_of_rows(array: NDArray[Numbers]) -> NDArray[Numbers]:
    """The sum over the first axis, from 0."""
    total = reduce_rows(Reduce.SUM, array.reshape(len(array), -1))
    return total.reshape(array.shape[1:]) + 0


def _sum(arrays: Iterable[NDArray[Numbers]]) -> NDArray[Numbers]:
    """One after the other, from 0."""
    rest = iter(arrays)
    total = next(rest) + 0
    for array in rest:
        np.add(total, array, out=total)
    return total
