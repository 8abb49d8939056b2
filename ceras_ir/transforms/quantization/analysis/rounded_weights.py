"""Weights as multiples of a power of two: to the nearest, or so that errors cancel."""

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp

from ceras_ir.dialects import graph
from ceras_ir.network.integer import HIGH, WEIGHT_LOW
from ceras_ir.network.quantizable import quantized_operations
from ceras_ir.network.storage import weight_exponent

Real = NDArray[np.float64]

DAMPING = 0.001
"""Of the mean of all diagonal elements, added to each so that nothing is singular."""
BLOCK = 128
"""Columns whose corrections are applied at once to the rest."""
SMALL = 64
"""Triangles of this size at most are inverted at once."""


def roundable_layers(main: FuncOp) -> list[graph.LinearOperation]:
    """Layers whose weights are constant and have an exponent."""
    return [
        op
        for op in quantized_operations(main)
        if isinstance(op, graph.LinearOperation)
        and weight_exponent(op) is not None
        and graph.constant_array(op.weights) is not None
        and (op.bias is None or graph.constant_array(op.bias) is not None)
    ]


def nearest(weights: Real, step: Real | float) -> Real:
    """Rounded half to even to multiples of `step` and clamped, as `quantize-graph` does it."""
    return np.clip(np.rint(weights / step), WEIGHT_LOW, HIGH) * step


def compensated(weights: Real, pairs: Real, steps: Real) -> Real:
    """
    `weights` [groups, outputs, K], of `steps` [groups, outputs, 1], rounded column by column, those
    of the largest inputs first; the error of each, as far as inputs are correlated by `pairs`
    [groups, K, K], is taken up by the columns that follow. Zeros, as of pruned weights, stay zeros.
    """
    order = np.argsort(-np.einsum("gii->gi", pairs), axis=1, kind="stable")
    groups = np.arange(len(order))[:, None, None]
    pairs = pairs[groups, order[:, :, None], order[:, None, :]]
    factors = _factors(pairs)
    result = np.empty_like(weights)
    rounded = _in_order(np.take_along_axis(weights, order[:, None], 2), factors, steps)
    np.put_along_axis(result, np.broadcast_to(order[:, None], result.shape), rounded, 2)
    return result


def _factors(pairs: Real) -> Real:
    """
    Upper triangles of which the inverse of `pairs` is the product, transposed first. The diagonals
    of `pairs` become larger.
    """
    diagonal = np.einsum("gii->gi", pairs)
    mean = diagonal.mean(axis=1, keepdims=True)
    added = np.where(mean > 0, DAMPING * mean, 1.0)
    while True:
        diagonal += added
        try:
            # From the last row and column on, the factor is an upper triangle.
            lower = np.linalg.cholesky(pairs[:, ::-1, ::-1])
        except np.linalg.LinAlgError:  # Sums in float32 were off by more than the damping.
            added *= 10
        else:
            return _inverse_of_upper(lower[:, ::-1, ::-1].astype(np.float64, copy=False))


def _inverse_of_upper(triangle: Real) -> Real:
    """By halves, in a third of the products that the inverse of any matrix takes."""
    size = triangle.shape[-1]
    if size <= SMALL:
        return np.linalg.inv(triangle).astype(np.float64, copy=False)
    half = size // 2
    result = np.zeros_like(triangle)
    result[:, :half, :half] = first = _inverse_of_upper(triangle[:, :half, :half])
    result[:, half:, half:] = second = _inverse_of_upper(triangle[:, half:, half:])
    result[:, :half, half:] = -(first @ triangle[:, :half, half:] @ second)
    return result


def _in_order(weights: Real, upper: Real, steps: Real) -> Real:
    """The same from the first column to the last, with the factors of the inverse."""
    length = weights.shape[2]
    rest, result, kept = weights.copy(), np.empty_like(weights), weights != 0
    for start in range(0, length, BLOCK):
        end = min(start + BLOCK, length)
        errors = np.empty((*weights.shape[:2], end - start))
        for i in range(start, end):
            column = rest[:, :, i]
            result[:, :, i] = np.where(kept[:, :, i], nearest(column, steps[:, :, 0]), 0.0)
            error = (column - result[:, :, i]) / upper[:, i, i][:, None]
            errors[:, :, i - start] = error
            rest[:, :, i + 1 : end] -= error[:, :, None] * upper[:, None, i, i + 1 : end]
        rest[:, :, end:] -= np.matmul(errors, upper[:, start:end, end:])
    return result
