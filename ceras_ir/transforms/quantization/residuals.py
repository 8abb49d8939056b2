"""
Passes that take a residual out of the layer that added it.

The pass `split-residual` does this for layers that will have a scale for each row of weights. The
pass `unfuse-residual` does this where the residual cannot be aligned with the accumulator.
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
    WEIGHT_LOW,
    fitting_exponent,
    least_squares_exponent,
    row_exponents_within,
    squared_error,
)
from ceras_ir.network.storage import (
    EXTRA_FRACTION_BITS,
    MAX_RIGHT_SHIFT_BITS,
    WIDE,
    copy_statistics,
    drop_statistics,
    factor_exponents,
    interval,
    max_stored_distance,
    row_exponents,
    set_exponent,
    set_range,
    set_width,
    width,
)
from ceras_ir.targets.protocol import ROW_SPREAD
from ceras_ir.transforms.pass_kinds import FloatNetworkPass, NetworkPass
from ceras_ir.transforms.quantization.accumulators import holds
from ceras_ir.transforms.quantization.analysis.scale_classes import value_exponent
from ceras_ir.transforms.quantization_options import ResidualSpreadOptions
from ceras_ir.transforms.rebuilding import rebuild_linear

# What the passes that depend on how a target shifts residuals have in common.


@dataclass(frozen=True)
class ResidualSpreadPass(ResidualSpreadOptions, NetworkPass):
    """Does something else where the residual of each channel has a shift of its own."""

    def __post_init__(self) -> None:
        if not 0 <= self.residual_spread <= ROW_SPREAD:
            raise ValueError(
                f"residual_spread must be in [0, {ROW_SPREAD}], got {self.residual_spread}"
            )


# A residual outside of the layer that added it.


def split_residual(
    op: graph.LinearOperation, residual: SSAValue
) -> tuple[graph.LinearOperation, graph.BinaryOp]:
    """The layer without its residual, and the addition, put in its place."""
    plain = rebuild_linear(op, {"activation": None, "residual_shift": None}, residual=None)
    drop_statistics(plain)  # They are the sum's.
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


# Take out residuals of layers that will have a scale for each row of weights.

WORTHWHILE = 2
"""How much less error weights must have to pay for an addition of its own."""


@dataclass(frozen=True)
class SplitResidualPass(FloatNetworkPass, ResidualSpreadPass):
    """
    Take a residual out of an epilogue where the layer gains from per-channel weight scales. It
    gains if they have at most half of the squared error of its constant weights. A target that
    shifts the residual of each channel by itself keeps the residual where scales that are
    `residual_spread` octaves apart, as `choose-row-exponents` then makes them, gain enough.

    Runs behind `equalize-channels`, which moves rows apart, and before ranges are observed.
    Calibration then sees the range of the layer alone. `unfuse-residual` only knows that range as
    sum less residual, which is often octaves more.

    Exact, because the epilogue adds the residual before it applies its function.
    """

    name = "split-residual"

    def change(self, main: FuncOp) -> None:
        for linear in quantized_layers(main):
            if linear.residual is not None and _rows_pay(linear, self.residual_spread):
                split_residual(linear, linear.residual)


def _rows_pay(op: graph.LinearOperation, spread: int) -> bool:
    """
    Whether a scale for each row takes so much error from the weights, beside scales that are
    `spread` octaves apart, that it pays for a sum.
    """
    weights = graph.constant_array(op.weights)
    if weights is None:
        return False
    rows = weights.astype("float32", copy=False)
    one = squared_error(rows, least_squares_exponent(rows, WEIGHT_LOW), WEIGHT_LOW)

    def error(spread: int) -> float:
        exponents = row_exponents_within(rows, spread) or [0] * len(rows)
        return sum(squared_error(*pair, WEIGHT_LOW) for pair in zip(rows, exponents, strict=True))

    kept = min(one, error(spread)) if spread else one
    return kept >= WORTHWHILE * error(ROW_SPREAD) > 0


# Undo `fuse-epilogues{residuals}` where the residual cannot be aligned with the accumulator.


@dataclass(frozen=True)
class UnfuseResidualPass(FloatNetworkPass):
    """
    Take a residual out of an epilogue into an addition of its own where the epilogue cannot add it.
    There are two reasons:

    1. The residual is finer than the accumulator of a channel, so that no left shift aligns it.
    2. It is so coarse that the shifted residual could overflow 32 bits.

    Runs on final exponents, which `fuse-epilogues` cannot know: until then the sum is observed,
    equalized and given a scale as one.

    Exact, because the epilogue adds the residual before it applies its function.
    """

    name = "unfuse-residual"
    removed_options: ClassVar = {"for-rows": "split-residual is a pass of its own"}

    def change(self, main: FuncOp) -> None:
        for linear in quantized_layers(main):
            if linear.residual is not None:
                _unfuse(linear, linear.residual)


def _unfuse(op: graph.LinearOperation, residual: SSAValue) -> None:
    source, weights = factor_exponents(op, value_exponent)
    accumulator = source + weights
    rows = row_exponents(op) or (0,)
    least, most = (value_exponent(residual) - accumulator - end for end in (max(rows), min(rows)))
    aligned = least >= 0 and most <= MAX_RESIDUAL_SHIFT
    if aligned and holds(op, value_exponent):
        return
    low, high = _before_residual(op, residual)
    bits = width(op.result)
    plain, total = split_residual(op, residual)
    set_range(plain.result, low, high)
    exponent = fitting_exponent(max(-low, high))
    set_width(total.result, bits)
    set_width(plain.result, bits)
    exponent -= EXTRA_FRACTION_BITS if bits == WIDE else 0
    set_exponent(plain.result, min(max(exponent, accumulator), accumulator + MAX_RIGHT_SHIFT_BITS))


def _before_residual(op: graph.LinearOperation, residual: SSAValue) -> tuple[float, float]:
    """
    What the convolution alone can be while the sum is as it was seen: sum less residual.
    Where a lower bound of the activation hides the sum, smaller values end at that bound too.
    """
    ends: list[tuple[float, float]] = []
    for value in (op.result, residual):
        end = (max_stored_distance(value) - 1) * 2.0 ** value_exponent(value)
        ends.append(interval(value) or (-end, end))
    total, added = ends
    return total[0] - added[1], total[1] - added[0]
