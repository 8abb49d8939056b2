"""Take the mean error of rounding out of biases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from ceras_ir.dialects import graph
from ceras_ir.network.function import main_function
from ceras_ir.network.ranges import LAYER
from ceras_ir.transforms.quantization.analysis.sensitivity import LARGE
from ceras_ir.transforms.quantization.rewrites.calibrated_pass import CalibratedPass

if TYPE_CHECKING:
    from ceras_ir.transforms.memory.analysis.stepwise import Stepwise

SAMPLES, SAMPLES_LARGE = 16, 4
"""How many samples are kept in memory at most, and of large networks."""


@dataclass(frozen=True)
class CorrectBiasPass(CalibratedPass):
    """
    Subtract from each bias the mean error that rounding adds to its output channel.

    Rounding moves the mean of every channel: weights by their rounding error times the mean input,
    inputs by clipping and rounding in all layers before. The pass goes through the layers in order
    and compares the quantized network's mean sums with the float network's. A layer without a bias
    gets one.

    Means are over 16 of the samples, or 4 where an inference has 10^9 multiplications.
    Without data nothing is done. Not exact: it changes the float network so that the quantized one
    is right on average. A bias that 32 bits could not hold stays.
    """

    name = "correct-bias"

    def improve(self, ctx: Context, op: ModuleOp) -> None:
        from ceras_ir.transforms.memory.analysis.stepwise import Stepwise
        from ceras_ir.transforms.quantization.analysis.rounded_weights import roundable_layers
        from ceras_ir.transforms.quantization.analysis.sensitivity import multiplications
        from ceras_ir.transforms.quantization.quantize_graph import QuantizeGraphPass

        main = main_function(op)
        most = SAMPLES_LARGE if multiplications(main) > LARGE else SAMPLES
        samples = list(self.data(op, "correcting biases", most))
        chosen = roundable_layers(main)
        numbers = {layer: i for i, layer in enumerate(main.body.block.ops)}
        layers = {numbers[layer]: layer for layer in chosen}
        floats, integers = op.clone(), op.clone()
        for i, copy in enumerate(main_function(integers).body.block.ops):
            copy.attributes[LAYER] = IntegerAttr(i, i64)
        QuantizeGraphPass().apply(ctx, integers)
        _correct(layers, floats, Stepwise(floats, samples), integers, Stepwise(integers, samples))


def _correct(
    layers: dict[int, graph.LinearOperation],
    floats: ModuleOp,
    real: Stepwise,
    integers: ModuleOp,
    stored: Stepwise,
) -> None:
    """Walk through both networks together and correct `layers`, which a third one has."""
    from ceras_ir.transforms.quantization.analysis.layer_noise import layer_of

    references = enumerate(list(main_function(floats).body.block.ops))
    for op in list(main_function(integers).body.block.ops):
        number = layer_of(op)
        if number in layers and isinstance(op, graph.LinearOperation):
            for i, reference in references:
                if i == number:
                    assert isinstance(reference, graph.LinearOperation)
                    op = _correct_layer(layers[number], reference, real, op, stored)
                real.run(reference)
                if i == number:
                    break
        stored.run(op)


def _correct_layer(
    layer: graph.LinearOperation,
    reference: graph.LinearOperation,
    real: Stepwise,
    quantized: graph.LinearOperation,
    stored: Stepwise,
) -> graph.LinearOperation:
    """Correct one layer, and its quantized form, which is returned."""
    from ceras_ir.transforms.quantization.analysis.input_moments import InputMoments
    from ceras_ir.transforms.quantization.rewrites.integer_forms import stored_bias
    from ceras_ir.transforms.quantization.rewrites.rounded_layers import (
        correct_bias,
        replace_layer,
        with_bias,
    )

    moments = [InputMoments(layer, products=False) for _ in range(2)]
    for seen, arrays in zip(
        moments, (real.real(reference.input), stored.real(quantized.input)), strict=True
    ):
        for array in arrays:
            seen.see(array)
    corrected = correct_bias(*moments)
    if corrected is layer or corrected.bias is None:
        return quantized
    bias = stored_bias(corrected.bias, quantized.input, quantized.weights)
    assert bias is not None, "what fits the proof fits 32 bits"
    new = with_bias(quantized, bias)
    replace_layer(quantized, new)
    return new
