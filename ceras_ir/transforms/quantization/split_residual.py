"""Take out residuals of layers that will have a scale for each row of weights."""

from dataclasses import dataclass

from xdsl.dialects.func import FuncOp

from ceras_ir.dialects import graph
from ceras_ir.network.integer import (
    WEIGHT_LOW,
    least_squares_exponent,
    row_exponents_within,
    squared_error,
)
from ceras_ir.network.quantizable import quantized_layers
from ceras_ir.targets.protocol import ROW_SPREAD
from ceras_ir.transforms.float_network_pass import FloatNetworkPass
from ceras_ir.transforms.quantization.rewrites.residual_spread_pass import ResidualSpreadPass
from ceras_ir.transforms.quantization.rewrites.residuals import split_residual

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
