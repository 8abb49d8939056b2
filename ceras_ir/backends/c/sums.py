"""What is known at compile time of integer sums of products: bounds, and the folded bias."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.operands import constant_weights, quantized
from ceras_ir.backends.c.requant import Refused, can_fold_half, half_of
from ceras_ir.backends.c.types import centred_bound, zero_point_of
from ceras_ir.dialects.graph import (
    ConstantOp,
    LinearOperation,
    MatmulOp,
    constant_array,
    element_of,
    shape_of,
)
from ceras_ir.dialects.quant import RequantAttr, UniformType

LIMIT = 1 << 31


@dataclass(frozen=True)
class Sums:
    """What is known at compile time of the integer sums of a layer."""

    weights: ConstantOp | None
    """None where they are computed."""
    x: UniformType
    bias: NDArray[np.int64]
    """
    With the rounding folded in where that is exact, and the zero point of the input where the
    weights are known.
    """
    per_output: NDArray[np.int64]
    """Sum of the weights of each output; of computed weights the most that it can be."""
    bounds: NDArray[np.int64]
    """For each output, the magnitude that no sum of products, bias and residual exceeds."""
    raw_bound: int
    """
    The same while rows of 8-bit elements are moved by 128; of 16 bits, the greatest of a sum and of
    a bias alone, between which vectors may wrap.
    """
    weight_type: str
    half_folded: bool

    @property
    def bound(self) -> int:
        """Magnitude that no sum of any output exceeds."""
        return int(self.bounds.max())

    def products_bound(self, requant: RequantAttr) -> int:
        """Magnitude that no sum times its multiplier exceeds."""
        # A sum has 31 bits and a multiplier too.
        return int((self.bounds * np.array(requant.multipliers, np.int64)).max())

    def has_room(self, extra: int) -> bool:
        """Whether 32 bits hold sums and biases to which something constant is added."""
        return max(self.raw_bound, self.bound) + abs(extra) < LIMIT

    def centred(self) -> NDArray[np.integer]:
        """The weights less their zero points, [outputs, k]."""
        assert self.weights is not None
        return centred_weights(self.weights)


def centred_weights(constant: ConstantOp) -> NDArray[np.integer]:
    """Stored weights less their zero points, [outputs, k], in the stored type if they fit."""
    element = element_of(constant.result)
    assert isinstance(element, UniformType)
    raw = constant.array()
    stored: NDArray[np.integer] = raw.view(
        f"i{raw.itemsize}" if element.is_signed else f"u{raw.itemsize}"
    ).reshape(raw.shape[0], -1)
    points = np.array([z.data for z in element.zero_points], np.int64)
    return stored.astype(np.int64) - points.reshape(-1, 1) if points.any() else stored


def analyse(op: LinearOperation) -> Sums:
    """Bounds and folded bias; refuses sums that 32 bits cannot hold."""
    constant = constant_weights(op)
    weights = centred_weights(constant)
    magnitude = np.abs(weights, dtype=np.int32 if weights.itemsize < 4 else np.int64)
    largest = int(magnitude.max())
    weight_type = (
        "int8_t"
        if weights.dtype == np.int8 or (largest < 128)
        else "int16_t"
        if largest < 1 << 15
        else "int32_t"
    )
    totals = magnitude.sum(axis=1, dtype=np.int64)
    return _sums(op, constant, totals, weights.sum(axis=1, dtype=np.int64), weight_type)


def analyse_computed(op: MatmulOp) -> Sums:
    """The same of weights that are computed: those of all that their type has are the largest."""
    (n, k), element = shape_of(op.weights), quantized(op.weights, "weights")
    bound = centred_bound(element)
    is_byte = element.storage.width.data == 8 and element.is_signed and not zero_point_of(element)
    weight_type = "int8_t" if is_byte else "int16_t" if bound < 1 << 15 else "int32_t"
    totals = np.full(n, k * bound, np.int64)
    return _sums(op, None, totals, totals, weight_type)


def _sums(
    op: LinearOperation,
    weights: ConstantOp | None,
    totals: NDArray[np.int64],
    per_output: NDArray[np.int64],
    weight_type: str,
) -> Sums:
    """`totals` are the sums of the magnitudes of the weights of each output."""
    x, total = quantized(op.input, "input"), int(totals.max())
    point = zero_point_of(x)
    bias = np.zeros(len(totals), np.int64)
    if op.bias is not None:
        stored = constant_array(op.bias)
        if stored is None:
            raise Refused("bias must be a constant; fold or freeze what computes it")
        bias = bias + stored.astype(np.int64)
    bounds = totals * centred_bound(x) + np.abs(bias)
    if op.residual is not None:
        residual = centred_bound(quantized(op.residual, "residual"))
        bounds = bounds + np.left_shift(residual, np.array(op.residual_shifts, np.int64))
    assert op.requant is not None
    half = half_of(op.requant)
    moved = abs(point) * totals
    if weights is not None:
        bias = bias - point * per_output
        moved = np.zeros_like(totals)
    products = total * max(abs(x.low), abs(x.high), centred_bound(x))
    folded = can_fold_half(op.requant) and int(bounds.max()) + half < LIMIT
    if folded:
        bias, bounds = bias + half, bounds + half
    if products >= LIMIT:
        way = "use 8-bit weights or inputs" if weights is not None else "keep one of both in 8 bits"
        raise Refused(f"a sum of products can reach {products}, beyond 32 bits; {way}")
    largest_bias = int((np.abs(bias) + moved).max())
    raw_bound = 256 * total + largest_bias + 128 * int(np.abs(per_output).max())
    if x.storage.width.data > 8:
        raw_bound = max(int(bounds.max()), largest_bias)
    return Sums(weights, x, bias, per_output, bounds, raw_bound, weight_type, folded)
