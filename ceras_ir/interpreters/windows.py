"""
Compute sliding windows in numpy: sums of products, maxima and sums over `[N, H, W, C]` arrays.

Reductions are over the first axis of a matrix [N, M] and vectorized over the second. Results have
the bits of the definition, which combines elements in order.
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

MIN_REDUCED_COLUMNS = 4
"""With fewer columns, `accumulate` is faster: it has no call for each row."""


def combined_in_order(function: np.ufunc, rows: NDArray[Generic]) -> NDArray[Generic]:
    """
    Add or multiply (`function`) the rows of a matrix [N, M] in order, with a result [M].

    numpy adds in pairs only along a contiguous axis. The first axis of a matrix in C order is not
    contiguous, unless the matrix has a single column.
    """
    if rows.shape[1] < MIN_REDUCED_COLUMNS:
        return function.accumulate(rows, axis=0)[-1]
    # A sum that starts from 0 would turn -0 into 0.
    start = -0.0 if function is np.add else 1.0
    return function.reduce(np.ascontiguousarray(rows), axis=0, initial=start)


def reduce_rows(kind: Reduce, rows: NDArray[Generic]) -> NDArray[Generic]:
    """
    Evaluate `graph.reduce` of kind `kind` over the first axis of [N, M], with a result [M].
    Integers wrap around.
    """
    if kind in (Reduce.MAX, Reduce.MIN):
        return _extremes(kind, rows)
    function = np.add if kind is Reduce.SUM else np.multiply
    if rows.dtype == np.float32:
        return combined_in_order(function, rows)
    # A 64-bit result has the low bits of a narrower result.
    wide = np.uint64 if rows.dtype.kind in "ub" else np.int64
    return function.reduce(rows, axis=0, dtype=wide).astype(rows.dtype)


def _extremes(kind: Reduce, rows: NDArray[Generic]) -> NDArray[Generic]:
    function = np.maximum if kind is Reduce.MAX else np.minimum
    result: NDArray[Generic] = function.reduce(rows, axis=0)
    if rows.dtype != np.float32:
        return result
    # numpy chooses the order of elements, which decides between zeros and between NaN.
    is_nan, is_zero = np.isnan(result), result == np.float32(0)
    if is_nan.any():
        columns = rows[:, is_nan]
        result[is_nan] = _at(columns, np.isnan(columns).argmax(axis=0))
    if is_zero.any():
        columns = rows[:, is_zero]
        result[is_zero] = _at(columns, len(rows) - 1 - (columns == 0)[::-1].argmax(axis=0))
    return result


def _at(rows: NDArray[Generic], index: NDArray[np.intp]) -> NDArray[Generic]:
    return np.take_along_axis(rows, index[None], axis=0)[0]


def index_of_extreme(kind: Reduce, rows: NDArray[np.generic], *, last: bool) -> NDArray[np.int64]:
    """
    Evaluate `graph.arg` over the first axis of [N, M], with a result [M]: the index of the first or
    (with `last`) the last row that has the maximum or minimum.

    Comparisons with NaN are false. A column that starts with NaN has index 0, and another NaN is
    never selected.
    """
    function = np.fmax if kind is Reduce.MAX else np.fmin
    is_best = rows == function.reduce(rows, axis=0)
    index = len(rows) - 1 - is_best[::-1].argmax(axis=0) if last else is_best.argmax(axis=0)
    return np.where(rows[0] != rows[0], 0, index).astype(np.int64)


Reals = NDArray[np.floating]
Numbers = TypeVar("Numbers", bound=np.number)


@dataclass(frozen=True)
class Window:
    """
    The geometry of a sliding window of rows and columns: `padding` is [top, left, bottom, right],
    and the other pairs are [height, width].
    """

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
        """Return images [N, H, W, C] with the padding around each image, filled with `fill`."""
        top, left, bottom, right = self.padding
        if not any(self.padding):
            return x
        n, height, width, channels = x.shape
        # Four times as fast as np.pad for small maps.
        result = np.empty((n, top + height + bottom, left + width + right, channels), x.dtype)
        result[:, :top] = result[:, top + height :] = fill
        inside = result[:, top : top + height]
        inside[:, :, :left] = inside[:, :, left + width :] = fill
        inside[:, :, left : left + width] = x
        return result

    def taps(self, padded: NDArray[Numbers]) -> Iterator[tuple[int, int, NDArray[Numbers]]]:
        """
        Yield `(i, j, elements)` for each tap `(i, j)` of the window, in row-major order. `elements`
        is a view of `padded`: the element at the tap in each window.
        """
        rows, columns = (self.tap_slices(axis, padded.shape[1 + axis]) for axis in (0, 1))
        for (i, row), (j, column) in product(enumerate(rows), enumerate(columns)):
            yield i, j, padded[:, row, column, :]

    def laid_out(self, padded: NDArray[Numbers]) -> NDArray[Numbers]:
        """
        Return the elements of all windows of padded images as a view [KH, KW, N, OH, OW, C],
        without a copy.
        """
        reach = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]
        views = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(1, 2))
        (high, wide), (down, right) = self.strides, self.dilations
        return views[:, ::high, ::wide, :, ::down, ::right].transpose(4, 5, 0, 1, 2, 3)

    def tap_slices(self, axis: int, size: int) -> list[slice]:
        """
        Return, for each position in the window along `axis` (0 for rows, 1 for columns), a slice
        with the indices of the element at this position in all windows. `size` is the padded
        extent.
        """
        kernel, stride, dilation = self.kernel[axis], self.strides[axis], self.dilations[axis]
        reach = (window_output(size, 0, 0, kernel, stride, dilation) - 1) * stride + 1
        return [slice(i * dilation, i * dilation + reach, stride) for i in range(kernel)]


def convolve(x: Reals, weights: Reals, window: Window, groups: int, samples: int = 1) -> Reals:
    """
    Cross-correlate images `x` [N, H, W, C] with `weights` [O, KH, KW, C/groups], both of a floating
    type. The order of sums is arbitrary; the result is exact for integers while each partial sum
    fits the mantissa. If the images belong to several samples, the result has the bits of a call
    for each sample.
    """
    o, kh, kw, per_group = weights.shape
    padded = window.padded(x, 0)
    taps = list(window.taps(padded))
    n, oh, ow, c = taps[0][2].shape
    if groups == 1:
        if len(taps) == 1:
            rows = taps[0][2].reshape(samples, n // samples * oh * ow, c)
            return (rows @ weights.reshape(o, -1).T).reshape(n, oh, ow, o)
        return _by_columns(padded, weights, window, (n, oh, ow, c))
    per_output = o // groups
    if per_group == per_output == 1:
        return _depthwise(taps, weights, (n, oh, ow, c))
    result = np.zeros((n, oh, ow, groups, per_output), x.dtype)
    # [g, C/g, O/g] per tap; a multiplication per lane if groups have a single channel.
    split = weights.reshape(groups, per_output, kh, kw, per_group)
    for i, j, tap in taps:
        lanes = tap.reshape(n, oh, ow, groups, per_group)
        if per_group == 1:
            result += lanes * split[:, :, i, j, 0]
            continue
        for first in range(0, n, n // samples):
            each = slice(first, first + n // samples)
            result[each] += np.einsum("nyxgc,goc->nyxgo", lanes[each], split[:, :, i, j, :])
    return result.reshape(n, oh, ow, o)


MAX_COPIED_ELEMENTS = 1 << 19
"""The number of window elements that are copied at a time, so that they fit the cache."""


def _by_columns(
    padded: Reals, weights: Reals, window: Window, shape: tuple[int, int, int, int]
) -> Reals:
    (n, oh, ow, c), (o, kh, kw, _) = shape, weights.shape
    result = np.empty((n, oh, ow, o), padded.dtype)
    factors = weights.reshape(o, -1).T
    step = max(1, MAX_COPIED_ELEMENTS // max(ow * kh * kw * c, 1))
    if (images := min(step // max(oh, 1), n)) > 1 and padded.flags.c_contiguous:
        # The products of several images are still separate.
        for first in range(0, n, images):
            piece = result[first : first + images].reshape(-1, oh * ow, o)
            columns = _columns(padded[first : first + images], window, (len(piece), oh, ow, c))
            np.matmul(columns.reshape(len(piece), oh * ow, -1), factors, out=piece)
        return result
    stride, reach = window.strides[0], (kh - 1) * window.dilations[0] + 1
    for image, start in product(range(n), range(0, oh, step)):
        rows, first = min(step, oh - start), start * stride
        piece = result[image, start : start + rows].reshape(rows * ow, o)
        lines = padded[image : image + 1, first : first + (rows - 1) * stride + reach]
        columns = _columns(lines, window, (1, rows, ow, c))
        np.matmul(columns.reshape(rows * ow, -1), factors, out=piece)
    return result


def _columns(padded: Reals, window: Window, shape: tuple[int, int, int, int]) -> Reals:
    (n, oh, ow, c), (kh, kw), stride = shape, window.kernel, window.strides[1]
    columns = np.empty((n, oh, ow, kh, kw * c), padded.dtype)
    if window.dilations[1] != 1 or not padded.flags.c_contiguous:
        by_tap = columns.reshape(n, oh, ow, kh * kw, c)
        for k, (_, _, tap) in enumerate(window.taps(padded)):
            by_tap[:, :, :, k] = tap
        return columns
    lines = padded.reshape(n, padded.shape[1], -1)
    views = np.lib.stride_tricks.sliding_window_view(lines, kw * c, axis=2)[:, :, :: c * stride]
    for i, rows in enumerate(window.tap_slices(0, padded.shape[1])):
        columns[:, :, :, i] = views[:, rows, :ow]
    return columns


MAX_UPDATED_ELEMENTS = 1 << 16
"""The number of depthwise results that are updated at a time, so that they fit the cache."""


def _depthwise(
    taps: Sequence[tuple[int, int, Reals]], weights: Reals, shape: tuple[int, int, int, int]
) -> Reals:
    _, rows, columns, channels = shape
    result = np.zeros(shape, taps[0][2].dtype)
    # Factors are repeated along a row, so that numpy has a single inner loop.
    factors = [np.tile(weights[:, i, j, 0], (columns, 1)) for i, j, _ in taps]
    step = max(1, MAX_UPDATED_ELEMENTS // max(columns * channels, 1))
    room = np.empty_like(result[:, :step])
    for start in range(0, rows, step):
        piece = result[:, start : start + step]
        products = room[:, : piece.shape[1]]
        for (_, _, tap), factor in zip(taps, factors, strict=True):
            np.multiply(tap[:, start : start + step], factor, out=products)
            np.add(piece, products, out=piece)
    return result


MAX_UPDATED_SUMS, MAX_UPDATED_POSITIONS = 1 << 13, 1 << 9
"""The number of sums, and of positions per channel, that are updated at a time to fit the cache."""


def convolve_in_order(
    x: NDArray[np.float32],
    weights: NDArray[np.float32],
    window: Window,
    groups: int,
    stored: NDArray[np.bool_] | None = None,
) -> NDArray[np.float32]:
    """
    Cross-correlate in float32 like `convolve`, but add the products in the memory order of weights,
    each sum rounded. Weights at which `stored` is false have no product.
    """
    o = len(weights)
    factors = _by_product(weights, groups)
    stored_products = None if stored is None else _by_product(stored, groups)
    taps = [tap for _, _, tap in window.taps(window.padded(x, 0))]
    flat = [tap.reshape(-1, groups, weights.shape[3]) for tap in taps]
    positions = len(flat[0])
    result = np.empty((positions, groups, o // groups), np.float32)
    length = MAX_UPDATED_POSITIONS
    lanes = max(1, MAX_UPDATED_SUMS // min(positions, length) // groups)
    for start in range(0, positions, length):
        piece = np.stack([tap[start : start + length] for tap in flat])
        columns = np.ascontiguousarray(piece.transpose(0, 3, 2, 1))[:, :, :, None]
        columns = columns.reshape(len(factors), groups, 1, -1)
        for first in range(0, o // groups, lanes):
            chosen = np.ascontiguousarray(factors[:, :, first : first + lanes])
            # The first sum is 0 + product, which turns -0 into 0.
            total = np.zeros((groups, chosen.shape[2], columns.shape[3]), np.float32)
            products = np.empty_like(total)
            for k, (column, factor) in enumerate(zip(columns, chosen, strict=True)):
                np.multiply(column, factor, out=products)
                where = (
                    True
                    if stored_products is None
                    else stored_products[k, :, first : first + lanes]
                )
                np.add(products, total, out=total, where=where)
            result[start : start + length, :, first : first + lanes] = total.transpose(2, 0, 1)
    return result.reshape(*taps[0].shape[:3], o)


def _by_product(array: NDArray[Generic], groups: int) -> NDArray[Generic]:
    o, kh, kw, per_group = array.shape
    split = array.reshape(groups, o // groups, kh * kw, per_group)
    return np.ascontiguousarray(split.transpose(2, 3, 0, 1)).reshape(-1, groups, o // groups, 1)


def exact_type(weights: NDArray[np.generic], input_bound: int) -> type[np.floating]:
    """
    Return float32 or float64: the smaller type in which sums of products of integer `weights` with
    inputs of magnitudes up to `input_bound` are exact.
    """
    rows = np.abs(weights.astype(np.int64)).reshape(weights.shape[0], -1).sum(axis=1)
    bound = int(rows.max(initial=0)) * input_bound
    assert bound < 1 << 53
    return np.float32 if bound < 1 << 24 else np.float64


def counts(height: int, width: int, window: Window) -> NDArray[np.int64]:
    """
    Return, as [OH, OW], the number of elements of each window that are inside an image of `height`
    x `width`, not in the padding.
    """
    ones = np.ones((1, height, width, 1), np.int64)
    return window_sum(window, window.padded(ones, 0))[0, :, :, 0]


MAX_SEPARATE_TAPS = 64
"""Larger windows are reduced as a matrix, not with a call for each element."""


def window_maximum(window: Window, padded: NDArray[Numbers]) -> NDArray[Numbers]:
    """
    Return the maximum of each window of padded images. Of equal zeros, the first zero determines
    the sign; of several NaN, the result is the last.
    """
    # `reduce_rows`, and numpy on x86, choose the last zero, so take the elements in reverse.
    if prod(window.kernel) > MAX_SEPARATE_TAPS:
        taps = window.laid_out(padded)[::-1, ::-1]
        rows = taps.reshape(prod(window.kernel), -1)
        return reduce_rows(Reduce.MAX, rows).reshape(taps.shape[2:])
    *rest, (_, _, last) = window.taps(padded)
    result = last.copy()
    for _, _, tap in reversed(rest):
        np.maximum(result, tap, out=result)
    return result


def window_sum(window: Window, padded: NDArray[Numbers]) -> NDArray[Numbers]:
    """
    Return the sum of each window of padded images. Sums start from 0: each row is added from left
    to right, then the rows from the top.
    """
    if prod(window.kernel) > MAX_SEPARATE_TAPS:
        rows = _sum_of_rows(np.moveaxis(window.laid_out(padded), 1, 0))
        return _sum_of_rows(rows)
    rows = groupby(window.taps(padded), key=itemgetter(0))
    return _sum(_sum(tap for _, _, tap in row) for _, row in rows)


def _sum_of_rows(array: NDArray[Numbers]) -> NDArray[Numbers]:
    total = reduce_rows(Reduce.SUM, array.reshape(len(array), -1))
    return total.reshape(array.shape[1:]) + 0


def _sum(arrays: Iterable[NDArray[Numbers]]) -> NDArray[Numbers]:
    rest = iter(arrays)
    total = next(rest) + 0
    for array in rest:
        np.add(total, array, out=total)
    return total
