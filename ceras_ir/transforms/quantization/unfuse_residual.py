"""Undo `fuse-epilogues{residuals}` where the residual cannot be aligned with the accumulator."""

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.linear import MAX_RESIDUAL_SHIFT
from ceras_ir.network.integer import fitting_exponent
from ceras_ir.network.quantizable import quantized_layers
from ceras_ir.network.storage import (
    FINER,
    LONGEST,
    WIDE,
    factor_exponents,
    interval,
    largest,
    row_exponents,
    set_exponent,
    set_range,
    set_width,
    width,
)
from ceras_ir.transforms.float_network_pass import FloatNetworkPass
from ceras_ir.transforms.quantization.analysis.accumulator_bounds import holds
from ceras_ir.transforms.quantization.analysis.scale_classes import value_exponent
from ceras_ir.transforms.quantization.rewrites.residuals import split_residual


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
    exponent -= FINER if bits == WIDE else 0
    set_exponent(plain.result, min(max(exponent, accumulator), accumulator + LONGEST))


def _before_residual(op: graph.LinearOperation, residual: SSAValue) -> tuple[float, float]:
    """
    What the convolution alone can be while the sum is as it was seen: sum less residual.
    Where a lower bound of the activation hides the sum, smaller values end at that bound too.
    """
    ends: list[tuple[float, float]] = []
    for value in (op.result, residual):
        end = (largest(value) - 1) * 2.0 ** value_exponent(value)
        ends.append(interval(value) or (-end, end))
    total, added = ends
    return total[0] - added[1], total[1] - added[0]
