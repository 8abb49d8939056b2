"""Give values that hardly fall below zero all eight bits, by a zero point."""

from dataclasses import dataclass
from math import ldexp, prod

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.network.quantizable import data_operands, keeps_scale, quantized_operations
from ceras_ir.network.storage import (
    NARROW,
    affine,
    exponent,
    interval,
    limits,
    set_exponent,
    set_zero_point,
    width,
    zero_point,
    zero_point_of,
)
from ceras_ir.transforms.float_network_pass import FloatNetworkPass
from ceras_ir.transforms.quantization.analysis.function_forms import Form, form_of
from ceras_ir.transforms.quantization.analysis.scale_classes import source_of

LOST = 1 / 8
"""Share of what int8 holds at its exponent that a zero point may move out of reach."""


@dataclass(frozen=True)
class ChooseZeroPointsPass(FloatNetworkPass):
    """
    Choose a zero point for activations whose range is not symmetric.

    Symmetric int8 spends half of its numbers below zero, where ReLU leaves nothing and SiLU little.
    `graph.affine` says which exponent and zero point calibration found best. Without it the range
    decides: if the observed range of a value fits 255 steps of half the length, it gets these steps
    and a `graph.zero_point`. The least stored number then stands for the least value seen. The same
    happens if less than an eighth of the range above would be lost. Other values keep their steps;
    one that would be clipped on one side gets what is free on the other. Scales stay powers of two.

    These stay symmetric: values in 16 bits, second factors of products of activations, and values
    that meet shift-only functions or averages whose ties a reciprocal would lose, and what only
    moves the results of these. Accelerators put the zero points of convolutions and products into
    their biases. VTA rounds half up, but sums and averages with zero points round to even; see
    `half-up`. Its weights have no zero points, computed ones neither; see `symmetric-factors`.

    Needs `graph.range` and `graph.exponent`. Changes no value.
    """

    name = "choose-zero-points"

    half_up: bool = False
    """
    Keep the operands and results of sums of few and of averages symmetric, for a target that rounds
    half up only.
    """
    symmetric_factors: bool = False
    """
    Keep symmetric also what is only moved before it becomes a second factor, for a target whose
    weights have no zero points.
    """

    def change(self, main: FuncOp) -> None:
        refused: dict[SSAValue, None] = {}
        symmetric: set[SSAValue] = set()
        values: dict[SSAValue, None] = {}
        for inner in quantized_operations(main):
            ends = [*data_operands(inner), *inner.results]
            values |= dict.fromkeys(ends)
            if _stays_symmetric(inner):
                refused |= dict.fromkeys(ends)
                symmetric.update(inner.results)
            elif keeps_scale(inner) and not symmetric.isdisjoint(data_operands(inner)):
                refused |= dict.fromkeys(inner.results)
                symmetric.update(inner.results)
            elif self.half_up and _rounds_to_even(inner):
                refused |= dict.fromkeys(ends)
            elif isinstance(inner, graph.LinearOperation) and inner.weights in values:
                factor = source_of(inner.weights) if self.symmetric_factors else inner.weights
                refused[factor] = None
        for value in values:
            if value not in refused:
                _choose(value)


def _stays_symmetric(op: Operation) -> bool:
    match op:
        case graph.UnaryOp():
            return form_of(op) is Form.SHIFTS
        case graph.Pool2dOp():
            return _loses_ties(op)
        case _:
            return False


def _rounds_to_even(op: Operation) -> bool:
    """Whether a requantization of the operation rounds to even where a zero point takes part."""
    match op:
        case graph.BinaryOp():
            return op.function in (graph.Binary.ADD, graph.Binary.SUB)
        case graph.Pool2dOp():
            return op.function is graph.Pool.AVERAGE
        case _:
            return False


def _loses_ties(op: graph.Pool2dOp) -> bool:
    """Whether windows of an average have an even number of elements, but no power of two."""
    size = prod(op.kernel.get_values())
    return op.function is graph.Pool.AVERAGE and (
        any(op.padding.get_values()) or (size % 2 == 0 and size.bit_count() > 1)
    )


def _choose(value: SSAValue) -> None:
    seen, known = interval(value), exponent(value)
    if seen is None or known is None or width(value) != NARROW or zero_point(value):
        return
    if (chosen := affine(value)) is not None:
        set_exponent(value, chosen[0])
        set_zero_point(value, chosen[1])
        return
    # Zero is always stored exactly: padding is zero.
    low, high = min(seen[0], 0.0), max(seen[1], 0.0)
    point = zero_point_of(low, known - 1)
    least, most = limits(NARROW)
    reach, kept = ldexp(most, known), ldexp(most - point, known - 1)
    if least <= point <= most and (high <= kept or -low <= LOST * reach):
        set_exponent(value, known - 1)
        set_zero_point(value, point)
    else:
        set_zero_point(value, _moved(ldexp(low, -known), ldexp(high, -known)))


def _moved(low: float, high: float) -> int:
    """The zero point, in steps, that clips less on one side by what is free on the other."""
    least, most = limits(NARROW)
    below, above = round(low) - least, most - round(high)
    if above < 0 < below:
        return max(above, -below)
    return min(-below, above) if below < 0 < above else 0
