"""
How large accumulators of 32 bits can get: bounds from float weights, before anything is quantized;
sums of a Q/DQ network that are changed to fit; and a proof on the integers that nothing overflows.

The bounds are used to choose exponents at which nothing can overflow. The proof of the pass
`prove-accumulators` comes afterwards and shares no code with the bounds.
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
from ceras_ir.network.integer import zero_points
from ceras_ir.network.storage import NARROW, factor_exponents, max_stored_distance, row_exponents
from ceras_ir.support.diagnostics import Finding, InputError, node_name
from ceras_ir.transforms.quantization.analysis.rescaling import rescaling_by
from ceras_ir.transforms.rebuilding import rebuild_linear

# How large an accumulator can get, from the float weights, before anything is quantized.
#
# Used to choose exponents at which nothing can overflow; whether nothing does is proven
# afterwards, on the integers, by `prove-accumulators`, which shares no code with this.

LARGEST_SUM = (1 << 31) - 1
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
            1 << NARROW - 1 if weights is None else max_stored_distance(op.input),
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
        residual = max_stored_distance(op.residual) << exponent_of(op.residual) - finest
    bound = Magnitudes.of(op).bound(source, weights)
    return fits(bound, max(exponent_of(op.result) - finest, 0), residual)


def fits(bound: float, shift: int, residual: int = 0) -> bool:
    """
    Whether 32 bits hold everything: the sum of products and bias, a residual of magnitude up
    to `residual` after it was moved left, and the half that is added before the right shift.
    """
    half = 1 << shift - 1 if shift > 0 else 0
    return bound + residual + half <= LARGEST_SUM


# Sums of the operations that `fold-qdq` makes, brought to fit 32 bits for every input.
#
# Quantizers store a bias in steps of scale(input) * scale(weights). Where all weights of a channel
# are tiny such a bias fills 32 bits or was cut off there, and no product more can be added. The
# same channel in steps 2, 4, ... times as coarse has room again, and loses nothing that the result
# shows.

MOST = 2.0**31 - 1
INVISIBLE = 0.25
"""How far coarser weights may move a result, in steps of the result."""


def fitted(made: list[GraphOperation]) -> list[GraphOperation] | None:
    """
    What computes the same with sums that fit, or None where nothing does. Of `made`, what is not
    in the result is erased.
    """
    new = _fitted(made)
    for op in reversed(made):
        if new is None or op not in new:
            op.erase()
    return new


def _fitted(made: list[GraphOperation]) -> list[GraphOperation] | None:
    match made[-1]:
        case graph.LinearOperation() as op:
            return _linear(made, op)
        case graph.BinaryOp() as op:
            a, b = _reach(op.lhs) * op.factors[0], _reach(op.rhs) * op.factors[1]
            bound = a * b if op.function is graph.Binary.MUL else a + b
            return made if bound + _half(op) <= MOST else None
        case graph.Pool2dOp() as op:
            bound = prod(op.kernel.get_values()) * _reach(op.input)
            return made if bound + _half(op) <= MOST else None
        case _:
            return made


def _reach(value: SSAValue) -> int:
    return graph.stored_element(value).reach


def _half(op: graph.LinearOperation | graph.BinaryOp | graph.Pool2dOp) -> float:
    """What rounding adds before the shift, unless a multiplier takes the sum to 64 bits first."""
    is_shift = op.requant is not None and op.requant.multipliers == (1,)
    return 2.0**op.requant.shift.data / 2 if op.requant is not None and is_shift else 0.0


def _linear(made: list[GraphOperation], op: graph.LinearOperation) -> list[GraphOperation] | None:
    assert op.requant is not None
    weights, bias = graph.constant_array(op.weights), _bias(op)
    if weights is None or bias is None:
        return made
    kind, rank = graph.stored_element(op.weights), weights.ndim
    points = zero_points(kind, rank)
    centred = weights.astype(np.float64) - points
    products = np.abs(centred).reshape(len(centred), -1).sum(axis=1) * _reach(op.input)
    bound = products + np.abs(bias) + _half(op)
    if op.residual is not None:
        bound = bound + (_reach(op.residual) << np.array(op.residual_shifts))
    if bound.max() <= MOST:
        return made
    if op.residual is not None:
        return None
    taps = centred[0].size
    # Rounding moves every weight, and the bias, by up to half a step.
    room = MOST - taps * _reach(op.input)
    if room <= 0:
        return None
    powers = np.exp2(np.ceil(np.log2(np.maximum(bound / room, 1.0))))
    scales = powers * [scale.data for scale in kind.scales]
    factors = scales * graph.scale_of(op.input) / graph.scale_of(op.result)
    moved = np.where(powers > 1.0, (taps * _reach(op.input) + 1.0) / 2.0 * factors, 0.0)
    if moved.max() > INVISIBLE:
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
    """The stored bias, zeros where there is none; None where it is computed."""
    if op.bias is None:
        return np.zeros(graph.shape_of(op.weights)[0])
    array = graph.constant_array(op.bias)
    return None if array is None else array.astype(np.float64)


# Prove that no 32-bit accumulator of a quantized network can overflow, whatever the input.

LARGEST = 2**31 - 1


@dataclass(frozen=True)
class ProveAccumulatorsPass(ModulePass):
    """
    Refuse a quantized network in which some accumulator could leave 32 bits. Changes nothing.

    The bound is computed per output channel on the stored integers: |bias| + sum of |weight| *
    largest |input|, plus the largest |residual| shifted left, plus the half that a rounding shift
    adds. It holds in any order of addition, so every target may choose its own.
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
    """The largest magnitude of the accumulator of every quantized operation that has one."""
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
                sum_or_product = lhs * rhs if op.function is graph.Binary.MUL else lhs + rhs
                yield op, sum_or_product + _half_unit(requant)
            case graph.Pool2dOp(requant=RequantAttr()):
                rows, columns = op.kernel.get_values()
                yield op, rows * columns * _largest(op.input)
            case _:
                pass


def _sums(op: graph.LinearOperation) -> int:
    """The largest |bias| + sum of |weight| * |input| of any output channel."""
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
    """The largest magnitude of a stored number less its zero point."""
    element = graph.stored_element(value)
    return element.reach


def _half_unit(requant: RequantAttr) -> int:
    """What a shift adds for rounding in 32 bits; a multiplier works on 64."""
    if requant.multiplier.data != 1 or requant.shift.data == 0 or requant.mode is Rounding.FLOOR:
        return 0
    return 1 << requant.shift.data - 1
