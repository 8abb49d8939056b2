"""Choose the scales and zero points of values and weights."""

from dataclasses import dataclass, field
from math import ldexp, prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import BYTE_BITS
from ceras_ir.network.function import (
    data_operands,
    is_aligned_sum,
    keeps_scale,
    quantized_layers,
    quantized_operations,
    states_of,
)
from ceras_ir.network.integer import (
    least_squares_exponent,
    row_exponents_within,
    scales_of_parts,
    weight_bounds,
)
from ceras_ir.network.storage import (
    MAX_RIGHT_SHIFT_BITS,
    NARROW,
    WEIGHT_EXPONENT,
    affine,
    exponent,
    factor_exponents,
    given_type,
    interval,
    row_exponents,
    set_exponent,
    set_row_scales,
    set_width,
    set_zero_point,
    signed_bounds,
    weight_bits,
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

MAX_LOST_SHARE = 1 / 8
"""The maximum share of the int8 range that a zero point may exclude."""


@dataclass(frozen=True)
class ChooseZeroPointsPass(FloatNetworkPass):
    """
    Choose a zero point for activations with an asymmetric range.

    Symmetric int8 spends half of the integers on negative values, which ReLU never and SiLU rarely
    produces. Scales remain powers of two. The zero point is determined in this order:

    1. `graph.affine` has the best exponent and zero point of the calibration.
    2. If the observed range fits 255 steps of half the length, the value gets these steps and a
       `graph.zero_point`. The smallest integer then represents the smallest observed value. The
       same happens if less than an eighth of the positive range is lost.
    3. A value that would be clipped on one side uses the free integers on the other side.
    4. Other values keep their steps.

    These values remain symmetric:

    1. values in 16 bits, and second factors of products of activations;
    2. operands and results of shift-only functions, and their results after data movement;
    3. averages with ties that a multiplier would round wrongly;
    4. with `half-up` and `symmetric-factors`, the values that these options exclude. VTA rounds
       half up, but sums and averages with zero points round to even. Sums of unequal shapes do not
       count, because the host computes them.

    Accelerators fold the zero points of convolutions and products into the biases. Needs
    `graph.range` and `graph.exponent`. Changes no value.

    Before:

        %y = graph.unary <relu> %x {graph.range = array<f32: 0.0, 3.5>, graph.exponent = -5 : i64}
            : tensor<1x2xf32>

    After:

        %y = graph.unary <relu> %x {graph.range = array<f32: 0.0, 3.5>, graph.exponent = -6 : i64,
            graph.zero_point = -128 : i64} : tensor<1x2xf32>
    """

    name = "choose-zero-points"

    half_up: bool = False
    """Keep operands and results of sums and averages symmetric."""
    symmetric_factors: bool = False
    """Keep second factors symmetric also before data movement."""

    def change(self, main: FuncOp) -> None:
        refused: dict[SSAValue, None] = {}
        symmetric: set[SSAValue] = set()
        values: dict[SSAValue, None] = {}
        for inner in quantized_operations(main):
            own = [*data_operands(inner), *inner.results]
            values |= dict.fromkeys(own)
            if _is_symmetric(inner):
                refused |= dict.fromkeys(own)
                symmetric.update(inner.results)
            elif keeps_scale(inner) and not symmetric.isdisjoint(data_operands(inner)):
                refused |= dict.fromkeys(inner.results)
                symmetric.update(inner.results)
            elif self.half_up and _rounds_to_even(inner):
                refused |= dict.fromkeys(own)
            elif isinstance(inner, graph.LinearOperation) and inner.weights in values:
                factor = source_of(inner.weights) if self.symmetric_factors else inner.weights
                refused[factor] = None
        for value in values:
            if value not in refused:
                _choose(value)


def _is_symmetric(op: Operation) -> bool:
    match op:
        case graph.UnaryOp():
            return form_of(op) is Form.SHIFTS
        case graph.Pool2dOp():
            return _loses_ties(op)
        case _:
            return False


def _rounds_to_even(op: Operation) -> bool:
    match op:
        case graph.Pool2dOp():
            return op.function is graph.Pool.AVERAGE
        case _:
            return is_aligned_sum(op)


def _loses_ties(op: graph.Pool2dOp) -> bool:
    """
    Return whether a multiplier cannot represent the division of an average exactly, so that ties
    are rounded in a wrong direction: the divisor varies at the border, or is even but not a power
    of two.
    """
    size = prod(op.kernel.get_values())
    return op.function is graph.Pool.AVERAGE and (
        any(op.padding.get_values()) or (size % 2 == 0 and size.bit_count() > 1)
    )


def _choose(value: SSAValue) -> None:
    bounds, known = interval(value), exponent(value)
    bits = width(value)
    if bounds is None or known is None or bits > NARROW or zero_point(value):
        return
    if (chosen := affine(value)) is not None:
        set_exponent(value, chosen[0])
        set_zero_point(value, chosen[1])
        return
    # Zero is always represented exactly, because padding is zero.
    low, high = min(bounds[0], 0.0), max(bounds[1], 0.0)
    point = zero_point_of(low, known - 1, bits)
    min_integer, max_integer = signed_bounds(bits)
    reach, kept = ldexp(max_integer, known), ldexp(max_integer - point, known - 1)
    if min_integer <= point <= max_integer and (high <= kept or -low <= MAX_LOST_SHARE * reach):
        set_exponent(value, known - 1)
        set_zero_point(value, point)
    else:
        ends = round(ldexp(low, -known)), round(ldexp(high, -known))
        set_zero_point(value, _shifted_zero_point(*ends, bits))


def _shifted_zero_point(low: int, high: int, bits: int) -> int:
    """
    Return the zero point for a range [`low`, `high`], in units of the scale, that exceeds the
    integers of `bits` bits on one side only. It shifts the range by as many of the unused integers
    on the other side as needed. Return 0 if the range fits, or exceeds them on both sides.
    """
    min_integer, max_integer = signed_bounds(bits)
    below, above = low - min_integer, max_integer - high
    if above < 0 < below:
        return max(above, -below)
    return min(-below, above) if below < 0 < above else 0


@dataclass(frozen=True)
class ChooseRowExponentsPass(FloatNetworkPass, ResidualSpreadPass):
    """
    Choose a power of two for the weights of each output channel, with the least squared error. The
    largest exponent becomes `graph.weight_exponent`, and `graph.row_exponents` has the differences.

    The requantization then has a shift per channel. Accelerators with a single shift per layer
    leave such layers to the CPU. If a layer adds a residual, the scales are at most
    `residual_spread` octaves apart, because the shifts of the residual differ equally.
    `split-residual` separates the addition if larger differences are worth it. If `costly`, a layer
    keeps a single scale unless scales per channel reduce the squared error by a tenth. Changes no
    value.

    Before:

        %w = graph.constant dense<[[1.0, 0.5], [0.125, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
        %y = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>

    After:

        %w = graph.constant dense<[[1.0, 0.5], [0.125, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
        %y = graph.matmul %x, %w {graph.weight_exponent = -6 : i64,
            graph.row_exponents = array<i64: 0, -3>}
            : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
    """

    name = "choose-row-exponents"

    costly: bool = False
    """A shift per channel takes time on the target."""
    factors: bool = False
    """The target multiplies sums, so scales of narrow weights need not be powers of two."""

    def change(self, main: FuncOp) -> None:
        for linear in quantized_layers(main):
            spread = ROW_SPREAD if linear.residual is None else self.residual_spread
            weights = graph.constant_array(linear.weights)
            if weights is None or spread == 0 or given_type(linear) is not None:
                continue
            rows = weights.astype("float32", copy=False)
            bits = weight_bits(linear)
            has_factors = self.factors and bits < BYTE_BITS and linear.residual is None
            parts = OCTAVE_PARTS if has_factors else 1
            chosen = row_exponents_within(rows, spread, bits, parts)
            if chosen is None:
                continue
            scales = scales_of_parts(np.array(chosen), parts)
            if self.costly and not _reduce_error(rows, scales, bits):
                continue
            set_row_scales(linear, scales.tolist())


OCTAVE_PARTS = 8
"""The number of scales per octave of narrow weights, if the target multiplies sums."""

MAX_ROW_ERROR_RATIO = 0.9
"""The ratio of the errors with scales per channel and with a single scale for which they pay."""


def _reduce_error(weights: NDArray[np.float32], scales: NDArray[np.float64], bits: int) -> bool:
    """
    Return whether the `scales` of output channels reduce the squared rounding error of
    `weights`, stored in `bits` bits, by a tenth or more, compared with the best single scale.
    """
    bounds = weight_bounds(bits)
    rows = weights.reshape(len(weights), -1)
    common = np.full(len(rows), 2.0 ** least_squares_exponent(weights, *bounds))

    def error(scales: NDArray[np.float64]) -> float:
        steps = scales[:, None]
        rounded = np.clip(np.rint(rows / steps), *bounds) * steps
        return float(np.square(rounded - rows).sum())

    return error(scales) <= MAX_ROW_ERROR_RATIO * error(common)


@dataclass(frozen=True)
class ChooseWeightExponentsPass(FloatNetworkPass):
    """
    Choose the power of two at which constant weights, as integers in [-127, 127], have the least
    squared error. It becomes `graph.weight_exponent` of each convolution and matrix product that
    will be quantized. An existing exponent is kept. Changes no value.

    Before:

        %w = graph.constant dense<[[1.0, 0.5], [0.125, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
        %y = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>

    After:

        %w = graph.constant dense<[[1.0, 0.5], [0.125, 0.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
        %y = graph.matmul %x, %w {graph.weight_exponent = -6 : i64}
            : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
    """

    name = "choose-weight-exponents"

    def change(self, main: FuncOp) -> None:
        for linear in quantized_layers(main):
            weights = graph.constant_array(linear.weights)
            if weights is None or WEIGHT_EXPONENT in linear.attributes:
                continue
            bounds = weight_bounds(weight_bits(linear))
            chosen = least_squares_exponent(weights.astype("float32", copy=False), *bounds)
            linear.attributes[WEIGHT_EXPONENT] = IntegerAttr(chosen, i64)


@dataclass(frozen=True)
class AlignScalesPass(FloatNetworkPass):
    """
    Choose the final `graph.exponent` of each value, so that few values are requantized at run time.
    `graph.requantizations` on the function counts the remaining requantizations (paper S1, section
    3.1.4).

    1. If all consumers of a value need another scale, the producer computes it at that scale. The
       shift becomes part of the shift of the producer.
    2. Exponents are then raised until no rule changes them: a result is not finer than the
       accumulator, no shift exceeds 31, and no accumulator can exceed 32 bits.

    The argument and the result of a state (`graph.state`) have the same scale. Changes no value of
    the float network.

    Before:

        func.func @main(%x: tensor<2xf32> {graph.exponent = -5 : i64}) -> tensor<4xf32> {
          %a = graph.unary <tanh> %x {graph.exponent = -7 : i64} : tensor<2xf32>
          %y = graph.concat %x, %a {axis = 0 : i64, graph.exponent = -5 : i64}
              : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
          func.return %y : tensor<4xf32>
        }

    After:

        func.func @main(%x: tensor<2xf32> {graph.exponent = -5 : i64}) -> tensor<4xf32>
            attributes {graph.requantizations = {before = 1 : i64, after = 0 : i64}} {
          %a = graph.unary <tanh> %x {graph.exponent = -5 : i64} : tensor<2xf32>
          %y = graph.concat %x, %a {axis = 0 : i64, graph.exponent = -5 : i64}
              : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
          func.return %y : tensor<4xf32>
        }
    """

    name = "align-scales"

    def change(self, main: FuncOp) -> None:
        ops = quantized_operations(main)
        # The first count of an aligned network is kept.
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
    classes: ScaleClasses
    magnitudes: dict[Operation, Magnitudes] = field(default_factory=dict[Operation, Magnitudes])

    def run(self) -> None:
        # The loop terminates, because exponents only grow and are bounded.
        while sum(self._adjust(op) for op in self.classes.ops):
            pass

    def _adjust(self, op: Operation) -> bool:
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
        """
        Increase the exponent of the scale of constant weights until the accumulator fits 32 bits
        and the right shift to the result is at most 31. Return whether it changed.
        """
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
