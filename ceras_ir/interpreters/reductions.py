"""
Reductions of `graph` over the first axis of a matrix [N, M], vectorized over the second.

Results have the bits of the definition, which combines element after element.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

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
