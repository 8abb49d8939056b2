"""Passes that choose the scales and zero points of values and weights."""

from dataclasses import dataclass, field
from math import ldexp, prod

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.network.function import (
    data_operands,
    keeps_scale,
    quantized_layers,
    quantized_operations,
    states_of,
)
from ceras_ir.network.integer import WEIGHT_LOW, least_squares_exponent, row_exponents_within
from ceras_ir.network.storage import (
    MAX_RIGHT_SHIFT_BITS,
    NARROW,
    ROW_EXPONENTS,
    WEIGHT_EXPONENT,
    affine,
    exponent,
    factor_exponents,
    interval,
    row_exponents,
    set_exponent,
    set_width,
    set_zero_point,
    signed_bounds,
    weight_exponent,
    width,
    zero_point,
    zero_point_of,
)
from ceras_ir.targets.protocol import ROW_SPREAD
from ceras_ir.transforms.pass_kinds import FloatNetworkPass
from ceras_ir.transforms.quantization.accumulators import Magnitudes, fits
from ceras_ir.transforms.quantization.analysis.function_forms import Form, form_of
from ceras_ir.transforms.quantization.analysis.output_noise import REQUANTIZATIONS, alignment, note
from ceras_ir.transforms.quantization.analysis.scale_classes import (
    ScaleClasses,
    requantizations,
    source_of,
)
from ceras_ir.transforms.quantization.residuals import ResidualSpreadPass

# Give values that hardly fall below zero all eight bits, by a zero point.

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
    least, most = signed_bounds(NARROW)
    reach, kept = ldexp(most, known), ldexp(most - point, known - 1)
    if least <= point <= most and (high <= kept or -low <= LOST * reach):
        set_exponent(value, known - 1)
        set_zero_point(value, point)
    else:
        set_zero_point(value, _moved(ldexp(low, -known), ldexp(high, -known)))


def _moved(low: float, high: float) -> int:
    """The zero point, in steps, that clips less on one side by what is free on the other."""
    least, most = signed_bounds(NARROW)
    below, above = round(low) - least, most - round(high)
    if above < 0 < below:
        return max(above, -below)
    return min(-below, above) if below < 0 < above else 0


# Choose a scale for the weights of every output channel.


@dataclass(frozen=True)
class ChooseRowExponentsPass(FloatNetworkPass, ResidualSpreadPass):
    """
    Give the weights of every output channel a power of two of their own, with the least squared
    error. `graph.weight_exponent` is the greatest, `graph.row_exponents` the differences.

    The requantization then has one shift per channel. Accelerators with one shift per layer leave
    such layers to the CPU. Where a layer adds a residual, its shifts must follow, so that scales
    are at most `residual_spread` octaves apart. Where others are worth a separate addition,
    `split-residual` has made it. Changes no value.
    """

    name = "choose-row-exponents"

    def change(self, main: FuncOp) -> None:
        for linear in quantized_layers(main):
            spread = ROW_SPREAD if linear.residual is None else self.residual_spread
            weights = graph.constant_array(linear.weights)
            if weights is None or spread == 0:
                continue
            exponents = row_exponents_within(weights.astype("float32", copy=False), spread)
            if exponents is None:
                continue
            greatest = max(exponents)
            linear.attributes[WEIGHT_EXPONENT] = IntegerAttr(greatest, i64)
            if any(apart := [exponent - greatest for exponent in exponents]):
                linear.attributes[ROW_EXPONENTS] = graph.integers(apart)


# Choose the scales of constant weights.


@dataclass(frozen=True)
class ChooseWeightExponentsPass(FloatNetworkPass):
    """
    Choose the power of two at which constant weights, as integers in [-127, 127], have the least
    squared error. It is stored as `graph.weight_exponent` on every convolution and matrix product
    that will be quantized. An exponent that is there is kept. Changes no value.
    """

    name = "choose-weight-exponents"

    def change(self, main: FuncOp) -> None:
        for linear in quantized_layers(main):
            weights = graph.constant_array(linear.weights)
            if weights is None or WEIGHT_EXPONENT in linear.attributes:
                continue
            chosen = least_squares_exponent(weights.astype("float32", copy=False), WEIGHT_LOW)
            linear.attributes[WEIGHT_EXPONENT] = IntegerAttr(chosen, i64)


# Bring the scales of a network together, so that only shifts remain (S1, section 3.1.4).


@dataclass(frozen=True)
class AlignScalesPass(FloatNetworkPass):
    """
    Choose the final `graph.exponent` of every value, so that few values are rescaled at run time.
    `graph.requantizations` on the function counts those that remain.

    1. If all readers of a value ask for another scale, its producer makes it at that scale. The
       shift moves into the producer's own.
    2. Exponents are then raised until nothing changes: a result is no finer than its accumulator,
       no shift exceeds 31, and no accumulator can exceed 32 bits.

    A state (`graph.state`) and the result that it was have one scale.

    Changes no value of the float network.
    """

    name = "align-scales"

    def change(self, main: FuncOp) -> None:
        ops = quantized_operations(main)
        # If it was aligned before, what was counted then is the truth.
        known = alignment(main)
        before = requantizations(ops) if known is None else known[0]
        classes = ScaleClasses(ops, states_of(main))
        for value in classes.root:
            set_width(value, classes.storage(value).bits)
            set_zero_point(value, classes.storage(value).zero_point)
        _Alignment(classes).run()
        for value in classes.root:
            set_exponent(value, classes[value])
        note(main, REQUANTIZATIONS, before=before, after=requantizations(ops))


@dataclass
class _Alignment:
    """Raises exponents until every operation can be computed."""

    classes: ScaleClasses
    magnitudes: dict[Operation, Magnitudes] = field(default_factory=dict[Operation, Magnitudes])

    def run(self) -> None:
        # Exponents only grow and are bounded, so this ends.
        while sum(self._adjust(op) for op in self.classes.ops):
            pass

    def _adjust(self, op: Operation) -> bool:
        """Enforce the rules of one operation; whether an exponent changed."""
        match op:
            case graph.LinearOperation():
                changed = self._adjust_weights(op)
                accumulator = sum(factor_exponents(op, self.classes.__getitem__))
                return self.classes.coarsen(op.result, accumulator) or changed
            case graph.BinaryOp():
                lhs, rhs = self.classes[op.lhs], self.classes[op.rhs]
                finest = lhs + rhs if op.function is graph.Binary.MUL else min(lhs, rhs)
                return self.classes.coarsen(op.result, finest)
            case graph.UnaryOp() if form_of(op) is Form.SHIFTS:
                return self.classes.coarsen(op.result, self.classes[op.input])
            case _:
                return False

    def _adjust_weights(self, op: graph.LinearOperation) -> bool:
        """Coarsen constant weights until the accumulator fits 32 bits and the shift is legal."""
        chosen = weight_exponent(op)
        if chosen is None:
            return False
        if op not in self.magnitudes:
            self.magnitudes[op] = Magnitudes.of(op)
        magnitudes, source = self.magnitudes[op], self.classes[op.input]
        target = self.classes[op.result]
        finest = min(row_exponents(op) or (0,))
        exponent = max(chosen, target - source - finest - MAX_RIGHT_SHIFT_BITS)
        while not fits(magnitudes.bound(source, exponent), max(target - source - exponent, 0)):
            exponent += 1
        op.attributes[WEIGHT_EXPONENT] = IntegerAttr(exponent, i64)
        return exponent != chosen
