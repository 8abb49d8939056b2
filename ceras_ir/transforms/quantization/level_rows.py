"""Give the rows of a last layer's weights one scale."""

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import UnitAttr
from xdsl.dialects.func import FuncOp

from ceras_ir.dialects import graph
from ceras_ir.network.function import states_of
from ceras_ir.network.integer import row_exponents_within
from ceras_ir.network.quantizable import quantized_operations
from ceras_ir.network.storage import EQUALIZED, forget
from ceras_ir.targets.protocol import ROW_SPREAD
from ceras_ir.transforms.float_network_pass import FloatNetworkPass
from ceras_ir.transforms.quantization.analysis.channel_slots import absorbs
from ceras_ir.transforms.quantization.rewrites.channel_scales import multiply_by_ones
from ceras_ir.transforms.quantization.rewrites.residual_spread_pass import ResidualSpreadPass
from ceras_ir.transforms.rebuilding import replace_constant


@dataclass(frozen=True)
class LevelRowsPass(FloatNetworkPass, ResidualSpreadPass):
    """
    Multiply the rows of a layer's weights, and its bias, by powers of two that bring all rows to
    one scale, and divide its channels by them in float. This is done where only floats read the
    layer, and its rows are more than `residual_spread` octaves apart.

    An accelerator that shifts a residual by as many bits in every channel can then make 16 bits of
    such a layer, see `split-wide{results}`. Runs before ranges are observed.

    Exact, because powers of two are.
    """

    name = "level-rows"

    def change(self, main: FuncOp) -> None:
        inside = quantized_operations(main)
        # What the next call reads goes there as integers.
        kept = {state.result for state in states_of(main)}
        for layer in inside:
            if not isinstance(layer, graph.LinearOperation) or not absorbs(layer):
                continue
            if layer.residual is not None or layer.activation is not None or layer.output in kept:
                continue
            read = any(use.operation in inside for use in layer.output.uses)
            if not read and _level(layer, self.residual_spread):
                main.attributes[EQUALIZED] = UnitAttr()


def _level(op: graph.LinearOperation, spread: int) -> bool:
    weights = graph.known_array(op.weights).astype(np.float32)
    exponents = row_exponents_within(weights, ROW_SPREAD)
    if exponents is None or max(exponents) - min(exponents) <= spread:
        return False
    factors = np.exp2(max(exponents) - np.array(exponents)).astype(np.float32)
    scaled = multiply_by_ones(op.output)
    replace_constant(scaled, scaled.rhs, (1 / factors).astype(np.float32))
    replace_constant(op, op.weights, weights * factors.reshape(-1, *[1] * (weights.ndim - 1)))
    if op.bias is not None:
        replace_constant(op, op.bias, graph.known_array(op.bias).astype(np.float32) * factors)
    forget(op.output)
    return True
