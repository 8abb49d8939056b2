"""
How large an accumulator can get, from the float weights, before anything is quantized.

Used to choose exponents at which nothing can overflow; whether nothing does is proven
afterwards, on the integers, by `prove-accumulators`, which shares no code with this.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ldexp, prod

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.network.storage import NARROW, factor_exponents, largest, row_exponents
from ceras_ir.support.diagnostics import Finding, InputError, node_name

LARGEST = (1 << 31) - 1
"""What 32 bits hold."""
LARGEST_WEIGHT = 127
"""Magnitude of stored constant weights."""


@dataclass(frozen=True)
class Magnitudes:
    """What decides how large the accumulator of each output channel gets."""

    taps: int
    """Products per accumulator."""
    weights: NDArray[np.float64] | None
    """
    Sum of the magnitudes of the weights, as if all had the greatest step; None where they are
    computed.
    """
    bias: NDArray[np.float64]
    """Magnitude of the bias."""
    input: int
    """Magnitude of a stored input."""

    @classmethod
    def of(cls, op: graph.LinearOperation) -> "Magnitudes":
        shape = graph.shape_of(op.weights)
        weights = graph.constant_array(op.weights)
        bias = None if op.bias is None else graph.constant_array(op.bias)
        for array in (weights, bias):
            # No exponent would ever fit.
            if array is not None and not np.isfinite(array).all():
                message = "weights and biases must be finite"
                raise InputError([Finding(node_name(op), op.name, message)])
        steps = np.exp2(np.array(row_exponents(op) or (0,), np.float64))
        return cls(
            prod(shape[1:]),
            None
            if weights is None
            else np.abs(weights.reshape(shape[0], -1)).sum(axis=1, dtype=np.float64) / steps,
            np.zeros(shape[0]) if bias is None else np.abs(bias.astype(np.float64)) / steps,
            1 << NARROW - 1 if weights is None else largest(op.input),
        )

    def bound(self, input_exponent: int, weight_exponent: int) -> float:
        """
        An upper bound of |bias + sum of products| at these exponents. A stored weight exceeds
        the real one by at most a half, a stored bias too.
        """
        largest = LARGEST_WEIGHT * self.taps
        if self.weights is None:
            stored = np.full_like(self.bias, (LARGEST_WEIGHT + 1) * self.taps)
        else:
            stored = np.minimum(self.weights * ldexp(1, -weight_exponent) + self.taps / 2, largest)
        bias = self.bias * ldexp(1, -input_exponent - weight_exponent) + 0.5
        return float((stored * self.input + bias).max())


def holds(op: graph.LinearOperation, exponent_of: Callable[[SSAValue], int]) -> bool:
    """
    Whether 32 bits hold the sums of `op` with its residual and the half of its rounding, at these
    exponents of values and its own of weights. The residual is aligned with every channel.
    """
    source, weights = factor_exponents(op, exponent_of)
    finest = source + weights + min(row_exponents(op) or (0,))
    residual = 0
    if op.residual is not None:
        residual = largest(op.residual) << exponent_of(op.residual) - finest
    bound = Magnitudes.of(op).bound(source, weights)
    return fits(bound, max(exponent_of(op.result) - finest, 0), residual)


def fits(bound: float, shift: int, residual: int = 0) -> bool:
    """
    Whether 32 bits hold everything: the sum of products and bias, a residual of magnitude up
    to `residual` after it was moved left, and the half that is added before the right shift.
    """
    half = 1 << shift - 1 if shift > 0 else 0
    return bound + residual + half <= LARGEST
