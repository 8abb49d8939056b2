"""
Elementwise float32 functions as fixed sequences of float32 operations.

Every target computes the same operations in the same order, without contraction into fused
multiply-add, so that float parts of a quantized network agree bit for bit too. Accuracy of
`exp`: 1.4 units in the last place on its whole range (measured against double precision).
"""

import numpy as np
from numpy.typing import NDArray

from ceras_ir.dialects.graph.attributes import Function, FunctionAttr

Floats = NDArray[np.float32]

EXP_LOW, EXP_HIGH = np.float32(-87.33654), np.float32(88.37626)
"""Below, `exp` is 0; above, infinity."""
LOG2_E = np.float32(1.44269504)
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
"""ln 2 in two parts, the first exact when multiplied by an exponent."""
EXP_COEFFICIENTS = tuple(
    np.float32(c)
    for c in (0.000198909908, 0.001393365, 0.00833331093, 0.0416664649, 0.166666667, 0.5)
)
"""Interpolation of `(exp(r) - 1 - r) / r**2` on [-ln 2 / 2, ln 2 / 2], highest degree first."""


def exp(x: Floats) -> Floats:
    """
    With `n = floor(x * LOG2_E + 0.5)`, `r = (x - n * LN2_HIGH) - n * LN2_LOW` and `p` the
    polynomial in `r` by Horner's rule: `((p * (r * r) + r) + 1) * 2**n`. NaN gives NaN.
    """
    inside = (x >= EXP_LOW) & (x <= EXP_HIGH)
    safe = np.where(inside, x, np.float32(0))
    n = np.floor(safe * LOG2_E + np.float32(0.5))
    r = (safe - n * LN2_HIGH) - n * LN2_LOW
    p = np.full_like(r, EXP_COEFFICIENTS[0])
    for c in EXP_COEFFICIENTS[1:]:
        p = p * r + c
    scale = ((n.astype(np.int32) + 127) << 23).view(np.float32)
    y = ((p * (r * r) + r) + np.float32(1)) * scale
    outside = np.where(x > EXP_HIGH, np.float32(np.inf), np.where(x < EXP_LOW, np.float32(0), x))
    return np.where(inside, y, outside)


def sigmoid(x: Floats) -> Floats:
    """`1 / (1 + exp(-x))`"""
    return np.float32(1) / (np.float32(1) + exp(-x))


def apply_function(function: FunctionAttr, x: Floats) -> Floats:
    """The elementwise function of a `graph.unary` or of a fused activation."""
    p = [np.float32(v) for v in function.values]
    zero, one, six = np.float32(0), np.float32(1), np.float32(6)
    match function.kind:
        case Function.RELU:
            return np.maximum(x, zero)
        case Function.CLIP:
            return np.minimum(np.maximum(x, p[0]), p[1])
        case Function.LEAKY_RELU:
            return np.where(x >= zero, x, p[0] * x)
        case Function.SIGMOID:
            return sigmoid(x)
        case Function.TANH:
            return np.float32(2) * sigmoid(np.float32(2) * x) - one
        case Function.SWISH:
            return x * sigmoid(x)
        case Function.HARD_SIGMOID:
            return np.minimum(np.maximum(p[0] * x + p[1], zero), one)
        case Function.HARD_SWISH:
            return x * np.minimum(np.maximum(x + np.float32(3), zero), six) / six
        case Function.EXP:
            return exp(x)


def softmax(x: Floats, axis: int) -> Floats:
    """As `graph.softmax` documents: the sum is taken one element after the other."""
    e = exp(x - np.max(x, axis=axis, keepdims=True))
    # cumsum adds in index order; np.sum would add in pairs.
    total = np.take(np.cumsum(e, axis=axis, dtype=np.float32), [-1], axis=axis)
    return e / total
