"""Copies of a calibrated network with some layers in another precision, quantized and judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ceras_ir.analysis.network import main_function
from ceras_ir.analysis.output_noise import outputs_of, ratio_of
from ceras_ir.analysis.precision import keep_in_float, widen
from ceras_ir.analysis.ranges import exponent
from ceras_ir.analysis.rounded_weights import nearest, roundable_layers
from ceras_ir.analysis.scale_classes import value_storage
from ceras_ir.analysis.sensitivity import InInt8
from ceras_ir.dialects import graph
from ceras_ir.transforms.correct_bias import CorrectBiasPass
from ceras_ir.transforms.quantize import finish
from ceras_ir.transforms.quantize_graph import QuantizeGraphPass
from ceras_ir.transforms.rebuilding import replace_constant
from ceras_ir.transforms.round_weights import RoundWeightsPass
from ceras_ir.transforms.rounded_layers import steps_by_row
from ceras_ir.transforms.set_precision import spread
from ceras_ir.transforms.unfuse_residual import UnfuseResidualPass

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ceras_ir.analysis.sensitivity import Sample, Sensitivity


def keep(value: SSAValue, *, in_float: bool) -> None:
    """Have the operation that makes `value` stay in float, or its result have 16 bits."""
    if not in_float:
        widen(value)
        return
    assert isinstance(value.owner, Operation)
    keep_in_float(value.owner)


def in_int8(ctx: Context, module: ModuleOp, calibration: str, samples: int) -> InInt8:
    """What the recipe makes of a calibrated network where all is in int8."""
    copies: dict[SSAValue, SSAValue] = {}
    copy = module.clone(copies)
    steps = _until(QuantizeGraphPass, finish(calibration, samples))
    aligned = _until(UnfuseResidualPass, steps)
    for step in aligned:
        step.apply(ctx, copy)
    storages = {v: value_storage(new) for v, new in copies.items() if exponent(new) is not None}
    for step in steps[len(aligned) :]:
        # Biases do not matter.
        if not isinstance(step, CorrectBiasPass):
            step.apply(ctx, copy)
    found: dict[Operation, NDArray[np.float32]] = {}
    chosen = dict.fromkeys(roundable_layers(main_function(copy)))
    for op, counterpart in zip(_linear(module), _linear(copy), strict=True):
        weights = graph.constant_array(counterpart.weights)
        if counterpart in chosen and weights is not None:
            rows = weights.astype(np.float64).reshape(len(weights), -1)
            stored = nearest(rows, steps_by_row(counterpart)).astype(np.float32)
            found[op] = stored.reshape(weights.shape)
    return InInt8(found, storages)


def _until(last: type[ModulePass], passes: Sequence[ModulePass]) -> Sequence[ModulePass]:
    return passes[: next(i for i, step in enumerate(passes) if isinstance(step, last))]


def _linear(module: ModuleOp) -> list[graph.LinearOperation]:
    ops = main_function(module).body.block.ops
    return [op for op in ops if isinstance(op, graph.LinearOperation)]


class PrecisionTrials:
    """Quantizes copies of a network and compares them with it."""

    def __init__(
        self,
        ctx: Context,
        module: ModuleOp,
        calibration: str,
        samples: Sequence[Sample],
        weights: Mapping[Operation, NDArray[np.float32]],
    ):
        self.ctx, self.module, self.samples, self.weights = ctx, module, samples, weights
        # Weights are rounded once and for all: that takes longest, and depends little on the rest.
        steps = finish(calibration, len(samples))
        self.steps = [step for step in steps if not isinstance(step, RoundWeightsPass)]
        self.expected = outputs_of(module, samples)

    def noise(self, layers: Sequence[Sensitivity]) -> float:
        """Noise over signal of all outputs with these layers kept."""
        copies: dict[SSAValue, SSAValue] = {}
        module = self.module.clone(copies)
        floats = {layer.value for layer in layers if layer.in_float}
        for layer in layers:
            keep(copies[layer.value], in_float=layer.in_float)
        for op, stored in self.weights.items():
            owner = copies[op.results[0]].owner
            if op.results[0] not in floats and isinstance(owner, graph.LinearOperation):
                replace_constant(owner, owner.weights, stored)
        spread(main_function(module))
        for step in self.steps:
            step.apply(self.ctx, module)
        return 10 ** (-ratio_of(self.expected, outputs_of(module, self.samples)) / 10)
