"""
Move a residual from the layer that adds it to a separate addition.

The pass `split-residual` does this for layers that gain from per-channel weight scales. The pass
`unfuse-residual` does this if the residual cannot be aligned with the accumulator.
"""

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.linear import MAX_RESIDUAL_SHIFT
from ceras_ir.network.function import quantized_layers
from ceras_ir.network.integer import (
    least_squares_exponent,
    row_exponents_within,
    squared_error,
    weight_bounds,
)
from ceras_ir.network.storage import (
    MAX_RIGHT_SHIFT_BITS,
    copy_statistics,
    drop_statistics,
    factor_exponents,
    fitting_value_exponent,
    interval,
    max_stored_distance,
    row_exponents,
    row_factors,
    set_exponent,
    set_range,
    set_width,
    weight_bits,
    width,
)
from ceras_ir.targets.protocol import ROW_SPREAD
from ceras_ir.transforms.pass_kinds import FloatNetworkPass, NetworkPass
from ceras_ir.transforms.quantization.accumulators import holds
from ceras_ir.transforms.quantization.analysis.scale_classes import value_exponent
from ceras_ir.transforms.quantization_options import ResidualSpreadOptions
from ceras_ir.transforms.rebuilding import rebuild_linear


@dataclass(frozen=True)
class ResidualSpreadPass(ResidualSpreadOptions, NetworkPass):
    """
    Base class of passes with the option `residual_spread`: the largest difference of the residual
    shifts of two channels of a layer, in bits.
    """

    def __post_init__(self) -> None:
        if not 0 <= self.residual_spread <= ROW_SPREAD:
            raise ValueError(
                f"residual_spread must be in [0, {ROW_SPREAD}], got {self.residual_spread}"
            )


def split_residual(
    op: graph.LinearOperation, residual: SSAValue
) -> tuple[graph.LinearOperation, graph.BinaryOp]:
    """
    Replace a layer that adds `residual` by a layer without residual and an addition with the
    activation of the layer. Return both operations.
    """
    plain = rebuild_linear(op, {"activation": None, "residual_shift": None}, residual=None)
    drop_statistics(plain)  # They belong to the sum.
    total = graph.BinaryOp(
        graph.Binary.ADD,
        plain.result,
        residual,
        result_element=graph.element_of(op.result),
        activation=op.activation,
    )
    total.location = op.location
    copy_statistics(op, total)
    Rewriter.insert_op([plain, total], InsertPoint.before(op))
    op.result.replace_all_uses_with(total.result)
    Rewriter.erase_op(op)
    return plain, total


MIN_ERROR_RATIO = 2
"""The minimum ratio of squared errors for which a separate addition pays."""


@dataclass(frozen=True)
class SplitResidualPass(FloatNetworkPass, ResidualSpreadPass):
    """
    Separate the residual of a layer that gains from per-channel weight scales, which is the case if
    they halve the squared error of its constant weights.

    A target with per-channel residual shifts keeps the residual if scales that differ by at most
    `residual_spread` octaves, as chosen by `choose-row-exponents`, are sufficient.

    Runs after `equalize-channels`, which increases the differences between output channels, and
    before ranges are observed. Calibration then observes the range of the layer without residual.
    `unfuse-residual` only knows the difference of sum and residual, which is often octaves wider.

    Exact, because the residual is added before the activation.

    Before:

        %w = graph.constant dense<[[3.0, 0.3], [0.011, 0.013]]> : tensor<2x2xf32> : tensor<2x2xf32>
        %y = graph.matmul %x, %w residual %r : tensor<1x2xf32>
            : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>

    After:

        %w = graph.constant dense<[[3.0, 0.3], [0.011, 0.013]]> : tensor<2x2xf32> : tensor<2x2xf32>
        %a = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
        %y = graph.binary add %a, %r : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
    """

    name = "split-residual"

    def change(self, main: FuncOp) -> None:
        for linear in quantized_layers(main):
            if linear.residual is not None and _gains_from_channel_scales(
                linear, self.residual_spread
            ):
                split_residual(linear, linear.residual)


def _gains_from_channel_scales(op: graph.LinearOperation, spread: int) -> bool:
    weights = graph.constant_array(op.weights)
    if weights is None:
        return False
    rows = weights.astype("float32", copy=False)
    bits = weight_bits(op)
    bounds = weight_bounds(bits)
    common = squared_error(rows, least_squares_exponent(rows, *bounds), *bounds)

    def error(spread: int) -> float:
        exponents = row_exponents_within(rows, spread, bits) or [0] * len(rows)
        return sum(squared_error(*pair, *bounds) for pair in zip(rows, exponents, strict=True))

    fused = min(common, error(spread)) if spread else common
    return fused >= MIN_ERROR_RATIO * error(ROW_SPREAD) > 0


@dataclass(frozen=True)
class UnfuseResidualPass(FloatNetworkPass):
    """
    Separate the residual of a layer that cannot add it, in one of two cases:

    1. The residual is finer than the accumulator of a channel, or the scales of its weights are no
       powers of two, so no left shift aligns it.
    2. It is so coarse that the shifted residual could overflow 32 bits.

    Runs on final exponents, which `fuse-epilogues` does not know: before, the sum is observed,
    equalized and given a scale as a single value.

    Exact, because the residual is added before the activation.

    In this example, the accumulator has steps of 2^-6, and the residual has steps of 2^-7.

    Before:

        %r = graph.unary <tanh> %x {graph.exponent = -7 : i64} : tensor<1x2xf32>
        %w = graph.constant dense<1.0> : tensor<2x2xf32> : tensor<2x2xf32>
        %y = graph.matmul %r, %w residual %r : tensor<1x2xf32>
            {graph.weight_exponent = 1 : i64, graph.exponent = -4 : i64}
            : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>

    After:

        %r = graph.unary <tanh> %x {graph.exponent = -7 : i64} : tensor<1x2xf32>
        %w = graph.constant dense<1.0> : tensor<2x2xf32> : tensor<2x2xf32>
        %a = graph.matmul %r, %w {graph.weight_exponent = 1 : i64, graph.exponent = -3 : i64,
            graph.range = array<f32: -8.9296875, 8.9296875>}
            : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
        %y = graph.binary add %a, %r {graph.exponent = -4 : i64}
            : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
    """

    name = "unfuse-residual"
    removed_options: ClassVar = {"for-rows": "use the pass split-residual"}

    def change(self, main: FuncOp) -> None:
        for linear in quantized_layers(main):
            if linear.residual is not None:
                _unfuse(linear, linear.residual)


def _unfuse(op: graph.LinearOperation, residual: SSAValue) -> None:
    source, weights = factor_exponents(op, value_exponent)
    accumulator = source + weights
    rows = row_exponents(op) or (0,)
    shift = value_exponent(residual) - accumulator
    is_aligned = shift >= max(rows) and shift - min(rows) <= MAX_RESIDUAL_SHIFT
    is_aligned = is_aligned and row_factors(op) is None
    if is_aligned and holds(op, value_exponent):
        return
    low, high = _before_residual(op, residual)
    bits = width(op.result)
    plain, total = split_residual(op, residual)
    set_range(plain.result, low, high)
    set_width(total.result, bits)
    set_width(plain.result, bits)
    exponent = fitting_value_exponent(plain.result, (low, high))
    set_exponent(plain.result, min(max(exponent, accumulator), accumulator + MAX_RIGHT_SHIFT_BITS))


def _before_residual(op: graph.LinearOperation, residual: SSAValue) -> tuple[float, float]:
    """
    Return the range of the sum before the residual is added:
    `[low - max residual, high - min residual]` for a sum in `[low, high]`.

    The sum is known only after the activation. With ReLU, for example, `low` is 0, although the sum
    can be negative.
    """
    ranges: list[tuple[float, float]] = []
    for value in (op.result, residual):
        bound = (max_stored_distance(value) - 1) * 2.0 ** value_exponent(value)
        ranges.append(interval(value) or (-bound, bound))
    total, added = ranges
    return total[0] - added[1], total[1] - added[0]
