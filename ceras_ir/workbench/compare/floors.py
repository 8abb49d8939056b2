"""
Measure the noise of a quantized network that remains with more bits, for `ceras-compare --propose`.

The float network runs with a single kind of rounding, so that the figures show which bits limit the
signal-to-noise ratio.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.data.samples import Array
from ceras_ir.dialects import graph
from ceras_ir.network.function import main_function, quantized_operations
from ceras_ir.network.storage import exponent, weight_bits
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.stages import BuildOptions, quantize_pass
from ceras_ir.transforms.pass_kinds import flatten
from ceras_ir.transforms.quantization.analysis.output_noise import (
    decibel_text,
    outputs_of,
    quantities_of_outputs,
    ratio_of,
)
from ceras_ir.transforms.quantization.analysis.scale_classes import source_of, value_storage
from ceras_ir.transforms.quantization.quantize_graph import QuantizeGraphPass
from ceras_ir.transforms.quantization.round_weights import (
    RoundWeightsPass,
    round_to_nearest,
    roundable_layers,
    steps_by_row,
)
from ceras_ir.transforms.quantization.set_precision import stored_values
from ceras_ir.transforms.rebuilding import replace_constant

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


class Floors(NamedTuple):
    """Signal-to-noise ratios of all outputs in dB; NaN if no output varies."""

    quantized: float
    wide: float
    """All stored values have 16 bits."""
    weights: float
    """Only weights are rounded."""
    values: float
    """Only stored values are rounded, to the bits that the options choose."""

    def __str__(self) -> str:
        return (
            f"signal to noise {decibel_text(self.quantized)}; all stored values in 16 bits "
            f"{decibel_text(self.wide)}, weights only {decibel_text(self.weights)}, activations "
            f"only {decibel_text(self.values)}"
        )


def floors(
    module: ModuleOp, options: BuildOptions, samples: Sequence[Mapping[str, Array]]
) -> Floors:
    """
    Quantize copies of `module`, a fused float network, with `options`, and measure the outputs on
    `samples`: with all rounding, with 16 bits for all stored values, and with the rounding of only
    weights or only stored values.
    """
    expected, quantities = outputs_of(module, samples), quantities_of_outputs(main_function(module))

    def ratio(found: ModuleOp) -> float:
        return ratio_of(expected, outputs_of(found, samples), quantities)

    def quantized(chosen: BuildOptions) -> ModuleOp:
        copy = module.clone()
        quantize_pass(chosen).apply(load_context(), copy)
        return copy

    weights, values = _with_scales(module, options), _with_scales(module, options, weights=False)
    _round_weights(main_function(weights))
    _round_values(main_function(values))
    wide = quantized(replace(options, int16=("*",)))
    return Floors(ratio(quantized(options)), ratio(wide), ratio(weights), ratio(values))


def _with_scales(module: ModuleOp, options: BuildOptions, *, weights: bool = True) -> ModuleOp:
    """
    Return a copy of a float network with all scales, as directly before the replacement of
    operations. Unless `weights`, no weights are rounded.
    """
    copy = module.clone()
    for pass_ in flatten(quantize_pass(options)):
        if isinstance(pass_, QuantizeGraphPass):
            break
        if weights or not isinstance(pass_, RoundWeightsPass):
            pass_.apply(load_context(), copy)
    return copy


def _round_weights(main: FuncOp) -> None:
    for op in roundable_layers(main):
        weights = graph.known_array(op.weights)
        rows = weights.astype(np.float64).reshape(len(weights), -1)
        rounded = round_to_nearest(rows, steps_by_row(op), weight_bits(op))
        replace_constant(op, op.weights, rounded.reshape(weights.shape).astype(np.float32))


def _round_values(main: FuncOp) -> None:
    """Insert a quantization and a dequantization after each stored value."""
    inside = quantized_operations(main)
    # A graph input that only float operations use is not stored.
    known = [
        value
        for value in stored_values(main)
        if exponent(source_of(value)) is not None
        and (value.owner in inside or any(use.operation in inside for use in value.uses))
    ]
    for value, element in [(v, value_storage(v).element) for v in known]:
        uses = list(value.uses)
        stored = graph.QuantizeOp(value, element)
        real = graph.DequantizeOp(stored.result)
        for use in uses:
            use.operation.operands[use.index] = real.result
        owner = value.owner
        point = (
            InsertPoint.at_start(owner) if isinstance(owner, Block) else InsertPoint.after(owner)
        )
        Rewriter.insert_op((stored, real), point)
