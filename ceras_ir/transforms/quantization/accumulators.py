"""
Bound the magnitude of 32-bit accumulators.

1. Bounds from float weights guide the choice of exponents without overflow.
2. Sums of a Q/DQ network are changed to fit 32 bits.
3. The pass `prove-accumulators` proves on the integers that no accumulator overflows. It shares no
   code with the bounds.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ldexp, prod

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.network.integer import weight_bounds, zero_points
from ceras_ir.network.storage import (
    NARROW,
    factor_exponents,
    max_stored_distance,
    row_exponents,
    weight_bits,
)
from ceras_ir.support.diagnostics import Finding, InputError, node_name
from ceras_ir.transforms.quantization.analysis.rescaling import rescaling_by
from ceras_ir.transforms.rebuilding import rebuild_linear

MAX_SUM = (1 << 31) - 1


@dataclass(frozen=True)
class Magnitudes:
    """
    Sums of magnitudes of weights, bias and input of a layer, from which `bound` computes the
    largest possible accumulator of each output channel for any exponents.
    """

    taps: int
    weights: NDArray[np.float64] | None
    """The sum of magnitudes of the weights over their relative scales; None if computed."""
    bias: NDArray[np.float64]
    input: int
    """The magnitude of a stored input."""
    max_weight: int
    """The maximum magnitude of a stored weight."""

    @classmethod
    def of(cls, op: graph.LinearOperation) -> "Magnitudes":
        shape = graph.shape_of(op.weights)
        weights = graph.constant_array(op.weights)
        bias = None if op.bias is None else graph.constant_array(op.bias)
        for array in (weights, bias):
            # No exponent would fit.
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
            1 << NARROW - 1 if weights is None else max_stored_distance(op.input),
            1 << NARROW - 1 if weights is None else -weight_bounds(weight_bits(op))[0],
        )

    def bound(self, input_exponent: int, weight_exponent: int) -> float:
        """
        Return an upper bound of `|bias + sum of products|`, in units of the accumulator, if input
        and weights have the scales `2**input_exponent` and `2**weight_exponent`. Rounding increases
        a stored weight or bias by at most a half.
        """
        stored = np.full_like(self.bias, self.max_weight * self.taps)
        if self.weights is not None:
            rounded = self.weights * ldexp(1, -weight_exponent) + self.taps / 2
            stored = np.minimum(rounded, stored)
        bias = self.bias * ldexp(1, -input_exponent - weight_exponent) + 0.5
        return float((stored * self.input + bias).max())


def holds(op: graph.LinearOperation, exponent_of: Callable[[SSAValue], int]) -> bool:
    """
    Return whether the accumulator of `op` fits 32 bits for all inputs, including the residual and
    the constant that is added for rounding. `exponent_of` returns the exponent of the scale of a
    value; the recorded exponents of the weights are used.
    """
    source, weights = factor_exponents(op, exponent_of)
    finest = source + weights + min(row_exponents(op) or (0,))
    residual = 0
    if op.residual is not None:
        residual = max_stored_distance(op.residual) << exponent_of(op.residual) - finest
    bound = Magnitudes.of(op).bound(source, weights)
    return fits(bound, max(exponent_of(op.result) - finest, 0), residual)


def fits(bound: float, shift: int, residual: int = 0) -> bool:
    """
    Return whether an accumulator fits 32 bits: `bound` is the largest sum of products and bias,
    `residual` the largest residual after the left shift, and half a unit of the right shift `shift`
    is added for rounding.
    """
    half = 1 << shift - 1 if shift > 0 else 0
    return bound + residual + half <= MAX_SUM


MAX_ACCUMULATOR = 2.0**31 - 1
MAX_RESULT_ERROR = 0.25
"""The maximum error of a result due to coarser weights, in steps of the result."""


def fitted(operations: list[GraphOperation]) -> list[GraphOperation] | None:
    """
    Return operations that compute (almost) the same result as `operations`, of which the last
    computes the result, with sums that fit 32 bits. Return `None` if this is impossible. Operations
    that are not returned are erased.

    Quantizers store a bias in units of scale(input) * scale(weights). If all weights of a channel
    are tiny, such a bias fills 32 bits or is clipped, and products overflow. With weights at a
    scale that is larger by a power of two, the sums of the channel fit, and a result changes by at
    most a quarter of a unit.
    """
    new = _fitted(operations)
    for op in reversed(operations):
        if new is None or op not in new:
            op.erase()
    return new


def _fitted(operations: list[GraphOperation]) -> list[GraphOperation] | None:
    match operations[-1]:
        case graph.LinearOperation() as op:
            return _linear(operations, op)
        case graph.BinaryOp() as op:
            a, b = _reach(op.lhs) * op.factors[0], _reach(op.rhs) * op.factors[1]
            bound = a * b if op.function is graph.Binary.MUL else a + b
            return operations if bound + _half(op) <= MAX_ACCUMULATOR else None
        case graph.Pool2dOp() as op:
            bound = prod(op.kernel.get_values()) * _reach(op.input)
            return operations if bound + _half(op) <= MAX_ACCUMULATOR else None
        case _:
            return operations


def _reach(value: SSAValue) -> int:
    return graph.stored_element(value).reach


def _half(op: graph.LinearOperation | graph.BinaryOp | graph.Pool2dOp) -> float:
    """
    Return the constant that is added to the 32-bit sum for rounding before a shift. It is 0 with a
    multiplier, because the sum is then extended to 64 bits first.
    """
    is_shift = op.requant is not None and op.requant.multipliers == (1,)
    return 2.0**op.requant.shift.data / 2 if op.requant is not None and is_shift else 0.0


def _linear(
    operations: list[GraphOperation], op: graph.LinearOperation
) -> list[GraphOperation] | None:
    assert op.requant is not None
    weights, bias = graph.constant_array(op.weights), _bias(op)
    if weights is None or bias is None:
        return operations
    kind, rank = graph.stored_element(op.weights), weights.ndim
    points = zero_points(kind, rank)
    centred = weights.astype(np.float64) - points
    products = np.abs(centred).reshape(len(centred), -1).sum(axis=1) * _reach(op.input)
    bound = products + np.abs(bias) + _half(op)
    if op.residual is not None:
        bound = bound + (_reach(op.residual) << np.array(op.residual_shifts))
    if bound.max() <= MAX_ACCUMULATOR:
        return operations
    if op.residual is not None:
        return None
    taps = centred[0].size
    # Rounding changes each weight, and the bias, by at most half a step.
    limit = MAX_ACCUMULATOR - taps * _reach(op.input)
    if limit <= 0:
        return None
    powers = np.exp2(np.ceil(np.log2(np.maximum(bound / limit, 1.0))))
    scales = powers * [scale.data for scale in kind.scales]
    factors = scales * graph.scale_of(op.input) / graph.scale_of(op.result)
    errors = np.where(powers > 1.0, (taps * _reach(op.input) + 1.0) / 2.0 * factors, 0.0)
    if errors.max() > MAX_RESULT_ERROR:
        return None
    coarser = np.rint(centred / powers.reshape(-1, *(1,) * (rank - 1))) + points
    spread = np.broadcast_to(points.reshape(-1), scales.shape)
    new_weights = graph.ConstantOp.from_array(
        coarser.astype(weights.dtype),
        UniformType(scales.tolist(), spread.tolist(), storage=kind.storage, axis=0),
        location=op.weights.owner.location if isinstance(op.weights.owner, Operation) else None,
    )
    new_bias = graph.ConstantOp.from_array(
        np.rint(bias / powers).astype(np.int32),
        UniformType((scales * graph.scale_of(op.input)).tolist(), storage=i32, axis=0),
        location=op.location,
    )
    requant = op.requant
    rescaled = rescaling_by(
        factors.tolist(),
        requant.zero_point.data,
        (requant.low.data, requant.high.data),
        requant.mode,
    )
    new = rebuild_linear(
        op, {"requant": rescaled}, weights=new_weights.result, bias=new_bias.result
    )
    return [new_weights, new_bias, new]


def _bias(op: graph.LinearOperation) -> NDArray[np.float64] | None:
    if op.bias is None:
        return np.zeros(graph.shape_of(op.weights)[0])
    array = graph.constant_array(op.bias)
    return None if array is None else array.astype(np.float64)


LARGEST = 2**31 - 1


@dataclass(frozen=True)
class ProveAccumulatorsPass(ModulePass):
    """
    Refuse a quantized network in which an accumulator could exceed 32 bits. Changes nothing.

    The bound of each output channel is computed from the stored integers: |bias| + sum of |weight|
    * maximum |input|, plus the maximum |residual| shifted left, plus the rounding constant of the
    shift. It holds for each order of addition, so each target may choose an order. The clamp range
    of a requantization bounds the result.

    Before:

        !q = !quant.uniform<i8:f32, 1.0>
        !b = !quant.uniform<i32:f32, 1.0>
        !y = !quant.uniform<i8:f32, 1024.0>
        #r = #graph.requant<shift = 10, rounding = half_up, low = -128, high = 127>
        %w = graph.constant dense<1> : tensor<1x1xi8> : tensor<1x1x!q>
        %b = graph.constant dense<2147483647> : tensor<1xi32> : tensor<1x!b>
        %y = graph.matmul %x, %w bias %b : tensor<1x!b> {requant = #r}
            : (tensor<1x1x!q>, tensor<1x1x!q>) -> tensor<1x1x!y> loc("y")

    Message:

        node 'y' (graph.matmul): error: the accumulator can reach 2147484287, which exceeds
            2147483647 (2^31 - 1); choose a coarser scale for the weights or the result
    """

    name = "prove-accumulators"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        findings = [
            Finding(
                node_name(inner),
                inner.name,
                f"the accumulator can reach {bound}, which exceeds {LARGEST} "
                "(2^31 - 1); choose a coarser scale for the weights or the result",
            )
            for inner, bound in accumulator_bounds(op)
            if bound > LARGEST
        ]
        if findings:
            raise InputError(findings)


def accumulator_bounds(module: ModuleOp) -> Iterator[tuple[Operation, int]]:
    """
    Yield each quantized operation with an upper bound of the magnitude of the accumulator over all
    inputs.
    """
    for op in module.walk():
        match op:
            case graph.LinearOperation(requant=RequantAttr() as requant):
                residual = 0 if op.residual is None else _largest(op.residual)
                yield (
                    op,
                    _sums(op) + (residual << max(op.residual_shifts)) + _half_unit(requant),
                )
            case graph.BinaryOp(requant=RequantAttr() as requant):
                lhs, rhs = _largest(op.lhs) * op.factors[0], _largest(op.rhs) * op.factors[1]
                if op.addends is not None:
                    yield op, max(lhs, rhs)
                    lhs, rhs = (
                        (side * addend.multiplier.data >> addend.shift.data) + 1
                        for side, addend in zip((lhs, rhs), op.addends, strict=True)
                    )
                sum_or_product = lhs * rhs if op.function is graph.Binary.MUL else lhs + rhs
                yield op, sum_or_product + _half_unit(requant)
            case graph.Pool2dOp(requant=RequantAttr()):
                rows, columns = op.kernel.get_values()
                yield op, rows * columns * _largest(op.input)
            case _:
                pass


def _sums(op: graph.LinearOperation) -> int:
    constant = graph.constant_array(op.weights)
    shape = graph.shape_of(op.weights)
    if constant is None:
        weights = np.full(shape, _largest(op.weights), np.int64)
    else:
        element = graph.stored_element(op.weights)
        weights = np.abs(constant.astype(np.int64) - zero_points(element, len(shape)))
    products = weights.reshape(shape[0], -1).sum(axis=1) * _largest(op.input)
    if op.bias is None:
        return int(products.max())
    bias = graph.constant_array(op.bias)
    if bias is None:
        return 1 << 31
    return int((products + np.abs(bias.astype(np.int64))).max())


def _largest(value: SSAValue) -> int:
    """
    Return the largest possible distance of a stored integer of `value` from the zero point. If the
    value is the result of a requantization, the clamp range limits it.
    """
    element, owner = graph.stored_element(value), value.owner
    properties = owner.properties if isinstance(owner, Operation) else {}
    requant = properties.get("requant")
    if not isinstance(requant, RequantAttr) or "table" in properties:
        return element.reach
    point = element.zero_point
    return min(element.reach, max(requant.high.data - point, point - requant.low.data, 0))


def _half_unit(requant: RequantAttr) -> int:
    """
    Return the constant that a requantization adds for rounding before a shift in 32 bits. It is 0
    with a multiplier, which uses 64 bits, and if the result is rounded down.
    """
    if requant.multiplier.data != 1 or requant.shift.data == 0 or requant.mode is Rounding.FLOOR:
        return 0
    return 1 << requant.shift.data - 1
