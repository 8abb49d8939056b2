"""Choose a scale for the weights of every output channel."""

from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.dialects.func import FuncOp

from ceras_ir.dialects import graph
from ceras_ir.network.integer import row_exponents_within
from ceras_ir.network.quantizable import quantized_layers
from ceras_ir.network.storage import ROW_EXPONENTS, WEIGHT_EXPONENT
from ceras_ir.targets.protocol import ROW_SPREAD
from ceras_ir.transforms.float_network_pass import FloatNetworkPass
from ceras_ir.transforms.quantization.rewrites.residual_spread_pass import ResidualSpreadPass


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
