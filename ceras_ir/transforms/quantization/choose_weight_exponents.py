"""Choose the scales of constant weights."""

from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.dialects.func import FuncOp

from ceras_ir.dialects import graph
from ceras_ir.network.integer import WEIGHT_LOW, least_squares_exponent
from ceras_ir.network.quantizable import quantized_layers
from ceras_ir.network.storage import WEIGHT_EXPONENT
from ceras_ir.transforms.float_network_pass import FloatNetworkPass


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
